"""Calls that an aio caller holds: they behave as grpc's own do, and leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from tests.support.grpc_server import UNAVAILABLE, Aio, Server

import stormproof as sp

WAIT = sp.Constant(0.001)


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., Aio]]:
    made: list[Aio] = []

    def client(policy: Any, **options: Any) -> Aio:
        made.append(Aio(server.target, policy, **options))
        return made[-1]

    yield client
    for one in made:
        one.close()


@pytest.fixture
def policy() -> sp.Policy:
    return sp.Policy(sp.Retry(attempts=3, backoff=WAIT, budget=None))


async def until_called(server: Server, times: int) -> None:
    await asyncio.to_thread(server.wait_until_called, times)


def test_aio_call_reports_result_status_and_metadata(
    connect: Callable[..., Aio], server: Server, policy: sp.Policy
) -> None:
    client = connect(policy)
    server.script = [UNAVAILABLE]

    async def work() -> None:
        done: list[Any] = []
        call = client.stub_unary(b"a")
        call.add_done_callback(done.append)
        assert await call == b"re:a"
        assert await call.code() is grpc.StatusCode.OK
        assert dict(await call.initial_metadata())["x-initial"] == "i"
        assert dict(await call.trailing_metadata())["x-trailing"] == "t"
        assert call.done()
        assert done == [call]

    client.run(work)


def test_failed_aio_call_reports_its_status(
    connect: Callable[..., Aio], server: Server, policy: sp.Policy
) -> None:
    client = connect(policy)
    server.script = [(UNAVAILABLE, (("x-why", "down"),))] * 3

    async def work() -> None:
        call = client.stub_unary(b"a")
        assert await call.code() is UNAVAILABLE
        assert await call.details() == "scripted"
        assert dict(await call.trailing_metadata())["x-why"] == "down"
        with pytest.raises(grpc.aio.AioRpcError):
            await call

    client.run(work)


def test_refused_aio_call_reports_its_status(connect: Callable[..., Aio], server: Server) -> None:
    breaker = sp.Breaker()
    breaker.force_open()
    client = connect(sp.Policy(breaker))

    async def work() -> None:
        call = client.stub_unary(b"a")
        assert await call.code() is UNAVAILABLE
        assert "open" in await call.details()
        stream = client.stub_down(b"a")
        with pytest.raises(sp.CircuitOpen):
            await stream.read()

    client.run(work)
    assert server.calls == 0


@pytest.mark.parametrize("by", ["call", "task"])
@pytest.mark.parametrize("method", ["stub_unary", "stub_down"])
def test_cancelling_reaches_the_server(
    connect: Callable[..., Aio], server: Server, policy: sp.Policy, by: str, method: str
) -> None:
    client = connect(policy)
    server.script = ["hang"]

    async def work() -> None:
        call = getattr(client, method)(b"a")
        reading = asyncio.ensure_future(_read(call))
        await until_called(server, 1)
        (call if by == "call" else reading).cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    client.run(work)
    server.wait_until_quiet()
    assert server.calls == 1


async def _read(call: Any) -> Any:
    return await (call if hasattr(call, "__await__") else call.read())


def test_call_cancelled_in_a_wait_makes_no_further_attempt(
    connect: Callable[..., Aio], server: Server
) -> None:
    client = connect(sp.Policy(sp.Retry(backoff=sp.Constant(20), budget=None)))
    server.script = [UNAVAILABLE] * 3

    async def work() -> None:
        waiting = asyncio.Event()
        stop = sp.subscribe(lambda event: waiting.set())
        try:
            call = client.stub_unary(b"a")
            await waiting.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        finally:
            stop()

    client.run(work)
    assert server.calls == 1


def test_stream_can_be_read_and_is_a_call(
    connect: Callable[..., Aio], server: Server, policy: sp.Policy
) -> None:
    client = connect(policy)
    server.script = [UNAVAILABLE]

    async def work() -> None:
        done: list[Any] = []
        call = client.stub_down(b"a", timeout=50)
        call.add_done_callback(done.append)
        assert [await call.read() for _ in range(2)] == [b"a1", b"a2"]
        assert await call.read() is grpc.aio.EOF  # type: ignore[attr-defined]
        assert await call.code() is grpc.StatusCode.OK
        assert await call.details() == ""
        assert call.done()
        assert done == [call]

    client.run(work)


def test_requests_written_by_hand_are_answered(connect: Callable[..., Aio], server: Server) -> None:
    bulkhead = sp.Bulkhead(1)
    client = connect(sp.Policy(sp.Retry(attempts=3, backoff=WAIT, budget=None), bulkhead))

    async def work() -> None:
        for stub in (client.stub_up, client.stub_both):
            call = stub()
            await call.write(b"a")
            assert bulkhead.in_use == 1
            await call.write(b"b")
            await call.done_writing()
            if stub is client.stub_up:
                assert await call == b"a+b"
            else:
                assert [await call.read(), await call.read()] == [b"re:a", b"re:b"]
                assert await call.read() is grpc.aio.EOF  # type: ignore[attr-defined]
            assert await call.code() is grpc.StatusCode.OK

    client.run(work)
    assert bulkhead.in_use == 0


def test_requests_written_by_hand_are_not_retried(
    connect: Callable[..., Aio], server: Server, policy: sp.Policy
) -> None:
    client = connect(policy)
    server.script = [UNAVAILABLE]

    async def work() -> None:
        call = client.stub_up()
        await call.write(b"a")
        await call.done_writing()
        with pytest.raises(grpc.RpcError):
            await call

    client.run(work)
    assert server.calls == 1


def test_write_after_the_end_of_the_call_does_not_wait(
    connect: Callable[..., Aio], server: Server, policy: sp.Policy
) -> None:
    client = connect(policy)

    async def work() -> None:
        call = client.stub_both(timeout=0.5)
        await call.write(b"a")
        with pytest.raises(grpc.RpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]

    # The client's `run` finds every task that is left.
    client.run(work)


def test_refused_aio_call_cannot_be_written_to(connect: Callable[..., Aio], server: Server) -> None:
    breaker = sp.Breaker()
    breaker.force_open()
    client = connect(sp.Policy(breaker))

    async def work() -> None:
        call = client.stub_up()
        with pytest.raises(asyncio.InvalidStateError):
            await call.write(b"a")
        with pytest.raises(sp.CircuitOpen):
            await call

    client.run(work)


def test_fallback_gives_the_items(connect: Callable[..., Aio], server: Server) -> None:
    async def stale() -> Any:
        yield b"x"

    client = connect(sp.Policy(sp.Fallback(stale)))
    server.script = [UNAVAILABLE]
    assert client.down() == [b"x"]


def test_async_hook_and_deadline_work_in_aio_calls(connect: Callable[..., Aio], server: Server) -> None:
    numbers: list[int] = []

    async def before(attempt: Any) -> None:
        await asyncio.sleep(0)
        numbers.append(attempt.number)

    client = connect(sp.Policy(sp.Retry(backoff=WAIT, budget=None, before_attempt=before)))
    # Once connected, the requests arrive in no time.
    client.unary()
    server.script = [UNAVAILABLE, "hang"]
    with sp.deadline(0.6), pytest.raises(grpc.RpcError) as caught:
        client.unary()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]
    assert numbers == [1, 1, 2]
    server.wait_until_quiet()
