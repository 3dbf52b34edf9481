"""`python -m verification.soak.hostile`: a million hostile keys, deadlines and headers from one client.

The server has the deadline, shedding and idempotency middleware around a small application, with records in
memory, in SQLite and in Redis. Most requests are made by calling the application, in a process of its own
for each store; for the one in memory a part goes over HTTP to uvicorn first. Meanwhile another client makes
keyed requests, new ones and repetitions. Every one of these must be answered, the repetitions with the first
answer, and the memory must stay as it was after the first tenth of the flood.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import uvicorn
from tests.support.http.hostile import attacks, flood
from tests.support.redis_servers import Server as Redis

from stormproof import DeadlineExceeded
from stormproof.asgi import DeadlineMiddleware, IdempotencyMiddleware, SheddingMiddleware
from stormproof.idempotency import MemoryStore, RedisStore, SqliteStore, Store
from stormproof.redis import RedisStore as Shared

STORES = ("memory", "sqlite", "redis")
#: Keys that the store in memory holds: the first tenth of the flood fills it several times.
KEYS = 10_000
#: The other stores keep what comes in for this many seconds; the flood lasts for many times that.
TTL_S = 5.0
WARM_UP = 0.1
#: What may be needed more at the end than after the warm-up.
GROWTH = 0.05
#: Hostile requests in flight at once.
AT_ONCE = 20

#: Counted in place of a status: the answer was cut off.
CUT = 0

#: Makes one request of the other client: its status, and whether the answer was a replay.
Ask = Callable[[str], Awaitable[tuple[int, bool]]]


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"order"})


def _guarded(store: Store) -> Any:
    return DeadlineMiddleware(SheddingMiddleware(IdempotencyMiddleware(_app, store), limit=200))


@contextmanager
def _store(kind: str) -> Iterator[tuple[Store, Callable[[], float]]]:
    """A store, and how many MB its records take outside of this process."""
    if kind == "memory":
        yield MemoryStore(limit=KEYS), lambda: 0.0
    elif kind == "sqlite":
        with TemporaryDirectory() as folder:
            path = Path(folder) / "keys.db"
            store = SqliteStore(path, ttl=TTL_S, durable=False)
            yield store, lambda: sum(each.stat().st_size for each in Path(folder).iterdir()) / 1e6
            store.close()
    else:
        with Redis() as server, Shared(server.url, prefix="hostile", timeout=1.0) as shared:
            yield RedisStore(shared, ttl=TTL_S), lambda: server.ask("INFO", "memory")["used_memory"] / 1e6


def _resident_mb(pid: int | str = "self") -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


async def _call(app: Any, target: bytes, fields: list[tuple[bytes, bytes]]) -> tuple[int, bool]:
    """One POST to ``app``: its status, and whether the answer was a replay."""
    path, _, query = target.partition(b"?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path.decode(),
        "raw_path": path,
        "query_string": query,
        "headers": fields,
    }
    start: dict[str, Any] = {}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            start.update(message)

    try:
        await app(scope, receive, send)
    except DeadlineExceeded:
        # Its time ended in the middle of the answer; a server would close the connection.
        return CUT, False
    return start["status"], (b"idempotency-replayed", b"true") in start["headers"]


async def _flood_app(app: Any, source: Iterator[tuple[bytes, list[tuple[bytes, bytes]]]]) -> Counter[int]:
    """Make every request of ``source``, a few at once; return how often each status came."""
    seen: Counter[int] = Counter()

    async def work() -> None:
        for target, fields in source:
            seen[(await _call(app, target, fields))[0]] += 1
            # An application that never waits would keep the other client from its turn.
            await asyncio.sleep(0)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return seen


class Quiet:
    """The other client: a new keyed request and its repetition, again and again."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._over = asyncio.Event()
        self.seen: Counter[str] = Counter()
        self.slowest_s = 0.0
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        for number in itertools.count():
            for kind in ("new", "repeated"):
                began = time.monotonic()
                status, is_replay = await self._ask(f"order-{number}")
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                good = status == 201 and is_replay == (kind == "repeated")
                self.seen[kind if good else f"{kind}: {status}"] += 1
            if self._over.is_set():
                return
            await asyncio.sleep(0.02)

    async def end(self) -> bool:
        """Stop it; True if every request was answered as it must be."""
        self._over.set()
        await self._task
        served = ", ".join(f"{name}: {times:,}" for name, times in sorted(self.seen.items()))
        print(f"  other client: {served}; slowest {self.slowest_s:.2f} s")
        return set(self.seen) == {"new", "repeated"}


