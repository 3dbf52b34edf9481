"""`python -m verification.soak.hostile`: a million hostile keys, deadlines and headers from one client.

The server is a process of its own: uvicorn with the deadline, shedding and idempotency middleware around a
small application. While one client floods it, another one makes a keyed request now and then, new ones and
repetitions. Every one of these must be answered, the repetitions with the first answer, and the server's
memory must stay as it was when its store first was full.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from tests.support.http.hostile import flood

from stormproof.asgi import DeadlineMiddleware, IdempotencyMiddleware, SheddingMiddleware
from stormproof.idempotency import MemoryStore

#: Keys that the server's store holds: the first flood fills it several times.
KEYS = 10_000
WARM_UP = 60_000
#: What the server may need more at the end than after the warm-up.
GROWTH = 0.05


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"order"})


def _serve(ready: Any) -> None:
    guarded = IdempotencyMiddleware(_app, MemoryStore(limit=KEYS))
    app = DeadlineMiddleware(SheddingMiddleware(guarded, limit=200))
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none")

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            ready.send(self.servers[0].sockets[0].getsockname()[1])

    Server(config).run()


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


async def _quiet(port: int, over: asyncio.Event) -> tuple[Counter[str], float]:
    """Make a new keyed request and repeat it, again and again: how they ended, and the slowest."""
    seen: Counter[str] = Counter()
    slowest, number = 0.0, 0
    headers = {"Authorization": "Bearer quiet"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as client:
        while not over.is_set():
            number += 1
            for kind in ("new", "repeated"):
                began = time.monotonic()
                answer = await client.post("/", headers={**headers, "Idempotency-Key": f"order-{number}"})
                slowest = max(slowest, time.monotonic() - began)
                replayed = answer.headers.get("idempotency-replayed") == "true"
                good = answer.status_code == 201 and replayed == (kind == "repeated")
                seen[kind if good else f"{kind}: {answer.status_code}"] += 1
            await asyncio.sleep(0.05)
    return seen, slowest


async def _run(port: int, pid: int, count: int) -> bool:
    over = asyncio.Event()
    quiet = asyncio.create_task(_quiet(port, over))
    began = time.monotonic()
    hostile = await flood(port, min(WARM_UP, count))
    warm = _resident_mb(pid)
    hostile += await flood(port, max(0, count - WARM_UP))
    took, last = time.monotonic() - began, _resident_mb(pid)
    over.set()
    seen, slowest = await quiet
    statuses = ", ".join(f"{status}: {times:,}" for status, times in sorted(hostile.items()))
    print(f"hostile client: {hostile.total():,} requests in {took:.0f} s ({statuses})")
    served = ", ".join(f"{name}: {times:,}" for name, times in sorted(seen.items()))
    print(f"other client: {served}; slowest {slowest:.2f} s")
    print(f"server: {warm:.1f} MB after the first {min(WARM_UP, count):,}, {last:.1f} MB at the end")
    return set(seen) == {"new", "repeated"} and last <= warm * (1 + GROWTH)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verification.soak.hostile", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    given = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    receive, send = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(send,), daemon=True)
    server.start()
    try:
        port = receive.recv()
        assert server.pid is not None
        good = asyncio.run(_run(port, server.pid, given.requests))
    finally:
        server.terminate()
        server.join()
    print("met" if good else "NOT MET")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
