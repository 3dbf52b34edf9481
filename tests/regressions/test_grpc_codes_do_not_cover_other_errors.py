"""A policy made from a service config retried, and hedged, errors that have no gRPC status at all: a
``ConnectionError`` of the caller's own database was taken for one of the listed codes.

Stormproof: by a service config only the listed codes are retried; what has no status is fatal.
"""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from tests.support.scripted import SYNC

import stormproof as sp
from stormproof import presets
from stormproof.presets.service_config import StatusCodes


class Failed(grpc.RpcError):
    def __init__(self, code: str, *trailing: tuple[str, str]) -> None:
        self._code = grpc.StatusCode[code]
        self._trailing = trailing

    def code(self) -> Any:
        return self._code

    def trailing_metadata(self) -> Any:
        return self._trailing

    def details(self) -> str:
        return ""


def judged(error: Exception, *codes: str) -> tuple[bool, str]:
    verdict = StatusCodes(codes)(error)
    return verdict.retry, verdict.reason


PUSHED = Failed("RESOURCE_EXHAUSTED", ("grpc-retry-pushback-ms", "5"))


@pytest.mark.parametrize("codes", [(), ("UNAVAILABLE",)])
@pytest.mark.parametrize("error", [ConnectionError(), TimeoutError(), ConnectionResetError(104, "reset")])
def test_error_without_a_status_is_fatal(error: Exception, codes: tuple[str, ...]) -> None:
    assert judged(error, *codes) == (False, "no gRPC status")


def test_error_without_a_grpc_status_is_not_retried() -> None:
    retry = {
        "maxAttempts": 3,
        "initialBackoff": "1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 1,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    config = {"methodConfig": [{"name": [{}], "retryPolicy": retry}]}
    policy = presets.grpc(config, "a.B/C", rng=lambda: 0.5)
    SYNC(policy, ConnectionError, "ok").raised(ConnectionError).made(1)
    SYNC(policy, Failed("UNAVAILABLE"), sp.RetryAfter(3, Failed("UNAVAILABLE")), "ok").returned("ok").slept(
        1, 3
    )


def test_error_without_a_grpc_status_sends_no_further_hedge() -> None:
    hedge = {"maxAttempts": 3, "hedgingDelay": "5s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
    policy = presets.grpc({"methodConfig": [{"name": [{}], "hedgingPolicy": hedge}]}, "a.B/C")
    made: list[type[Exception]] = []

    async def fails(error: Exception) -> None:
        made.append(type(error))
        raise error

    async def main(clock: Any) -> None:
        for error in (ConnectionError(), Failed("UNAVAILABLE")):
            with pytest.raises(type(error)):
                await policy.acall(fails, error)

    sp.testing.run(main)
    assert made == [ConnectionError, Failed, Failed, Failed]


def test_group_needs_a_listed_code_in_every_leaf() -> None:
    listed = Failed("UNAVAILABLE")
    assert judged(ExceptionGroup("", [listed, ExceptionGroup("", [listed])]), "UNAVAILABLE")[0]
    assert judged(ExceptionGroup("", [listed, sp.RetryAfter(1, listed)]), "UNAVAILABLE")[0]
    assert judged(ExceptionGroup("", [listed, ConnectionError()]), "UNAVAILABLE") == (False, "no gRPC status")
    assert judged(ExceptionGroup("", [listed, PUSHED]), "UNAVAILABLE") == (False, "gRPC RESOURCE_EXHAUSTED")


def test_attempt_cut_off_is_deadline_exceeded() -> None:
    """As the channel's own timeout of one attempt is, in sync calls."""
    cut_off = sp.AttemptTimeout("")
    assert judged(cut_off, "UNAVAILABLE") == (False, "gRPC DEADLINE_EXCEEDED")
    assert StatusCodes(("DEADLINE_EXCEEDED",))(cut_off).kind == "timeout"
