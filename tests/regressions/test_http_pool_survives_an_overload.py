"""A client with a bounded pool serves again once an overload is over: no slot and no stream is lost.

An attempt that was cut off while the pool handed it a connection left that connection behind for good (httpx
under asyncio), and a stream that was cut off stayed open for good (HTTP/2): after as many of those as there
were slots or streams, every later request failed until the process was restarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import Any

import httpx
import httpx2
import pytest
import trio
from tests.support.http.h2_server import H2Server, say
from tests.support.http.server import Server, answer, hang

import stormproof as sp
import stormproof.httpx
import stormproof.httpx2
from stormproof._http.httpcore_pool import repair

LIBRARIES = {"httpx": (httpx, stormproof.httpx), "httpx2": (httpx2, stormproof.httpx2)}
CUT = sp.Policy(sp.Timeout(0.05))


def run(loop: str, fn: Callable[[], Awaitable[Any]]) -> Any:
    return trio.run(fn) if loop == "trio" else asyncio.run(fn())  # type: ignore[arg-type]


async def together(loop: str, fns: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    outcomes: list[Any] = [None] * len(fns)

    async def keep(place: int) -> None:
        try:
            outcomes[place] = await fns[place]()
        except Exception as error:
            outcomes[place] = error

    if loop == "trio":
        async with trio.open_nursery() as nursery:
            for place in range(len(fns)):
                nursery.start_soon(keep, place)
    else:
        async with asyncio.TaskGroup() as group:
            for place in range(len(fns)):
                group.create_task(keep(place))
    return outcomes


def client_of(library: str, pool: int, http2: bool = False, policy: sp.Policy = CUT) -> Any:
    module, door = LIBRARIES[library]
    limits = module.Limits(max_connections=pool, max_keepalive_connections=pool)
    inner = module.AsyncHTTPTransport(limits=limits, http1=not http2, http2=http2, verify=False)
    transport = door.AsyncTransport(policy, inner)
    return module.AsyncClient(transport=transport, timeout=5, trust_env=False)


async def overload(loop: str, client: Any, url: str, callers: int) -> int:
    """Requests that are all cut off, at once and again: how many were."""

    async def cut_off() -> bool:
        try:
            await client.get(url)
        except TimeoutError:
            return True
        return False

    return sum([cut for cut in await together(loop, [cut_off] * callers) if cut is True])


async def recover(loop: str, client: Any, url: str, slots: int) -> list[Any]:
    """As many requests at once as there are slots, with no other time limit than the client's own."""

    async def served() -> Any:
        override = {"policy": sp.Policy(sp.Retry(attempts=1))}
        return (await client.get(url, extensions={"stormproof": override})).status_code

    return await together(loop, [served] * slots)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


@pytest.mark.parametrize("pool", [1, 5, 100])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_slot_is_usable_after_requests_were_cut_off(
    library: str, loop: str, pool: int, server: Server
) -> None:
    server.on("/hang", hang())
    server.on("/", answer(200, b"ok"))

    async def main() -> None:
        async with client_of(library, pool) as client:
            for _ in range(3):
                assert await overload(loop, client, server.url("/hang"), 2 * pool + 3) == 2 * pool + 3
            assert await recover(loop, client, server.url("/"), pool) == [200] * pool
            assert len(client._transport._inner._pool.connections) <= pool

    run(loop, main)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("late", [False, True], ids=["no answer", "late answers"])
def test_every_stream_is_usable_after_requests_were_cut_off(library: str, loop: str, late: bool) -> None:
    with H2Server(streams=100) as server:
        server.on("/", say(200, b"x" * 1000))

        async def main() -> None:
            async with client_of(library, 1, http2=True) as client:
                assert await recover(loop, client, server.url("/"), 1) == [200]
                server.hanging = True
                for _ in range(5):
                    assert await overload(loop, client, server.url("/"), 30) == 30
                if late:
                    server.answer_late()
                server.hanging = False
                assert await recover(loop, client, server.url("/"), 100) == [200] * 100

        run(loop, main)
        assert len(server.links) == 1, "the connection outlives what was cut off on it"
        server.wait_for(lambda: server.held() == 0)


# httpx leaves the generators of a body that is not read to its end to the collector, of which trio warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_window_of_a_connection_is_not_used_up_by_unread_bodies(library: str, loop: str) -> None:
    """Bodies that are cut off half read: what came of them counts as read."""
    size = 1 << 20
    with H2Server() as server:
        server.on("/", say(200, b"x" * size))

        async def main() -> None:
            async with client_of(library, 1, http2=True, policy=sp.Policy(sp.Retry())) as client:
                # 40 MiB of unread bodies on a window of 16 MiB.
                for _ in range(40):
                    async with client.stream("GET", server.url("/")) as response:
                        async with aclosing(response.aiter_raw()) as chunks:
                            await anext(chunks)
                async with client.stream("GET", server.url("/"), timeout=5) as response:
                    assert len(await response.aread()) == size

        run(loop, main)
        assert len(server.links) == 1


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_slot_is_usable_after_waits_for_a_slot_timed_out_in_threads(
    library: str, server: Server
) -> None:
    """A wait that ended just as it was given a new connection left that connection in the pool for good."""
    module, door = LIBRARIES[library]
    server.on("/hang", hang())
    server.on("/", answer(200, b"ok"))
    inner = module.HTTPTransport(limits=module.Limits(max_connections=2), verify=False)
    transport = door.Transport(sp.Policy(sp.Timeout(0.01)), inner)
    with module.Client(transport=transport, trust_env=False) as client, ThreadPoolExecutor(24) as threads:

        def cut_off(_: int) -> None:
            with suppress(TimeoutError):
                client.get(server.url("/hang"))

        list(threads.map(cut_off, range(1000)))
        override = {"policy": sp.Policy(sp.Retry(attempts=1))}
        for _ in range(2):
            response = client.get(server.url("/"), timeout=5, extensions={"stormproof": override})
            assert response.status_code == 200
        assert [each.info() for each in inner._pool.connections if "CONNECTING" in each.info()] == []


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_broken_http2_connection_does_not_keep_its_slot(library: str, loop: str) -> None:
    """A connection with an error that no request owns any more is replaced at once, idle or not."""
    with H2Server() as server:
        server.on("/", say(200, b"ok"))

        async def main() -> list[str]:
            async with client_of(library, 1, http2=True) as client:
                assert await recover(loop, client, server.url("/"), 1) == [200]
                pool = client._transport._inner._pool
                talks = pool.connections[0]._connection
                server.hanging = True
                # As a write that fails leaves it.
                talks._connection_error = True
                await repair(client._transport._inner)
                server.hanging = False
                assert await recover(loop, client, server.url("/"), 2) == [200] * 2
                return [each.info() for each in pool.connections]

        assert len(run(loop, main)) == 1
    assert len(server.links) == 2
