"""`sp.reconnecting` with the real websockets library, against real servers on loopback that drop clients."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from tests.support.loops import watchdog
from tests.support.polling import eventually_async

import stormproof as sp
from stormproof._programs.reconnecting import reconnecting

__all__ = ["watchdog"]

pytest.importorskip("websockets", reason="websockets is not installed (the dev extra has it)")
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = pytest.mark.usefixtures("watchdog")

CLIENTS = 20
#: The window in which the first reconnect of each client falls.
WINDOW = 0.5


class Server:
    """Greets every client, and can drop all of them at once."""

    def __init__(self) -> None:
        self.port = 0
        self.arrivals: list[float] = []
        self._server: Any = None

    async def _greet(self, peer: Any) -> None:
        self.arrivals.append(time.monotonic())
        await peer.send("hello")
        await peer.wait_closed()

    async def start(self, **options: Any) -> None:
        self._server = await serve(self._greet, "127.0.0.1", self.port, **options)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def live(self) -> int:
        return len(self._server.connections)

    def drop_all(self) -> float:
        """Cut every connection without a closing handshake, as a crash would: when that was."""
        for peer in list(self._server.connections):
            peer.transport.abort()
        return time.monotonic()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def policy(number: int = 0, **options: Any) -> sp.Policy:
    # Without jitter of its own: the spread after a loss is what is shown here.
    given: dict[str, Any] = {
        "attempts": None,
        "within": 60,
        "backoff": sp.Exponential(WINDOW, jitter="none"),
        "budget": None,
    }
    return sp.Policy(sp.Retry(**{**given, **options}), rng=number)


async def listen(server: Server, number: int, greetings: list[int]) -> None:
    """The natural form, as for `async for ws in connect(...)`."""
    async for ws in reconnecting(lambda: connect(server.url, proxy=None), policy(number), stable=0):
        try:
            async for message in ws:
                assert message == "hello"
                greetings[number] += 1
        except ConnectionClosed:
            continue


@contextlib.asynccontextmanager
async def listening(server: Server) -> AsyncIterator[list[int]]:
    greetings = [0] * CLIENTS
    clients = [asyncio.ensure_future(listen(server, number, greetings)) for number in range(CLIENTS)]
    try:
        yield greetings
    finally:
        for client in clients:
            client.cancel()
        ended = await asyncio.gather(*clients, return_exceptions=True)
        assert {type(end) for end in ended} == {asyncio.CancelledError}


def test_dropped_clients_come_back_spread_out() -> None:
    async def main() -> None:
        async with serving() as server, listening(server) as greetings:
            await eventually_async(lambda: server.live == CLIENTS)
            dropped = server.drop_all()
            await eventually_async(lambda: greetings == [2] * CLIENTS)
            waits = sorted(arrival - dropped for arrival in server.arrivals[CLIENTS:])
            assert len(waits) == CLIENTS
            # Seeded draws: what the clients drew is fixed and spread out, only the machine adds to it.
            drawn = sorted(policy(number).draw() * WINDOW for number in range(CLIENTS))
            assert drawn[-1] - drawn[0] > WINDOW / 2
            assert all(wait >= draw for wait, draw in zip(waits, drawn, strict=True))
            # No connection is left over from before.
            assert server.live == CLIENTS

    asyncio.run(main())


def test_client_reconnects_to_a_restarted_server() -> None:
    async def main() -> None:
        async with serving() as server, listening(server) as greetings:
            await eventually_async(lambda: server.live == CLIENTS)
            # Closed in order this time (1001, going away), and away for longer than the first window.
            await server.stop()
            await asyncio.sleep(WINDOW * 1.2)
            await server.start()
            await eventually_async(lambda: greetings == [2] * CLIENTS)
            await eventually_async(lambda: server.live == CLIENTS)

    asyncio.run(main())


def test_break_closes_the_connection() -> None:
    async def main() -> None:
        async with serving() as server:
            async with reconnecting(partial(connect, server.url, proxy=None), policy()) as link:
                async for ws in link:
                    assert await ws.recv() == "hello"
                    assert server.live == 1
                    break
            assert ws.state.name == "CLOSED"
            await eventually_async(lambda: server.live == 0)

    asyncio.run(main())


def test_guard_raises_close_codes_that_a_new_connection_cannot_cure() -> None:
    async def main() -> None:
        codes = iter([1012, 1011, 4003])

        async def hang_up(peer: Any) -> None:
            await peer.close(next(codes))

        async with serve(hang_up, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            seen = 0
            retry = sp.Retry(backoff=sp.Constant(0.01), budget=None)
            with pytest.raises(ConnectionClosed) as caught:
                async with reconnecting(lambda: connect(f"ws://127.0.0.1:{port}", proxy=None), retry) as link:
                    async for ws in link:
                        seen += 1
                        with link.guard():
                            await ws.recv()
            # "Service restart" and "internal error" pass; the application's own refusal does not.
            assert seen == 3 and caught.value.rcvd is not None and caught.value.rcvd.code == 4003

    asyncio.run(main())


def test_handshake_refused_for_now_is_retried() -> None:
    async def main() -> None:
        statuses = [503, 429]

        def answer(peer: Any, request: Any) -> Any:
            return peer.respond(statuses.pop(0), "later\n") if statuses else None

        server = Server()
        await server.start(process_request=answer)
        seen: list[Any] = []
        stop = sp.subscribe(seen.append)
        try:
            given = policy(backoff=sp.Constant(0.01))
            async with reconnecting(lambda: connect(server.url, proxy=None), given) as link:
                async for ws in link:
                    assert await ws.recv() == "hello"
                    break
        finally:
            stop()
            await server.stop()
        assert [type(event).__name__ for event in seen] == ["Retrying", "Retrying", "Connected"]

    asyncio.run(main())


def test_handshake_that_is_refused_for_good_is_raised() -> None:
    async def main() -> None:
        server = Server()
        await server.start(process_request=lambda peer, request: peer.respond(403, "no\n"))
        try:
            with pytest.raises(InvalidStatus):
                async for _ in reconnecting(lambda: connect(server.url, proxy=None), policy()):
                    pytest.fail("it must not connect")
        finally:
            await server.stop()

    asyncio.run(main())


def test_blocking_client_reconnects() -> None:
    from websockets.sync.client import connect as connect_sync
    from websockets.sync.server import serve as serve_sync

    def greet(peer: Any) -> None:
        peer.send("hello")
        peer.close(1012)

    with serve_sync(greet, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
            heard = []
            given = policy(backoff=sp.Constant(0.01))
            with reconnecting(lambda: connect_sync(url, proxy=None), given) as link:
                for ws in link:
                    try:
                        heard.append(ws.recv())
                        ws.recv()
                    except ConnectionClosed as error:
                        if len(heard) == 3:
                            break
                        link.lost(error)
            assert heard == ["hello"] * 3
            assert ws.protocol.state.name == "CLOSED"
        finally:
            server.shutdown()
            thread.join(30)
