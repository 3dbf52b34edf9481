"""Our clients against our servers: the stacks that the docs describe, and what must hold for every pair."""

from __future__ import annotations

import asyncio
import json
import socketserver
import tempfile
import threading
import wsgiref.simple_server
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.support.http.clients import CLIENTS, Client
from tests.support.redis_servers import PATIENT_S
from tests.support.redis_servers import Server as Redis

import stormproof as sp
from stormproof import asgi, wsgi
from stormproof.idempotency import MemoryStore, RedisStore, SqliteStore
from stormproof.redis import RedisStore as Shared

#: An attempt at the slow handler ends before the handler does, the call does not.
_ATTEMPT_S, _SLOW_S, _CALL_S = 0.4, 0.6, 20.0


@dataclass
class Shop:
    """Handlers that every stack serves; ``began`` counts the handlers that were run, by path."""

    began: Counter[str] = field(default_factory=Counter)

    def handle(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.began[path] += 1
        if path == "/down":
            raise sp.CircuitOpen("bank", retry_after=1.0)
        if path == "/busy" and self.began[path] == 1:
            return 503, {"retry-after-ms": "20"}, b"{}"
        return 200, {}, json.dumps({"left": sp.remaining(), "times": self.began[path]}).encode()


def _starlette(shop: Shop, store: Any) -> Any:
    async def handle(request: Request) -> Response:
        status, headers, body = shop.handle(request.url.path)
        if request.url.path == "/slow":
            await asyncio.sleep(_SLOW_S)
        return JSONResponse(json.loads(body), status, headers)

    return Starlette(
        routes=[Route("/{path:path}", handle, methods=["GET", "POST"])],
        middleware=[
            Middleware(asgi.RefusalMiddleware),
            Middleware(asgi.DeadlineMiddleware, default=10),
            Middleware(asgi.SheddingMiddleware, limit=50),
            Middleware(asgi.IdempotencyMiddleware, store=store),
        ],
    )


def _wsgi(shop: Shop) -> Any:
    def application(environ: Any, start_response: Any) -> list[bytes]:
        path = environ["PATH_INFO"]
        status, headers, body = shop.handle(path)
        start_response(f"{status} Said", [*headers.items(), ("Content-Length", str(len(body)))])
        return [body]

    guarded = wsgi.SheddingMiddleware(application, limit=50)
    return wsgi.RefusalMiddleware(wsgi.DeadlineMiddleware(guarded, default=10))


@contextmanager
def _uvicorn(app: Any) -> Iterator[int]:
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            started.set()

    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none")
    server = Server(config)
    thread = threading.Thread(target=server.run, name="uvicorn")
    thread.start()
    try:
        assert started.wait(30)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)


@contextmanager
def _wsgiref(app: Any) -> Iterator[int]:
    class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
        pass

    class Quiet(wsgiref.simple_server.WSGIRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    server = wsgiref.simple_server.make_server("127.0.0.1", 0, app, Server, Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="wsgiref")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()


@contextmanager
def _with_memory(shop: Shop) -> Iterator[int]:
    with _uvicorn(_starlette(shop, MemoryStore())) as port:
        yield port


@contextmanager
def _with_sqlite(shop: Shop) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "keys.db"))
        with _uvicorn(_starlette(shop, store)) as port:
            yield port
        store.close()


@contextmanager
def _with_redis(shop: Shop) -> Iterator[int]:
    with Redis() as server, Shared(server.url, timeout=PATIENT_S) as shared:
        with _uvicorn(_starlette(shop, RedisStore(shared))) as port:
            yield port


@contextmanager
def _with_wsgi(shop: Shop) -> Iterator[int]:
    with _wsgiref(_wsgi(shop)) as port:
        yield port


STACKS = {
    "ASGI, keys in memory": _with_memory,
    "ASGI, keys in SQLite": _with_sqlite,
    "ASGI, keys in Redis": _with_redis,
    "WSGI": _with_wsgi,
}


@dataclass
class Pair:
    """One client and one server stack, ready for a check."""

    client: Client
    shop: Shop

    async def served(self) -> bool:
        """A plain GET is answered, with the deadline of the caller around its handler."""
        answer = await self.client.get("/")
        return answer.status == 200 and 0 < json.loads(answer.body)["left"] <= _CALL_S

    async def refused_once(self) -> bool:
        """A refusal that says so is not retried."""
        answer = await self.client.get("/down")
        return answer.status == 503 and self.shop.began["/down"] == 1

    async def busy_then_served(self) -> bool:
        """A keyed POST that was turned away is sent again, and runs."""
        answer = await self.client.post("/busy", b"{}")
        return answer.status == 200 and self.shop.began["/busy"] == 2

    async def run_once(self) -> bool:
        """A keyed POST whose attempt was cut off runs once, and its retry finds the answer."""
        answer = await self.client.post("/slow", b"{}")
        return answer.status == 200 and self.shop.began["/slow"] == 1


Check = Callable[[Pair], Awaitable[bool]]
CHECKS: dict[str, Check] = {
    "served within the deadline": Pair.served,
    "refused once": Pair.refused_once,
    "busy, then served": Pair.busy_then_served,
    "run once per key": Pair.run_once,
}


def has(stack: str, check: str) -> bool:
    """Return True if the docs promise ``check`` of ``stack``: idempotency keys are for ASGI."""
    return stack != "WSGI" or check != "run once per key"


class _Address:
    """The part of a server that `Client` uses."""

    def __init__(self, port: int) -> None:
        self._port = port

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"


def holds(client: str, stack: str, check: str) -> bool:
    """Run one check for one pair."""
    kind = CLIENTS[client]
    policy = sp.Policy(
        sp.Deadline(_CALL_S),
        sp.Retry(attempts=None, backoff=sp.Constant(0.05), budget=None),
        # What must arrive has the time of the whole call.
        sp.Timeout(_ATTEMPT_S if check == "run once per key" else _CALL_S),
    )
    shop = Shop()

    async def main(port: int) -> bool:
        address: Any = _Address(port)
        made = kind(address, policy, 10, {"idempotency_key": "auto"})
        try:
            return await CHECKS[check](Pair(made, shop))
        finally:
            await made.close()

    with STACKS[stack](shop) as port:
        if kind.loop == "trio":
            return trio.run(main, port)
        if kind.loop == "asyncio":
            return asyncio.run(main(port))
        return _finish(main(port))


def _finish(coroutine: Any) -> bool:
    """Run a coroutine that never suspends: its client is a sync one."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return bool(ended.value)
    raise AssertionError("a sync client does not suspend")
