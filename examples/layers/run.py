"""Three layers of services, four attempts at each, over a backend that is down: how much load arrives there?

    python examples/layers/run.py [CALLS]

Starts eight processes on loopback (A -> B -> C -> backend twice: once with hand-written retry loops, once
with Stormproof on both sides of each call), sends the same requests to both A's, and ends the processes.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

SERVICE = Path(__file__).with_name("service.py")
AT_ONCE = 10


class Chain:
    """A, B, C and the backend, each a process; A asks B, and so on."""

    def __init__(self, kind: str) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.urls: list[str] = []
        following = ""
        for service in ("down", kind, kind, kind):
            port = _free_port()
            command = [sys.executable, str(SERVICE), service, str(port), following]
            self.processes.append(subprocess.Popen(command))
            following = f"http://127.0.0.1:{port}/"
            self.urls.insert(0, following)

    def wait(self) -> None:
        end = time.monotonic() + 60
        for url in self.urls:
            while True:
                try:
                    httpx.get(f"{url}count")
                    break
                except httpx.TransportError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.05)

    def counts(self) -> list[int]:
        return [httpx.get(f"{url}count").json() for url in self.urls]

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def load(url: str, calls: int) -> None:
    """So many requests, ``AT_ONCE`` at a time. This caller itself does not retry."""
    gate = asyncio.Semaphore(AT_ONCE)
    async with httpx.AsyncClient(timeout=60) as client:

        async def one() -> None:
            async with gate:
                answer = await client.get(url)
                assert answer.status_code == 503, answer.text

        await asyncio.gather(*(one() for _ in range(calls)))


def main(calls: int = 100) -> int:
    chains = {kind: Chain(kind) for kind in ("naive", "stormproof")}
    try:
        for chain in chains.values():
            chain.wait()
        print(f"{calls} calls to A; the backend answers 503; every layer makes up to 4 attempts\n")
        print(f"{'requests at':>12} {'A':>8} {'B':>8} {'C':>8} {'backend':>8}   load")
        factors = {}
        for kind, chain in chains.items():
            asyncio.run(load(chain.urls[0], calls))
            counts = chain.counts()
            factors[kind] = counts[-1] / calls
            print(f"{kind:>12}", *(f"{count:>8,}" for count in counts), f"  {factors[kind]:.2f}x")
    finally:
        for chain in chains.values():
            chain.end()
    return 0 if factors["stormproof"] <= 1.5 else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
