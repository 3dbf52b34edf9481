"""Calls that a sync caller holds: futures, call objects and streams that behave as grpc's own do."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from tests.support.grpc_server import LONG_S, UNAVAILABLE, Server, Sync

import stormproof as sp
from stormproof.grpc import native

WAIT = sp.Constant(0.001)


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., Sync]]:
    made: list[Sync] = []

    def client(policy: Any, **options: Any) -> Sync:
        made.append(Sync(server.target, policy, **options))
        return made[-1]

    yield client
    for one in made:
        one.close()


@pytest.fixture
def policy() -> sp.Policy:
    return sp.Policy(sp.Retry(attempts=3, backoff=WAIT, budget=None))


def pairs(metadata: Any) -> dict[str, Any]:
    return dict(metadata)


# What grpc hides, and `native` finds. If one of these fails, read that module first.


def test_interceptor_distinguishes_futures_from_blocking_calls(server: Server) -> None:
    seen: list[bool] = []

    class Look(grpc.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]
        def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
            seen.append(native.wants_future(continuation))
            seen.append(native.startable(continuation) is not continuation)
            return continuation(client_call_details, request)

    with grpc.insecure_channel(server.target) as channel:
        method = grpc.intercept_channel(channel, Look()).unary_unary("/test.Wire/Unary")
        assert method(b"a") == b"re:a"
        assert method.future(b"a").result(LONG_S) == b"re:a"
    assert seen == [False, True, True, False]


def test_continuation_of_another_kind_is_used_unchanged() -> None:
    assert not native.wants_future(print)
    assert native.startable(print) is print


# One response.


def test_with_call_returns_response_and_call(
    connect: Callable[..., Sync], server: Server, policy: sp.Policy
) -> None:
    server.script = [UNAVAILABLE]
    response, call = connect(policy).stub_unary.with_call(b"a")
    assert response == b"re:a"
    assert call.code() is grpc.StatusCode.OK
    assert pairs(call.initial_metadata())["x-initial"] == "i"
    assert pairs(call.trailing_metadata())["x-trailing"] == "t"


def test_future_is_returned_before_the_response(
    connect: Callable[..., Sync], server: Server, policy: sp.Policy
) -> None:
    server.script = ["hang"]
    call = connect(policy).stub_unary.future(b"a", timeout=50)
    server.wait_until_called(1)
    assert (call.done(), call.running(), call.is_active(), call.cancelled()) == (False, True, True, False)
    assert 0 < call.time_remaining() <= 50
    with pytest.raises(grpc.FutureTimeoutError):
        call.result(timeout=0.01)
    with pytest.raises(grpc.FutureTimeoutError):
        call.exception(timeout=0.01)
    assert call.cancel()
    server.wait_until_quiet()
    assert (call.done(), call.cancelled(), call.code()) == (True, True, grpc.StatusCode.CANCELLED)
    with pytest.raises(grpc.FutureCancelledError):
        call.result()
    assert not call.cancel()


def test_future_reports_result_status_and_metadata(
    connect: Callable[..., Sync], server: Server, policy: sp.Policy
) -> None:
    server.script = [UNAVAILABLE]
    called_back = threading.Event()
    done: list[Any] = []
    call = connect(policy).stub_unary.future(b"a")
    call.add_done_callback(lambda ended: (done.append(ended), called_back.set()))
    assert call.result(LONG_S) == b"re:a"
    assert called_back.wait(LONG_S)
    assert done == [call]
    assert call.exception() is None
    assert call.traceback() is None
    assert (call.code(), call.details(), call.done()) == (grpc.StatusCode.OK, "", True)
    assert pairs(call.initial_metadata())["x-initial"] == "i"
    assert pairs(call.trailing_metadata())["x-trailing"] == "t"
    assert not call.add_callback(lambda: None)


def test_failed_future_has_the_code_and_metadata_of_its_error(
    connect: Callable[..., Sync], server: Server, policy: sp.Policy
) -> None:
    server.script = [(UNAVAILABLE, (("x-why", "down"),))] * 3
    call = connect(policy).stub_unary.future(b"a")
    error = call.exception(LONG_S)
    assert error.code() is UNAVAILABLE
    assert call.code() is UNAVAILABLE
    assert pairs(call.trailing_metadata())["x-why"] == "down"
    assert call.traceback() is not None
    with pytest.raises(grpc.RpcError) as caught:
        call.result()
    assert caught.value is error


def test_future_cancelled_in_a_wait_makes_no_further_call(
    connect: Callable[..., Sync], server: Server
) -> None:
    server.script = [UNAVAILABLE] * 3
    waiting = threading.Event()
    stop = sp.subscribe(lambda event: waiting.set())
    try:
        call = connect(sp.Policy(sp.Retry(backoff=sp.Constant(20), budget=None))).stub_unary.future(b"a")
        assert waiting.wait(LONG_S)
        assert call.cancel()
        assert call.cancelled()
    finally:
        stop()
    assert server.calls == 1


def test_future_that_is_dropped_is_cancelled(
    connect: Callable[..., Sync], server: Server, policy: sp.Policy
) -> None:
    server.script = ["hang"]
    call = connect(policy).stub_unary.future(b"a")
    server.wait_until_called(1)
    del call
    gc.collect()
    server.wait_until_quiet()


def test_refused_future_reports_unavailable(connect: Callable[..., Sync], server: Server) -> None:
    breaker = sp.Breaker()
    breaker.force_open()
    call = connect(sp.Policy(breaker)).stub_unary.future(b"a")
    assert isinstance(call.exception(LONG_S), sp.CircuitOpen)
    assert call.code() is UNAVAILABLE
    assert server.calls == 0


def test_other_interceptors_may_wrap_ours_or_be_wrapped(server: Server, policy: sp.Policy) -> None:
    from stormproof import grpc as spg

    outcomes: list[Any] = []
    inner: list[Any] = []

    class Outer(grpc.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]
        def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
            call = continuation(client_call_details, request)
            outcomes.append((call.code(), call.exception() is None))
            return call

    class Inner(grpc.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]
        def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
            inner.append(client_call_details.timeout)
            return continuation(client_call_details, request)

    breaker = sp.Breaker()
    row = (Outer(), *spg.interceptors(policy.with_()), *spg.interceptors(sp.Policy(breaker)), Inner())
    with grpc.insecure_channel(server.target) as channel:
        method = grpc.intercept_channel(channel, *row).unary_unary("/test.Wire/Unary")
        server.script = [UNAVAILABLE, UNAVAILABLE]
        assert method(b"a") == b"re:a"
        assert method.future(b"a").result(LONG_S) == b"re:a"
        breaker.force_open()
        with pytest.raises(sp.CircuitOpen):
            method(b"a")
    assert outcomes == [(grpc.StatusCode.OK, True), (grpc.StatusCode.OK, True), (UNAVAILABLE, False)]
    assert len(inner) == 4


# Streams.


def test_stream_is_a_call(connect: Callable[..., Sync], server: Server, policy: sp.Policy) -> None:
    server.script = [UNAVAILABLE]
    done: list[Any] = []
    call = connect(policy).stub_down(b"a", timeout=50)
    call.add_done_callback(done.append)
    assert (call.done(), call.is_active(), call.cancelled()) == (False, True, False)
    assert 0 < call.time_remaining() <= 50
    assert server.calls == 0
    assert next(call) == b"a1"
    assert list(call) == [b"a2"]
    assert call.code() is grpc.StatusCode.OK
    assert call.exception() is None
    assert call.done()
    assert not call.cancel()
    assert done == [call]
    assert list(call) == []


def test_reading_the_metadata_of_a_stream_starts_the_call(
    connect: Callable[..., Sync], server: Server, policy: sp.Policy
) -> None:
    server.script = [UNAVAILABLE]
    call = connect(policy).stub_down(b"a")
    assert call.initial_metadata() == ()
    assert server.calls == 2
    assert list(call) == [b"a1", b"a2"]
    assert call.trailing_metadata() == ()


def test_failed_stream_raises_the_same_error_on_every_read(
    connect: Callable[..., Sync], server: Server, policy: sp.Policy
) -> None:
    server.script = [UNAVAILABLE] * 3
    call = connect(policy).stub_down(b"a")
    errors = []
    for _ in range(2):
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        errors.append(caught.value)
    assert errors[0] is errors[1] is call.exception()
    assert (call.code(), call.done()) == (UNAVAILABLE, True)
    callbacks: list[Any] = []
    call.add_done_callback(callbacks.append)
    assert callbacks == [call]
    assert server.calls == 3


@pytest.mark.parametrize("begun", [False, True])
def test_stream_is_cancelled_from_another_thread(
    connect: Callable[..., Sync], server: Server, policy: sp.Policy, begun: bool
) -> None:
    server.script = ["hang"]
    call = connect(policy).stub_down(b"a")
    reader = threading.Thread(target=lambda: errors.append(_failure(call)))
    errors: list[Any] = []
    if begun:
        reader.start()
        server.wait_until_called(1)
    assert call.cancel()
    if not begun:
        reader.start()
    reader.join(LONG_S)
    server.wait_until_quiet()
    assert errors[0].code() is grpc.StatusCode.CANCELLED
    assert call.cancelled()
    assert server.calls == int(begun)


def _failure(call: Any) -> Any:
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    return caught.value


def test_stream_cancelled_in_a_wait_makes_no_further_call(
    connect: Callable[..., Sync], server: Server
) -> None:
    server.script = [UNAVAILABLE] * 3
    call = connect(sp.Policy(sp.Retry(backoff=sp.Constant(20), budget=None))).stub_down(b"a")
    stop = sp.subscribe(lambda event: threading.Timer(0, call.cancel).start())
    try:
        with pytest.raises(grpc.RpcError):
            next(call)
    finally:
        stop()
    assert server.calls == 1


def test_stream_that_is_dropped_is_cancelled(
    connect: Callable[..., Sync], server: Server, policy: sp.Policy
) -> None:
    call = connect(policy).stub_down(b"a")
    assert next(call) == b"a1"
    del call
    gc.collect()
    server.wait_until_quiet()


def test_fallback_gives_the_items(connect: Callable[..., Sync], server: Server) -> None:
    server.script = [UNAVAILABLE]
    call = connect(sp.Policy(sp.Fallback(lambda: [b"x", b"y"]))).stub_down(b"a")
    assert list(call) == [b"x", b"y"]
    assert call.code() is grpc.StatusCode.OK


def test_stream_cancelled_before_it_is_read_has_ended(
    connect: Callable[..., Sync], server: Server, policy: sp.Policy
) -> None:
    callbacks: list[Any] = []
    stream = connect(policy).stub_down(b"a")
    stream.add_done_callback(callbacks.append)
    assert stream.cancel()
    assert (stream.done(), stream.cancelled(), callbacks) == (True, True, [stream])
    assert not stream.cancel()
    stream.add_done_callback(callbacks.append)
    assert callbacks == [stream, stream]
    assert stream.code() is grpc.StatusCode.CANCELLED
    with pytest.raises(grpc.RpcError):
        next(stream)
    assert server.calls == 0
