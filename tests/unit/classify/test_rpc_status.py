"""``google.rpc.RetryInfo``: read from the bytes that a server sends, and from nothing else."""

from __future__ import annotations

import math
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stormproof as sp
from stormproof._classify.rpc_status import retry_info


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def status(
    seconds: int, nanos: int = 0, type_url: bytes = b"type.googleapis.com/google.rpc.RetryInfo"
) -> bytes:
    duration = field(1, seconds) + field(2, nanos)
    other = field(1, b"type.googleapis.com/google.rpc.DebugInfo") + field(2, b"\x0a\x00")
    detail = field(1, type_url) + field(2, field(1, duration))
    return field(1, 8) + field(2, b"quota") + field(3, other) + field(3, detail)


def trailers(value: bytes) -> list[tuple[str, bytes]]:
    return [("x-other", b"1"), ("grpc-status-details-bin", value)]


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        (status(7), 7.0),
        (status(1, 500_000_000), 1.5),
        (status(0), 0.0),
        (status(10**12), math.inf),
        (status((1 << 64) - 5), None),
        (status(7, type_url=b"type.googleapis.com/google.rpc.ErrorInfo"), None),
        (b"", None),
        (b"\xff" * 20, None),
        (status(7)[:-3], None),
        (b"x" * 100_000, None),
    ],
)
def test_retry_info_gives_the_servers_wait(value: bytes, wait: float | None) -> None:
    assert retry_info(trailers(value)) == wait


@pytest.mark.parametrize("given", [None, 7, "text", [("grpc-status-details-bin", "text")], [1, 2]])
def test_foreign_trailers_give_no_retry_info(given: Any) -> None:
    assert retry_info(given) is None


@given(st.binary(max_size=200))
def test_hostile_bytes_never_raise(value: bytes) -> None:
    wait = retry_info(trailers(value))
    assert wait is None or wait >= 0


class Failure(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, metadata: Any) -> None:
        self._code, self._metadata = code, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def trailing_metadata(self) -> Any:
        return self._metadata


def test_retry_info_is_a_hint_and_makes_resource_exhausted_retryable() -> None:
    exhausted, unavailable = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE
    for code in (exhausted, unavailable):
        verdict = sp.transient(Failure(code, trailers(status(7))))
        assert (verdict.retry, verdict.after) == (True, 7.0)
    assert not sp.transient(Failure(exhausted, ())).retry
    pushed = [("grpc-retry-pushback-ms", "2000"), *trailers(status(7))]
    assert sp.transient(Failure(unavailable, pushed)).after == 2.0
    assert not sp.transient(Failure(grpc.StatusCode.INVALID_ARGUMENT, trailers(status(7)))).retry
