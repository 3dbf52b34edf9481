"""A caller that is cancelled, interrupted or timed out inside a Redis command, before its answer has come.

The answer is late, not lost: it must never be taken for that of another command. Either its connection is
dropped (a thread that was interrupted or ran out of time), or the store's own thread reads it to its end (a
task that was cancelled).
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof import idempotency
from stormproof.redis import RedisStore, StoreUnavailable

pytestmark = [
    pytest.mark.redis,
    pytest.mark.usefixtures("watchdog"),
    pytest.mark.proves("fault redis-cancelled"),
]

MILLION = 1_000_000
TIMEOUT = 10.0


def _ask(number: int) -> tuple[Any, ...]:
    """A command with an answer of its own: a new limiter with ``number`` tokens."""
    return "limiter", f"sp:{{{number}}}:limiter", 0, number * MILLION, 0, 0, 0, 0


def _is_own(answer: Any, number: int) -> bool:
    return bool(answer[1] == number * MILLION)


def _connections(server: Server) -> set[str]:
    """The ids of the connections that have run a script."""
    lines = str(server.ask("CLIENT", "LIST")).splitlines()
    fields = [dict(field.partition("=")[::2] for field in line.split()) for line in lines]
    return {found["id"] for found in fields if found.get("cmd") in ("evalsha", "eval")}


@pytest.fixture
def store(server: Server) -> Iterator[RedisStore]:
    with RedisStore(server.url, timeout=TIMEOUT) as store:
        store.call(*_ask(1))
        yield store


def test_command_cancelled_in_asyncio_leaves_later_answers_in_order(
    server: Server, store: RedisStore, measured: Callable[[str], None]
) -> None:
    async def scenario() -> int:
        checked = 0
        for round_ in range(5):
            server.pause()
            late = [asyncio.ensure_future(store.acall(*_ask(1000 * round_ + n))) for n in range(10, 16)]
            await asyncio.sleep(0.02)
            started = time.monotonic()
            for task in late:
                task.cancel()
            await asyncio.wait(late)
            assert time.monotonic() - started < TIMEOUT / 2, "the cancellation waited for the answer"
            assert all(task.cancelled() for task in late)
            server.resume()
            for n in range(100, 120):
                assert _is_own(await store.acall(*_ask(1000 * round_ + n)), 1000 * round_ + n)
                checked += 1
        return checked

    checked = asyncio.run(scenario())
    assert store.state == "up"
    measured(f"30 commands cancelled in the middle, {checked} answers after them, each its own")


def test_command_cancelled_in_trio_leaves_later_answers_in_order(server: Server, store: RedisStore) -> None:
    async def scenario() -> None:
        for round_ in range(3):
            server.pause()
            with trio.move_on_after(0.03) as scope:
                await store.acall(*_ask(1000 * round_ + 10))
            assert scope.cancelled_caught
            server.resume()
            for n in range(100, 110):
                assert _is_own(await store.acall(*_ask(1000 * round_ + n)), 1000 * round_ + n)

    trio.run(scenario)


def test_thread_that_is_interrupted_drops_its_connection(server: Server, store: RedisStore) -> None:
    """KeyboardInterrupt while it waits for the answer."""
    for round_ in range(3):
        (used,) = _connections(server)
        server.pause()
        target, here = threading.get_ident(), signal.SIGINT
        timer = threading.Timer(0.05, signal.pthread_kill, (target, here))
        timer.start()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                store.call(*_ask(1000 * round_ + 10))
        finally:
            signal.signal(signal.SIGINT, before)
            timer.join()
            server.resume()
        assert _is_own(store.call(*_ask(1000 * round_ + 11)), 1000 * round_ + 11)
        eventually(lambda gone=used: gone not in _connections(server))


def test_command_that_runs_out_of_time_drops_its_connection(server: Server) -> None:
    with RedisStore(server.url, timeout=0.05) as store:
        store.call(*_ask(1))
        (used,) = _connections(server)
        server.pause()
        with pytest.raises(StoreUnavailable):
            store.call(*_ask(10))
        server.resume()
        eventually(lambda: store.state == "up")
        for n in range(20, 40):
            assert _is_own(store.call(*_ask(n)), n)
        eventually(lambda: used not in _connections(server))


def test_idempotent_call_cancelled_in_the_store_gives_its_key_back(server: Server, store: RedisStore) -> None:
    """The key was begun for a caller that has left: it is given back, and the next one runs at once."""
    runs: list[str] = []

    @sp.idempotent(key=lambda order: order, store=idempotency.RedisStore(store))
    async def pay(order: str) -> str:
        runs.append(order)
        return f"paid {order}"

    async def scenario() -> None:
        server.pause()
        task = asyncio.ensure_future(pay("a"))
        await asyncio.sleep(0.05)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, server.resume)
        await asyncio.wait([task])
        assert task.cancelled() and runs == []
        assert await pay("b") == "paid b"
        assert [await pay("a"), await pay("a")] == ["paid a", "paid a"]

    asyncio.run(scenario())
    assert runs == ["b", "a"]
    assert server.keys_without_ttl() == []


def test_limiter_whose_waiter_is_cancelled_in_the_middle_of_an_exchange(server: Server) -> None:
    """Waiting callers wait for tokens, not for the socket: a cancelled one gives back what it had booked."""
    with RedisStore(server.url, timeout=0.2) as store:
        limiter = sp.Limiter(50, 5, store=store, name="x")
        assert store.settle(5)
        server.pause()

        async def scenario() -> None:
            tasks = [asyncio.ensure_future(limiter.wait_async()) for _ in range(50)]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

        asyncio.run(scenario())
        server.resume()
        eventually(lambda: store.state == "up" and limiter.allow())
    assert server.keys_without_ttl() == []
