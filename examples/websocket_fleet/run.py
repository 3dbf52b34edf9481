"""200 websocket clients, one restart of their server, and no stampede.

    python examples/websocket_fleet/run.py

The server drops all connections and is back at once. Clients that reconnect in a plain loop all arrive in the
same instant; under ``reconnecting`` they come spread over the longest wait of their backoff.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from stormproof import Exponential, Retry, reconnecting, transient

CLIENTS = 200
# No budget: a client that stops reconnecting is lost; its waits spread the load.
# stormproof: ignore[SP008]
POLICY = Retry(on=transient, within=600, attempts=None, budget=None, backoff=Exponential(2, cap=2))
SLICE = 0.05


class Server:
    """Keeps connections open until it is asked to drop them, and notes when new ones come."""

    def __init__(self) -> None:
        self.open: set[ServerConnection] = set()
        self.arrivals: list[float] = []
        self._news = asyncio.Event()

    async def have(self, arrivals: int) -> None:
        """Wait until so many have arrived."""
        while len(self.arrivals) < arrivals:
            self._news.clear()
            await self._news.wait()

    async def handle(self, connection: ServerConnection) -> None:
        self.open.add(connection)
        self.arrivals.append(time.monotonic())
        self._news.set()
        await connection.wait_closed()
        self.open.discard(connection)


async def plain(url: str) -> None:
    """Reconnect in a plain loop, as a first version does."""
    while True:
        try:
            async with connect(url) as connection:
                await _use(connection)
        except (ConnectionClosed, OSError):
            continue


async def careful(url: str) -> None:
    """The same under a policy."""
    async for connection in reconnecting(lambda: connect(url), POLICY):
        try:
            await _use(connection)
        except ConnectionClosed:
            continue


async def _use(connection: ClientConnection) -> None:
    async for _ in connection:
        pass


async def storm(client: object) -> Counter[int]:
    """Connect all clients, drop them, and return how many came back in each slice of time."""
    server = Server()
    async with serve(server.handle, "127.0.0.1", 0, compression=None) as listening:
        url = f"ws://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}"
        tasks = [asyncio.create_task(client(url)) for _ in range(CLIENTS)]  # type: ignore[operator]
        await server.have(CLIENTS)
        server.arrivals.clear()
        dropped = time.monotonic()
        for connection in list(server.open):
            connection.transport.abort()
        await server.have(CLIENTS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return Counter(int((at - dropped) / SLICE) for at in server.arrivals)


async def main() -> None:
    for name, client in (("a plain loop", plain), ("reconnecting", careful)):
        slices = await storm(client)
        print(f"{name:>16}: most arrivals in {SLICE * 1000:.0f} ms: {max(slices.values())} of {CLIENTS}")


if __name__ == "__main__":
    asyncio.run(main())