def _show(hostile: Counter[int], took_s: float, memory_mb: tuple[float, float]) -> bool:
    """Print what became of the flood; True if the memory stayed as it was."""
    statuses = ", ".join(f"{status or 'cut off'}: {times:,}" for status, times in sorted(hostile.items()))
    print(f"  hostile client: {hostile.total():,} requests in {took_s:.0f} s ({statuses})")
    print(f"  server: {memory_mb[0]:.1f} MB after a tenth of them, {memory_mb[1]:.1f} MB at the end")
    return memory_mb[1] <= memory_mb[0] * (1 + GROWTH)


async def _run_app(kind: str, count: int) -> bool:
    with _store(kind) as (store, outside_mb):
        app = _guarded(store)

        async def ask(key: str) -> tuple[int, bool]:
            fields = [(b"authorization", b"Bearer quiet"), (b"idempotency-key", key.encode())]
            return await _call(app, b"/orders", fields)

        quiet, began, warm_up = Quiet(ask), time.monotonic(), int(count * WARM_UP)
        source = attacks(count)
        hostile = await _flood_app(app, itertools.islice(source, warm_up))
        warm_mb = _resident_mb()
        warm_outside_mb = outside_mb()
        hostile += await _flood_app(app, source)
        is_bounded = _show(hostile, time.monotonic() - began, (warm_mb, _resident_mb()))
        if kind != "memory":
            print(f"  records: {warm_outside_mb:.1f} MB after a tenth, {outside_mb():.1f} MB at the end")
        return await quiet.end() and is_bounded


def _app_process(kind: str, count: int) -> None:
    sys.exit(0 if asyncio.run(_run_app(kind, count)) else 1)


def _serve(ready: Any) -> None:
    app = _guarded(MemoryStore(limit=KEYS))
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none")

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            ready.send(self.servers[0].sockets[0].getsockname()[1])

    Server(config).run()


async def _run_http(port: int, pid: int, count: int) -> bool:
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:

        async def ask(key: str) -> tuple[int, bool]:
            headers = {"Authorization": "Bearer quiet", "Idempotency-Key": key}
            response = await client.post("/", headers=headers)
            return response.status_code, response.headers.get("idempotency-replayed") == "true"

        quiet, began = Quiet(ask), time.monotonic()
        # A short flood has yet to fill the store.
        warm_up = min(count, max(int(count * WARM_UP), 6 * KEYS))
        hostile = await flood(port, warm_up)
        warm_mb = _resident_mb(pid)
        hostile += await flood(port, count - warm_up)
        is_bounded = _show(hostile, time.monotonic() - began, (warm_mb, _resident_mb(pid)))
        return await quiet.end() and is_bounded


def over_http(count: int) -> bool:
    """``count`` requests to uvicorn; True if all was as it must be."""
    spawn = multiprocessing.get_context("spawn")
    receive, send = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(send,), daemon=True)
    server.start()
    try:
        port = receive.recv()
        assert server.pid is not None
        return asyncio.run(_run_http(port, server.pid, count))
    finally:
        server.terminate()
        server.join()


def in_process(kind: str, count: int) -> bool:
    """``count`` calls of the application, its records in ``kind``; True if all was as it must be."""
    process = multiprocessing.get_context("spawn").Process(target=_app_process, args=(kind, count))
    process.start()
    process.join()
    return process.exitcode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verification.soak.hostile", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--over-http", type=int, default=100_000)
    parser.add_argument("--stores", nargs="*", default=STORES, choices=STORES)
    given = parser.parse_args()
    outcomes = {}
    if given.over_http:
        print("memory, over HTTP", flush=True)
        outcomes["memory, over HTTP"] = over_http(given.over_http)
    for kind in given.stores:
        print(kind, flush=True)
        outcomes[kind] = in_process(kind, given.requests)
    missed = [name for name, good in outcomes.items() if not good]
    print(f"NOT MET: {', '.join(missed)}" if missed else "met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
