"""A task that is cancelled just when its answer has been read, or broke off, gives its connection back.

The connection stayed in the pool as if in use, one for every such moment: hedges that lose and attempts that
time out on a busy event loop left hundreds of them open in a few minutes.
"""

from __future__ import annotations

import asyncio

import anyio
import httpcore
import httpx
import pytest

import stormproof as sp
from stormproof._runtime.shielded_close import await_shielded
from stormproof.httpx import AsyncTransport


def _stuck(pool: httpcore.AsyncConnectionPool) -> list[str]:
    """The connections that can neither be used again nor be thrown away."""
    return [c.info() for c in pool.connections if not (c.is_idle() or c.is_closed())]


#: How an answer's body comes, each in the reads that bring it.
BODIES = {
    "announced": [b"Content-Length: 4\r\n\r\n", b"body"],
    "empty": [b"Content-Length: 0\r\n\r\n"],
    "chunked": [b"Transfer-Encoding: chunked\r\n\r\n", b"4\r\nbody\r\n", b"0\r\n\r\n"],
    "half": [b"Content-Length: 4\r\n\r\n", b"bo", b""],
    "half, chunked": [b"Transfer-Encoding: chunked\r\n\r\n", b"4\r\nbody\r\n", b""],
    "no chunk": [b"Transfer-Encoding: chunked\r\n\r\n", b"?\r\nbody\r\n"],
    "no HTTP": [b"?\r\n\r\n"],
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("status", [b"200 OK", b"302 Found\r\nLocation: /x", b"503 Busy"])
def test_request_cancelled_at_any_turn_leaves_no_connection_open(status: bytes, body: str) -> None:
    """After every number of turns of the event loop that a request takes, in turn."""
    said = [b"HTTP/1.1 " + status + b"\r\n" + BODIES[body][0], *BODIES[body][1:]] * 2
    inner = httpx.AsyncHTTPTransport(verify=False)

    async def cancelled_after(turns: int) -> tuple[bool, list[str]]:
        pool = httpcore.AsyncConnectionPool(network_backend=httpcore.AsyncMockBackend(list(said)))
        inner._pool = pool
        policy = sp.Policy(sp.Retry(attempts=2, backoff=sp.Constant(0), budget=None), sp.Timeout(5))
        async with httpx.AsyncClient(transport=AsyncTransport(policy, inner), trust_env=False) as client:
            task = asyncio.ensure_future(client.get("http://shop.example/"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled(), _stuck(pool)

    async def main() -> tuple[int, dict[int, list[str]]]:
        cancels, stuck = 0, {}
        for turns in range(100):
            was_cancelled, left = await cancelled_after(turns)
            cancels += was_cancelled
            if left:
                stuck[turns] = left
        return cancels, stuck

    cancels, stuck = asyncio.run(main())
    assert stuck == {}
    assert 2 < cancels < 100


def test_shielded_coroutine_returns_and_raises_as_if_awaited() -> None:
    async def main() -> None:
        async def fine() -> int:
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
            return 7

        async def bad() -> None:
            await asyncio.sleep(0)
            raise KeyError("x")

        assert await await_shielded(fine()) == 7
        with pytest.raises(KeyError):
            await await_shielded(bad())

    asyncio.run(main())


def test_cancellation_is_not_lost_in_an_error() -> None:
    async def main() -> None:
        async def bad() -> None:
            await asyncio.sleep(0)
            raise KeyError("x")

        task = asyncio.ensure_future(await_shielded(bad()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())


def test_shielded_coroutine_is_cancelled_while_it_waits() -> None:
    async def main() -> list[str]:
        log: list[str] = []

        async def close() -> None:
            await asyncio.sleep(0)
            log.append("after a turn")
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                log.append("cancelled")
                raise

        task = asyncio.ensure_future(await_shielded(close()))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return log

    assert asyncio.run(main()) == ["after a turn", "cancelled"]


def test_closed_coroutine_closes_its_awaitable() -> None:
    log: list[str] = []

    async def close() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            log.append("closed")

    async def outer() -> None:
        await await_shielded(close())

    coroutine = outer()
    coroutine.send(None)
    coroutine.close()
    assert log == ["closed"]


def test_cancelled_request_frees_a_connection_offered_to_another() -> None:
    """Two requests are given one idle connection; one gets it, fails, and is cancelled as it closes it."""
    good, bad = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"?\r\n\r\n"
    inner = httpx.AsyncHTTPTransport(verify=False)

    async def cancelled_after(turns: int, later: int) -> list[str]:
        pool = httpcore.AsyncConnectionPool(network_backend=httpcore.AsyncMockBackend([good, bad, bad]))
        inner._pool = pool
        transport = AsyncTransport(sp.Policy(sp.Timeout(5)), inner)
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            await client.get("http://shop.example/")
            first = asyncio.ensure_future(client.get("http://shop.example/"))
            for _ in range(later):
                await asyncio.sleep(0)
            second = asyncio.ensure_future(client.get("http://shop.example/"))
            for _ in range(turns):
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first, second])
            for task in (first, second):
                if not task.cancelled():
                    task.exception()
            return _stuck(pool)

    async def main() -> dict[tuple[int, int], list[str]]:
        every = [(turns, later) for turns in range(25) for later in range(12)]
        return {moment: left for moment in every if (left := await cancelled_after(*moment))}

    assert asyncio.run(main()) == {}


def test_wait_inside_a_shield_is_not_cut_short() -> None:
    async def main() -> list[str]:
        log: list[str] = []
        lock = anyio.Lock()

        async def close() -> None:
            with anyio.CancelScope(shield=True):
                async with lock:
                    log.append("closed")
            await asyncio.sleep(3600)
            log.append("never")

        async with lock:
            task = asyncio.ensure_future(await_shielded(close()))
            await asyncio.sleep(0.001)
            for _ in range(2):
                task.cancel()
                await asyncio.sleep(0.001)
            log.append("let go")
        await asyncio.wait([task], timeout=5)
        assert task.cancelled()
        return log

    assert asyncio.run(main()) == ["let go", "closed"]


def test_time_limit_inside_a_shield_holds() -> None:
    async def main() -> list[bool]:
        ended = []

        async def close() -> None:
            with anyio.CancelScope(shield=True), anyio.move_on_after(0.01) as limit:
                await anyio.sleep(3600)
            ended.append(limit.cancelled_caught)

        await asyncio.wait_for(await_shielded(close()), 5)
        return ended

    assert asyncio.run(main()) == [True]


def test_callers_anyio_shield_does_not_stop_task_cancel() -> None:
    """A caller's own shield is against anyio's scopes: ``task.cancel()`` goes through it as ever."""

    async def main() -> bool:
        async def shielded() -> None:
            with anyio.CancelScope(shield=True):
                await await_shielded(asyncio.sleep(3600))

        task = asyncio.ensure_future(shielded())
        await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        return task.cancelled()

    assert asyncio.run(main())
