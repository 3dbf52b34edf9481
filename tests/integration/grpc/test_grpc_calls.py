"""Every kind of gRPC client under a policy: sync, futures and aio, against a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from tests.support.grpc_server import EXHAUSTED, UNAVAILABLE, Server

import stormproof as sp
from stormproof import grpc as spg
from stormproof._classify.exhaustion import exhausted_by

Connect = Callable[..., Any]
PUSHBACK = "grpc-retry-pushback-ms"
WAIT = sp.Constant(0.001)


def retrying(attempts: int = 3, **options: Any) -> sp.Retry:
    return sp.Retry(attempts=attempts, backoff=WAIT, budget=options.pop("budget", None), **options)


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


# Retrying.


def test_call_is_retried_until_it_succeeds(connect: Connect, server: Server) -> None:
    server.script = [UNAVAILABLE, UNAVAILABLE]
    assert connect(sp.Policy(retrying())).unary(b"a") == b"re:a"
    assert server.attempts_sent() == [None, "1", "2"]


def test_a6s_metadata_is_sent_if_the_channel_does_not_retry(connect: Connect, server: Server) -> None:
    server.script = [UNAVAILABLE]
    off = [("grpc.enable_retries", 0)]
    connect(sp.Policy(retrying()), channel_options=off).unary(metadata=(("x-mine", "1"),))
    sent = [(m.get("grpc-previous-rpc-attempts"), m.get("x-mine")) for m, _, _ in server.seen]
    assert sent == [(None, "1"), ("1", "1")]


def test_attempt_metadata_can_be_left_out(connect: Connect, server: Server) -> None:
    server.script = [UNAVAILABLE]
    connect(sp.Policy(retrying()), attempt_metadata=()).unary()
    assert server.attempts_sent() == [None, None]


def test_last_error_surfaces_noted_and_marked(connect: Connect, server: Server) -> None:
    trailers = (("x-why", "down"),)
    server.script = [UNAVAILABLE, UNAVAILABLE, (UNAVAILABLE, trailers)]
    with pytest.raises(grpc.RpcError) as caught:
        connect(sp.Policy(retrying())).unary()
    error: Any = caught.value
    assert not isinstance(error, sp.StormproofError)
    assert (error.code(), error.details()) == (UNAVAILABLE, "scripted")
    assert [tuple(pair) for pair in error.trailing_metadata()] == list(trailers)
    assert "3 attempts" in notes(error)
    assert "attempts used up" in notes(error)
    layer = exhausted_by(error)
    assert layer is not None
    assert (layer.layer, layer.attempts) == ("/test.Wire/Unary", 3)
    assert server.calls == 3


def test_outer_layer_does_not_retry_an_exhausted_call(connect: Connect, server: Server) -> None:
    server.script = [UNAVAILABLE] * 9
    client = connect(sp.Policy(retrying()))
    with pytest.raises(grpc.RpcError):
        sp.Policy(retrying()).call(client.unary)
    assert server.calls == 3


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED])
def test_other_statuses_are_not_retried(connect: Connect, server: Server, code: grpc.StatusCode) -> None:
    server.script = [code]
    with pytest.raises(grpc.RpcError) as caught:
        connect(sp.Policy(retrying(), sp.Timeout(20))).unary()
    assert caught.value.code() is code  # type: ignore[attr-defined]
    assert server.calls == 1


def test_resource_exhausted_with_pushback_is_retried(connect: Connect, server: Server) -> None:
    server.script = [(EXHAUSTED, ((PUSHBACK, "1"),))]
    assert connect(sp.Policy(retrying())).unary(b"a") == b"re:a"
    assert server.calls == 2


# Repeated pushback never gets this far: gRPC's core keeps the last of several.
@pytest.mark.parametrize("pushback", ["-1", "soon"])
def test_do_not_retry_pushback_stops(connect: Connect, server: Server, pushback: str) -> None:
    server.script = [(UNAVAILABLE, ((PUSHBACK, pushback),))]
    with pytest.raises(grpc.RpcError):
        connect(sp.Policy(retrying())).unary()
    assert server.calls == 1


def test_empty_budget_stops_with_the_servers_error(connect: Connect, server: Server) -> None:
    server.script = [UNAVAILABLE] * 3
    client = connect(sp.Policy(retrying(budget=sp.Budget(ratio=0.1, burst=1))))
    with pytest.raises(grpc.RpcError) as caught:
        client.unary()
    assert not isinstance(caught.value, sp.StormproofError)
    assert "budget exhausted" in notes(caught.value)
    assert exhausted_by(caught.value) is not None
    assert caught.value.__cause__ is None
    assert server.calls == 2


def test_on_result_gets_the_message_and_may_refuse_it(connect: Connect, server: Server) -> None:
    seen: list[bytes] = []

    def not_yet(message: bytes) -> bool:
        seen.append(message)
        return len(seen) < 3

    assert connect(sp.Policy(retrying(on_result=not_yet))).unary(b"a") == b"re:a"
    assert seen == [b"re:a"] * 3
    assert connect(sp.Policy(retrying(on_result=lambda message: message == b"a1" and len(seen) < 3))).down()


def test_fallback_answers_after_exhaustion(connect: Connect, server: Server) -> None:
    server.script = [UNAVAILABLE] * 3
    client = connect(sp.Policy(sp.Fallback(b"stale")))
    assert client.unary() == b"stale"
    assert client.up([b"a"]) == b"stale"


# Time.


def test_tightest_of_three_deadlines_is_sent(connect: Connect, server: Server) -> None:
    client = connect(sp.Policy(sp.Deadline(100), retrying()))
    client.unary()
    client.unary(timeout=50)
    with sp.deadline(30):
        client.unary(timeout=50)
    left = [left for _, left, _ in server.seen]
    # On the wire, times are rounded up.
    assert 90 < left[0] < 110
    assert 40 < left[1] < 60
    assert 20 < left[2] < 40


def test_without_any_deadline_none_is_sent(connect: Connect, server: Server) -> None:
    connect(sp.Policy(retrying())).unary()
    assert server.seen[0][1] > 1e9


def test_each_attempt_has_less_time(connect: Connect, server: Server) -> None:
    server.script = [UNAVAILABLE, UNAVAILABLE]
    slower = sp.Policy(sp.Retry(backoff=sp.Constant(0.05), budget=None))
    # Less than a second crosses the wire to the millisecond, more than that is rounded up.
    connect(slower).unary(timeout=0.95)
    left = [left for _, left, _ in server.seen]
    assert left[0] > left[1] > left[2]


def test_timeout_of_one_attempt_leaves_time_for_another(connect: Connect, server: Server) -> None:
    server.script = ["hang"]
    client = connect(sp.Policy(sp.Deadline(20), retrying(9), sp.Timeout(0.4)))
    assert client.unary(b"a") == b"re:a"
    assert server.calls > 1
    assert max(left for _, left, _ in server.seen) < 1
    server.wait_until_quiet()


def test_overall_deadline_ends_the_call(connect: Connect, server: Server) -> None:
    client = connect(sp.Policy(retrying()))
    # Once connected, the request arrives in no time.
    client.unary()
    server.script = ["hang", "hang"]
    with pytest.raises(grpc.RpcError) as caught:
        client.unary(timeout=0.5)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]
    assert server.calls == 2
    server.wait_until_quiet()


@pytest.mark.parametrize("method", ["unary", "down"])
def test_call_past_its_deadline_is_not_sent(connect: Connect, server: Server, method: str) -> None:
    client = connect(sp.Policy(retrying()))
    with pytest.raises(grpc.RpcError) as caught:
        getattr(client, method)(timeout=0)
    assert isinstance(caught.value, sp.DeadlineExceeded)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]
    with sp.deadline(0), pytest.raises(sp.DeadlineExceeded):
        getattr(client, method)()
    assert server.calls == 0


# Refused before anything is sent.


@pytest.mark.parametrize("method", ["unary", "down"])
def test_open_breaker_raises_circuit_open_and_rpc_error(
    connect: Connect, server: Server, method: str
) -> None:
    breaker = sp.Breaker(name="wire")
    client = connect(sp.Policy(retrying(), breaker))
    breaker.force_open()
    with pytest.raises(sp.CircuitOpen) as caught:
        getattr(client, method)()
    error: Any = caught.value
    assert isinstance(error, grpc.RpcError)
    assert isinstance(error, spg.RpcCircuitOpen)
    assert error.code() is UNAVAILABLE
    assert "wire is open" in error.details()
    assert not sp.transient(error)
    assert server.calls == 0


def test_refusal_after_a_failed_attempt_is_that_attempts_error(connect: Connect, server: Server) -> None:
    server.script = [UNAVAILABLE]
    with pytest.raises(grpc.RpcError) as caught:
        connect(sp.Policy(retrying(), sp.Breaker(consecutive=1, name="wire"))).unary()
    assert not isinstance(caught.value, sp.StormproofError)
    assert "wire is open" in notes(caught.value)
    assert exhausted_by(caught.value) is not None
    assert server.calls == 1


# Streams.


def test_stream_is_retried_until_its_first_message(connect: Connect, server: Server) -> None:
    server.script = [UNAVAILABLE, UNAVAILABLE]
    assert connect(sp.Policy(retrying())).down(b"a") == [b"a1", b"a2"]
    assert server.calls == 3


def test_stream_that_has_begun_is_not_retried(connect: Connect, server: Server) -> None:
    server.script = ["break"]
    got: list[bytes] = []
    with pytest.raises(grpc.RpcError) as caught:
        connect(sp.Policy(retrying())).down(b"a", into=got)
    assert caught.value.details() == "scripted, in the middle"  # type: ignore[attr-defined]
    assert got == [b"a1"]
    assert server.calls == 1


def test_stream_without_messages_is_a_success(connect: Connect, server: Server) -> None:
    assert connect(sp.Policy(retrying())).down(b"empty") == []
    assert server.calls == 1


def test_stream_that_never_begins_exhausts_its_attempts(connect: Connect, server: Server) -> None:
    server.script = [UNAVAILABLE] * 3
    with pytest.raises(grpc.RpcError) as caught:
        connect(sp.Policy(retrying())).down()
    assert exhausted_by(caught.value) is not None
    assert server.calls == 3


@pytest.mark.parametrize("as_factory", [False, True])
def test_request_stream_is_sent_again(connect: Connect, server: Server, as_factory: bool) -> None:
    messages = [b"a", b"b"]
    client = connect(sp.Policy(retrying()))
    given: Any = (lambda: client.hand_over(messages)) if as_factory else messages
    server.script = [UNAVAILABLE, UNAVAILABLE, "ok", UNAVAILABLE, UNAVAILABLE]
    assert client.up(given) == b"a+b"
    assert client.both(given) == [b"re:a", b"re:b"]
    assert [sent for _, _, sent in server.seen] == [messages] * 6


def test_request_stream_that_is_gone_is_not_sent_again(connect: Connect, server: Server) -> None:
    client = connect(sp.Policy(retrying()))
    server.script = [UNAVAILABLE, UNAVAILABLE]
    for method in (client.up, client.both):
        with pytest.raises(grpc.RpcError) as caught:
            method(client.hand_over([b"a"]))
        assert "one-shot iterator" in notes(caught.value)
    assert server.calls == 2


@pytest.mark.parametrize(
    ("limit", "says"), [({"replay_messages": 1}, "2 messages"), ({"replay_bytes": 3}, "4 bytes")]
)
def test_replay_of_a_request_stream_is_bounded(
    connect: Connect, server: Server, limit: Any, says: str
) -> None:
    server.script = [UNAVAILABLE]
    with pytest.raises(grpc.RpcError) as caught:
        connect(sp.Policy(retrying()), **limit).up([b"aa", b"bb"])
    assert says in notes(caught.value)
    assert server.calls == 1


def test_bidirectional_stream_that_has_begun_is_not_retried(connect: Connect, server: Server) -> None:
    server.script = ["break"]
    with pytest.raises(grpc.RpcError):
        connect(sp.Policy(retrying())).both([b"a", b"b"])
    assert server.calls == 1


# Hedging.


@pytest.mark.parametrize("method", ["unary", "down"])
def test_loser_of_a_hedge_is_cancelled_on_the_wire(connect: Connect, server: Server, method: str) -> None:
    server.script = ["hang"]
    client = connect(sp.Policy(sp.Hedge(0.02, idempotent=True)))
    assert getattr(client, method)(b"a") in (b"re:a", [b"a1", b"a2"])
    server.wait_until_quiet()
    # On a busy machine the hedge may be the first to arrive.
    assert server.attempts_sent() in ([None, "1"], ["1", None])


def test_transient_failure_hedges_at_once_and_a_fatal_one_stops_all(connect: Connect, server: Server) -> None:
    client = connect(sp.Policy(sp.Hedge(100, idempotent=True)))
    server.script = [UNAVAILABLE]
    assert client.unary(b"a") == b"re:a"
    server.script = [grpc.StatusCode.INTERNAL]
    with pytest.raises(grpc.RpcError):
        client.unary()
    assert server.calls == 3


@pytest.mark.parametrize("declared", [("/test.Wire/Unary",), lambda name: name == "/test.Wire/Unary"])
def test_methods_declared_idempotent_are_hedged(connect: Connect, server: Server, declared: Any) -> None:
    server.script = ["hang"]
    client = connect(sp.Policy(sp.Hedge(0.02)), idempotent=declared)
    assert client.unary(b"a") == b"re:a"
    server.wait_until_quiet()
    assert server.calls == 2


@pytest.mark.parametrize("declared", [(), ("other.Service/Unary",)])
def test_undeclared_methods_are_not_hedged(connect: Connect, server: Server, declared: Any) -> None:
    client = connect(sp.Policy(sp.Hedge(0)), idempotent=declared)
    assert [client.unary(b"a") for _ in range(20)] == [b"re:a"] * 20
    server.wait_until_quiet()
    assert server.calls == 20


def test_stream_that_can_be_sent_once_is_not_hedged(connect: Connect, server: Server) -> None:
    client = connect(sp.Policy(sp.Hedge(0, idempotent=True)))
    assert [client.up(client.hand_over([b"a", b"b"])) for _ in range(20)] == [b"a+b"] * 20
    server.wait_until_quiet()
    assert server.calls == 20
    server.script = ["hang"]
    assert client.up([b"a", b"b"]) == b"a+b"
    server.wait_until_called(22)


# Which policy.


def test_policies_are_chosen_by_method_name(connect: Connect, server: Server) -> None:
    policies = {"test.Wire/Unary": sp.Policy(retrying(2)), "test.Wire": sp.Policy(retrying(3))}
    client = connect(policies)
    server.script = [UNAVAILABLE] * 9
    with pytest.raises(grpc.RpcError):
        client.unary()
    assert server.calls == 2
    with pytest.raises(grpc.RpcError):
        client.down()
    assert server.calls == 5


def test_method_without_a_policy_is_left_alone(connect: Connect, server: Server) -> None:
    client = connect(lambda method: sp.Policy(retrying()) if method == "/test.Wire/Up" else None)
    server.script = [UNAVAILABLE, UNAVAILABLE, UNAVAILABLE]
    with pytest.raises(grpc.RpcError) as caught:
        client.unary()
    assert notes(caught.value) == ""
    assert server.calls == 1
    assert client.up([b"a"]) == b"a"
    assert server.calls == 4
    with sp.disabled():
        server.script = [UNAVAILABLE]
        with pytest.raises(grpc.RpcError):
            client.up([b"a"])
    assert server.calls == 5


def test_operation_is_the_method_and_keys_see_the_call(connect: Connect, server: Server) -> None:
    events: list[Any] = []
    keys: list[Any] = []

    def key(rpc: spg.Rpc) -> str:
        keys.append((rpc.method, rpc.request, rpc.timeout))
        return rpc.method

    stop = sp.subscribe(events.append)
    try:
        server.script = [UNAVAILABLE]
        client = connect(sp.Policy(retrying(), sp.keyed(sp.Breaker(), key=key)))
        client.unary(b"secret", timeout=50)
    finally:
        stop()
    assert keys == [("/test.Wire/Unary", b"secret", 50)] * 2
    assert {event.operation for event in events} == {"/test.Wire/Unary"}
    assert "secret" not in repr(events)


# The same as a native channel.

CONFIG = {
    "name": [{"service": "test.Wire"}],
    "retryPolicy": {
        "maxAttempts": 4,
        "initialBackoff": "0.01s",
        "maxBackoff": "0.01s",
        "backoffMultiplier": 1,
        "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"],
    },
}


@pytest.mark.parametrize(
    ("change", "throttling", "script", "calls"),
    [
        ({}, None, [UNAVAILABLE] * 9, 4),
        ({"maxAttempts": 2}, None, [UNAVAILABLE] * 9, 2),
        ({"maxAttempts": 9}, None, [UNAVAILABLE] * 9, 5),
        ({}, None, [UNAVAILABLE, grpc.StatusCode.ABORTED], 3),
        ({}, None, [grpc.StatusCode.INTERNAL], 1),
        ({}, None, [(UNAVAILABLE, ((PUSHBACK, "-1"),))], 1),
        ({}, None, [(UNAVAILABLE, ((PUSHBACK, "10"),))], 2),
        ({}, {"maxTokens": 4, "tokenRatio": 0.1}, [UNAVAILABLE] * 9, 2),
    ],
)
def test_native_channel_makes_the_same_number_of_calls(
    connect: Connect, server: Server, change: Any, throttling: Any, script: list[Any], calls: int
) -> None:
    config: dict[str, Any] = {
        "methodConfig": [{**CONFIG, "retryPolicy": {**CONFIG["retryPolicy"], **change}}]  # type: ignore[dict-item]
    }
    if throttling is not None:
        config["retryThrottling"] = throttling
    policies = spg.from_service_config(json.dumps(config))

    def outcome(client: Any) -> tuple[Any, int]:
        server.script, before = list(script), server.calls
        try:
            reply = client.unary(timeout=20)
        except grpc.RpcError as error:
            reply = error.code()  # type: ignore[attr-defined]
        return reply, server.calls - before

    ours = outcome(connect(policies))
    native_options = [("grpc.service_config", spg.to_service_config(policies))]
    native = outcome(connect(lambda method: None, channel_options=native_options))
    assert ours == native
    assert ours[1] == calls


def test_background_loop_serves_many_futures_at_once(server: Server, connect: Connect) -> None:
    client = connect(sp.Policy(retrying()))
    if client.name != "future":
        # Sync calls wait one by one; the aio ones run side by side in their own loop.
        async def together() -> list[bytes]:
            return await asyncio.gather(*(client.stub_unary(b"a") for _ in range(300)))

        got = client.run(together) if client.name == "aio" else [client.unary(b"a") for _ in range(300)]
    else:
        calls = [client.stub_unary.future(b"a") for _ in range(300)]
        got = [call.result(20) for call in calls]
    assert got == [b"re:a"] * 300


def test_method_without_a_policy_keeps_its_timeout(connect: Connect, server: Server) -> None:
    client = connect({"other.Service": sp.Policy(retrying())})
    client.unary(timeout=5)
    with sp.deadline(60):
        client.unary(timeout=5)
    with sp.disabled():
        client.unary(timeout=5)
    with sp.deadline(5):
        client.unary(timeout=60)
        client.unary()
    assert [0 < left < 6 for _, left, _ in server.seen] == [True] * 5, server.seen


def test_disabled_call_keeps_its_timeout_inside_an_ended_deadline(connect: Connect, server: Server) -> None:
    for policy in (sp.Policy(retrying()), lambda method: None):
        with sp.deadline(0), sp.disabled():
            assert connect(policy).unary(timeout=5) == b"re:a"
    assert [0 < left < 6 for _, left, _ in server.seen] == [True] * 2, server.seen


@pytest.mark.parametrize("on", [grpc.RpcError, lambda error: True], ids=["type", "callable"])
def test_do_not_retry_pushback_overrides_on(connect: Connect, server: Server, on: Any) -> None:
    server.script = [(UNAVAILABLE, (("grpc-retry-pushback-ms", "-1"),))]
    with pytest.raises(grpc.RpcError):
        connect(sp.Policy(retrying(on=on))).unary()
    assert server.calls == 1


def test_explicit_verdict_wins_over_do_not_retry(connect: Connect, server: Server) -> None:
    server.script = [(UNAVAILABLE, (("grpc-retry-pushback-ms", "-1"),))]
    policy = sp.Policy(retrying(on=lambda error: sp.Verdict(True)))
    assert connect(policy).unary() == b"re:a"
