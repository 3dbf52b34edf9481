"""An HTTP client that outlives a bad minute of its server.

    python examples/http_client/run.py

A server on loopback answers 503, resets connections and is slow, for a while. The same 300 requests are
sent by a bare httpx client and by one with a Stormproof transport; then a table says what came of it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import httpx

from stormproof import Budget, Exponential, Policy, Retry, transient
from stormproof.httpx import AsyncTransport

REQUESTS = 300
ROUGH = range(60, 160)


class Server:
    """Serves, but every request of the rough stretch fails in one way or another with a chance of 60 %."""

    def __init__(self) -> None:
        self.requests = 0
        self._chance = random.Random(7)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                trouble = self._chance.random() if self.requests in ROUGH else 1.0
                if trouble < 0.2:
                    writer.transport.abort()
                    return
                if trouble < 0.3:
                    await asyncio.sleep(0.5)
                status = b"503 Busy" if 0.3 <= trouble < 0.6 else b"200 OK"
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


async def send(client: httpx.AsyncClient, url: str) -> Counter[str]:
    """All requests, ten at a time, and what became of them."""
    outcomes: Counter[str] = Counter()
    gate = asyncio.Semaphore(10)

    async def one() -> None:
        async with gate:
            try:
                answer = await client.get(url)
                outcomes[f"{answer.status_code}"] += 1
            except httpx.TransportError as error:
                outcomes[type(error).__name__] += 1

    await asyncio.gather(*(one() for _ in range(REQUESTS)))
    return outcomes


async def main() -> None:
    policy = Policy(
        Retry(on=transient, attempts=8, backoff=Exponential(0.02, cap=0.2), budget=Budget(burst=200)),
        name="shop",
    )
    for name, transport in (("bare httpx", None), ("stormproof.httpx", AsyncTransport(policy))):
        server = Server()
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        async with httpx.AsyncClient(transport=transport, timeout=0.25) as client:
            outcomes = await send(client, f"http://127.0.0.1:{port}/")
        listening.close()
        await asyncio.sleep(0.05)  # for the connections to notice that their other end is closed
        counts = ", ".join(f"{what} {count}" for what, count in outcomes.most_common())
        print(f"{name:>17}: {REQUESTS} calls, {server.requests} requests: {counts}")


if __name__ == "__main__":
    asyncio.run(main())
