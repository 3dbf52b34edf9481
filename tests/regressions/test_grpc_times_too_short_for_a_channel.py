"""grpc#41036, open: a channel that is to wait for less than 2 ms may hang between two attempts. One that is
to wait for less than 1 ms is refused as a whole, and a timeout of less than 1 ms is none.

Stormproof: a service config is written with times that every channel keeps to, and the change is reported.
"""

from __future__ import annotations

import json
from concurrent import futures
from typing import Any

import grpc
import pytest

import stormproof as sp
from stormproof import presets
from stormproof.grpc import LossyServiceConfig, from_service_config, to_service_config
from stormproof.presets.service_config import StatusCodes


def retrying(backoff: Any) -> sp.Policy:
    return sp.Policy(
        sp.Retry(StatusCodes(("UNAVAILABLE",)), attempts=3, backoff=backoff, within=None, budget=None)
    )


def constant(wait: float) -> Any:
    return sp.Constant(wait, jitter=sp.Symmetric(0.2))


def written(policy: sp.Policy, *lost: str) -> dict[str, Any]:
    """The entry for all methods, once the ``lost`` parts have been reported; it can be read again."""
    with pytest.raises(LossyServiceConfig) as caught:
        to_service_config(policy)
    assert caught.value.losses == tuple(f"all methods: {loss}" for loss in lost)
    text = to_service_config(policy, lossy=True)
    from_service_config(text)
    return json.loads(text)["methodConfig"][0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("wait", [0.0, 1e-11, 1e-9, 0.0005, 0.001, 0.0019])
def test_short_waits_become_2_ms(wait: float) -> None:
    warning = f"a wait of {wait:g} s, which becomes 0.002 s"
    retry = written(retrying(constant(wait)), warning)["retryPolicy"]
    assert (retry["initialBackoff"], retry["maxBackoff"]) == ("0.002s", "0.002s")
    if wait:
        first = written(retrying(presets.GrpcBackoff(wait, 1, 2)), warning)["retryPolicy"]
        assert (first["initialBackoff"], first["maxBackoff"]) == ("0.002s", "1s")


def test_wait_of_2_ms_is_written_unchanged() -> None:
    entry = json.loads(to_service_config(retrying(constant(0.002))))["methodConfig"][0]
    assert entry["retryPolicy"]["initialBackoff"] == "0.002s"


@pytest.mark.parametrize("seconds", [0, 1e-11, 0.0009])
def test_timeout_is_never_none(seconds: float) -> None:
    warning = f"a Deadline of {seconds:g} s, which becomes 0.001 s"
    assert written(sp.Policy(sp.Deadline(seconds)), warning)["timeout"] == "0.001s"


def test_times_beyond_protobufs_range_are_cut() -> None:
    deadline = written(sp.Policy(sp.Deadline(1e13)), "a Deadline of 1e+13 s, which becomes 315576000000 s")
    assert deadline["timeout"] == "315576000000s"
    growing = retrying(presets.GrpcBackoff(0.1, 1e300, 2))
    waits = written(growing, "a wait of 1e+300 s, which becomes 315576000000 s")["retryPolicy"]
    assert (waits["initialBackoff"], waits["maxBackoff"]) == ("0.1s", "315576000000s")


def test_channel_makes_the_written_attempts() -> None:
    """Ten calls, since about half of those with a wait of 1 ms hang."""
    calls = []

    def fail(request: bytes, context: Any) -> bytes:
        calls.append(request)
        context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        raise AssertionError("abort raises")

    text = to_service_config(retrying(constant(0)), lossy=True)
    with futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        methods = {"Get": grpc.unary_unary_rpc_method_handler(fail)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Wire", methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        options = [("grpc.service_config", text)]
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            get: Any = channel.unary_unary("/test.Wire/Get", None, None)
            for _ in range(10):
                with pytest.raises(grpc.RpcError) as caught:
                    get(b"", timeout=20)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        server.stop(0).wait(20)
    assert len(calls) == 30
