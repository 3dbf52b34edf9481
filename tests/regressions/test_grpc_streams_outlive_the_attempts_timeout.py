"""A stream of responses outlives the `Timeout` of the attempt that opened it; its headers are there at once.

The attempt's time went out as the deadline on the wire: ``Timeout(0.3)`` ended a healthy stream after 0.3 s.
And ``initial_metadata()`` waited for the first message, where a client that needs the metadata before it
sends anything waited for ever; aio's ``wait_for_connection()`` did the same. A stream begun by its metadata
gave ``on_result`` a message that was not there.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

import stormproof as sp
from stormproof.grpc import aio_interceptors, interceptors

#: Long enough for a first message on a busy machine; `COUNT` ticks take longer.
TIMEOUT_S, TICK_S, COUNT = 1.0, 0.25, 6


class Ticker:
    """A server whose stream gives as many messages as are asked for, and whose answer waits for a request."""

    def __init__(self) -> None:
        self.left: list[float | None] = []
        self.silent = threading.Event()
        self.gone = threading.Event()
        self.calls = 0
        self._pool = futures.ThreadPoolExecutor(8)
        self._server = grpc.server(self._pool)
        methods = {
            "Tick": grpc.unary_stream_rpc_method_handler(self._tick),
            "Silent": grpc.unary_stream_rpc_method_handler(self._silence),
            "Talk": grpc.stream_stream_rpc_method_handler(self._talk),
            "Refuse": grpc.unary_stream_rpc_method_handler(self._refuse),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", methods),))
        self.target = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _tick(self, request: bytes, context: Any) -> Iterator[bytes]:
        self.left.append(context.time_remaining())
        for number in range(int(request)):
            yield str(number).encode()
            self.gone.wait(TICK_S)

    def _silence(self, request: bytes, context: Any) -> Iterator[bytes]:
        self.calls += 1
        context.add_callback(self.silent.set)
        if self.calls == 1:
            self.gone.wait(20)
        yield b"said"

    def _talk(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.send_initial_metadata((("session", "s1"),))
        for request in requests:
            yield b"re:" + request

    def _refuse(self, request: bytes, context: Any) -> Iterator[bytes]:
        self.calls += 1
        if self.calls < 3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        context.send_initial_metadata((("session", "s1"),))
        self.gone.wait(TICK_S)
        yield b"said"

    def stop(self) -> None:
        self.gone.set()
        self._server.stop(None).wait(10)
        self._pool.shutdown()


@pytest.fixture
def ticker() -> Iterator[Ticker]:
    made = Ticker()
    yield made
    made.stop()


POLICY = sp.Policy(sp.Retry(attempts=3, backoff=sp.Constant(0), budget=None), sp.Timeout(TIMEOUT_S))


def test_sync_stream_goes_on_after_the_attempts_time(ticker: Ticker) -> None:
    with grpc.insecure_channel(ticker.target) as channel:
        retried_channel = grpc.intercept_channel(channel, *interceptors(POLICY))
        assert list(retried_channel.unary_stream("/t.T/Tick")(b"%d" % COUNT)) == [
            b"%d" % n for n in range(COUNT)
        ]
        with sp.deadline(30):
            assert list(retried_channel.unary_stream("/t.T/Tick")(b"1")) == [b"0"]
    assert ticker.left[0] is None or ticker.left[0] > 3600
    assert ticker.left[1] is not None and 25 < ticker.left[1] < 31


def test_aio_stream_goes_on_after_the_attempts_time(ticker: Ticker) -> None:
    async def main() -> list[bytes]:
        async with grpc.aio.insecure_channel(ticker.target, interceptors=aio_interceptors(POLICY)) as channel:
            return [item async for item in channel.unary_stream("/t.T/Tick")(b"%d" % COUNT)]

    assert len(asyncio.run(main())) == COUNT


def test_sync_stream_without_a_first_message_is_cut_off_and_retried(ticker: Ticker) -> None:
    with grpc.insecure_channel(ticker.target) as channel:
        retried_channel = grpc.intercept_channel(channel, *interceptors(POLICY))
        assert list(retried_channel.unary_stream("/t.T/Silent")(b"")) == [b"said"]
    assert ticker.calls == 2
    assert ticker.silent.wait(10), "the attempt that was cut off is cancelled on the wire"


def test_sync_stream_that_never_speaks_raises_a_timeout(ticker: Ticker) -> None:
    policy = sp.Policy(sp.Timeout(0.1))
    with grpc.insecure_channel(ticker.target) as channel:
        retried_channel = grpc.intercept_channel(channel, *interceptors(policy))
        with pytest.raises(grpc.RpcError) as caught:
            next(retried_channel.unary_stream("/t.T/Silent")(b""))
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert isinstance(caught.value, sp.AttemptTimeout)


@pytest.mark.timeout(30)
def test_sync_metadata_comes_before_the_first_message(ticker: Ticker) -> None:
    said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    with grpc.insecure_channel(ticker.target) as channel:
        retried_channel = grpc.intercept_channel(channel, *interceptors(POLICY))
        call = retried_channel.stream_stream("/t.T/Talk")(iter(said.get, None))
        assert ("session", "s1") in [tuple(pair) for pair in call.initial_metadata()]
        said.put(b"hello")
        assert next(call) == b"re:hello"
        said.put(None)
        assert list(call) == []


def test_sync_metadata_of_a_refused_stream_is_that_of_the_retry(ticker: Ticker) -> None:
    with grpc.insecure_channel(ticker.target) as channel:
        retried_channel = grpc.intercept_channel(channel, *interceptors(POLICY))
        call = retried_channel.unary_stream("/t.T/Refuse")(b"")
        assert ("session", "s1") in [tuple(pair) for pair in call.initial_metadata()]
        assert list(call) == [b"said"]
    assert ticker.calls == 3


def _on_result(judged: list[bytes]) -> sp.Policy:
    """A policy whose rule needs a message."""
    return sp.Policy(sp.Retry(on_result=lambda message: judged.append(message[:1]), budget=None))


def test_sync_stream_begun_by_its_metadata_has_no_message_to_judge(ticker: Ticker) -> None:
    judged: list[bytes] = []
    with grpc.insecure_channel(ticker.target) as channel:
        retried_channel = grpc.intercept_channel(channel, *interceptors(_on_result(judged)))
        call = retried_channel.unary_stream("/t.T/Refuse")(b"")
        call.initial_metadata()
        assert list(call) == [b"said"]
    assert judged == []


def _run_aio(ticker: Ticker, policy: sp.Policy, work: Callable[[Any], Awaitable[None]]) -> None:
    async def main() -> None:
        async with grpc.aio.insecure_channel(ticker.target, interceptors=aio_interceptors(policy)) as channel:
            await work(channel)

    asyncio.run(main())


@pytest.mark.timeout(30)
@pytest.mark.parametrize("asked", ["initial_metadata", "wait_for_connection"])
def test_aio_metadata_and_connection_come_before_the_first_message(ticker: Ticker, asked: str) -> None:
    async def work(channel: Any) -> None:
        said: asyncio.Queue[bytes] = asyncio.Queue()

        async def requests() -> AsyncIterator[bytes]:
            while (request := await said.get()) != b"":
                yield request

        call = channel.stream_stream("/t.T/Talk")(requests())
        headers = await getattr(call, asked)()
        assert asked != "initial_metadata" or ("session", "s1") in [tuple(pair) for pair in headers]
        said.put_nowait(b"hello")
        assert await call.read() == b"re:hello"
        said.put_nowait(b"")
        assert await call.read() is grpc.aio.EOF  # type: ignore[attr-defined]
        assert await call.code() is grpc.StatusCode.OK

    _run_aio(ticker, POLICY, work)


def test_aio_metadata_of_a_refused_stream_is_that_of_the_retry(ticker: Ticker) -> None:
    judged: list[bytes] = []

    async def work(channel: Any) -> None:
        call = channel.unary_stream("/t.T/Refuse")(b"")
        assert ("session", "s1") in [tuple(pair) for pair in await call.initial_metadata()]
        assert [item async for item in call] == [b"said"]

    _run_aio(ticker, _on_result(judged), work)
    assert (ticker.calls, judged) == (3, [])


def test_aio_stream_begun_by_its_metadata_goes_on_after_the_attempts_time(ticker: Ticker) -> None:
    async def work(channel: Any) -> None:
        call = channel.unary_stream("/t.T/Tick")(b"%d" % COUNT)
        await call.initial_metadata()
        assert len([item async for item in call]) == COUNT

    _run_aio(ticker, POLICY, work)


def test_aio_stream_without_a_first_message_is_cut_off_and_retried(ticker: Ticker) -> None:
    async def work(channel: Any) -> None:
        assert [item async for item in channel.unary_stream("/t.T/Silent")(b"")] == [b"said"]

    _run_aio(ticker, POLICY, work)
    assert ticker.calls == 2
    assert ticker.silent.wait(10), "the attempt that was cut off is cancelled on the wire"


def test_aio_stream_that_never_speaks_raises_a_timeout(ticker: Ticker) -> None:
    async def work(channel: Any) -> None:
        call = channel.unary_stream("/t.T/Silent")(b"")
        with pytest.raises(grpc.RpcError) as caught:
            await call.read()
        assert isinstance(caught.value, sp.AttemptTimeout)
        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert call.done() and not call.cancelled()

    _run_aio(ticker, sp.Policy(sp.Timeout(0.1)), work)
