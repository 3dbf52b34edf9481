"""One real thing with each extra, from an installed wheel: `extras.py NAME`. Prints what it did."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import stormproof as sp

POLICY = sp.Policy(sp.Deadline(20), sp.Retry(attempts=3, backoff=sp.Constant(0.01)), name="smoke")
RETRIED = "a GET that was answered 503, then 200"


@contextlib.contextmanager
def shaky_server() -> Iterator[str]:
    """A server on loopback whose first answer is a 503."""
    statuses = [503]

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses.pop() if statuses else 200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
        assert not statuses, "nothing was asked"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def httpx() -> str:
    import httpx

    from stormproof.httpx import AsyncTransport, Transport

    with shaky_server() as url, httpx.Client(transport=Transport(POLICY)) as client:
        assert client.get(url).text == "ok"

    async def ask(url: str) -> str:
        async with httpx.AsyncClient(transport=AsyncTransport(POLICY)) as client:
            return (await client.get(url)).text

    with shaky_server() as url:
        assert asyncio.run(ask(url)) == "ok"
    return f"{RETRIED}, sync and async"


def httpx2() -> str:
    import httpx2

    from stormproof.httpx2 import Transport

    with shaky_server() as url, httpx2.Client(transport=Transport(POLICY)) as client:
        assert client.get(url).text == "ok"
    return RETRIED


def requests() -> str:
    import requests

    from stormproof.requests import Adapter

    with shaky_server() as url, requests.Session() as session:
        session.mount("http://", Adapter(POLICY))
        assert session.get(url).text == "ok"
    return RETRIED


def urllib3() -> str:
    from stormproof.urllib3 import PoolManager

    with shaky_server() as url, PoolManager(POLICY) as pool:
        assert pool.request("GET", url).data == b"ok"
    return RETRIED


def aiohttp() -> str:
    import aiohttp

    from stormproof.aiohttp import middleware

    async def ask(url: str) -> str:
        holding = [middleware(POLICY)]
        async with aiohttp.ClientSession(middlewares=holding) as session, session.get(url) as response:
            return await response.text()

    with shaky_server() as url:
        assert asyncio.run(ask(url)) == "ok"
    return RETRIED


def grpc() -> str:
    from concurrent import futures

    import grpc

    from stormproof.grpc import interceptors

    failures = [grpc.StatusCode.UNAVAILABLE]

    def get(request: bytes, context: Any) -> bytes:
        if failures:
            context.abort(failures.pop(), "down")
        return b"got " + request

    server = grpc.server(futures.ThreadPoolExecutor(2))
    handler = grpc.unary_unary_rpc_method_handler(get)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.Shop", {"Get": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = grpc.intercept_channel(channel, *interceptors(POLICY)).unary_unary("/a.Shop/Get")
        assert stub(b"tea") == b"got tea"
    server.stop(None).wait()
    assert not failures
    return "a call that was UNAVAILABLE, then answered"


def asgi() -> str:
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from stormproof.asgi import DeadlineMiddleware, SheddingMiddleware

    async def show(request: Any) -> JSONResponse:
        return JSONResponse({"left": sp.remaining()})

    app = SheddingMiddleware(DeadlineMiddleware(Starlette(routes=[Route("/", show)]), default=7), limit=1)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 200 and b'{"left":6.' in sent[1]["body"], sent
    return "a Starlette service under a deadline and a shedding middleware"


def redis() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = sp.redis.RedisStore(f"redis://:secret@127.0.0.1:{port}/3", timeout=0.05, on_failure="local")
    limiter = sp.Limiter(1, 5, store=store, name="smoke")
    assert limiter.allow()
    assert "secret" not in repr(store)
    store.close()
    return "a limiter whose store is not there decided by itself"


def prometheus() -> str:
    from prometheus_client import CollectorRegistry, generate_latest

    import stormproof.prometheus

    registry = CollectorRegistry()
    stormproof.prometheus.install(registry)
    POLICY(lambda: 1)()
    page = generate_latest(registry).decode()
    assert 'stormproof_attempts_total{operation="smoke"} 1.0' in page, page
    return "a call that was counted"


def otel() -> str:
    import stormproof.otel

    uninstall = stormproof.otel.install()
    assert POLICY.call(lambda: 1) == 1
    uninstall()
    return "a call with the sink in place"


def yaml() -> str:
    Path("stormproof.yaml").write_text("policies:\n  scores:\n    retry: {attempts: 7}\n")
    assert sp.load("stormproof.yaml")["scores"].worst_case().attempts == 7
    return "a policy file in YAML"


def cli() -> str:
    from stormproof.cli import main

    Path("stormproof.toml").write_text('[policies.scores]\ndeadline = "5s"\nretry = { attempts = 4 }\n')
    Path("app.py").write_text("import time\n")
    said = []
    for command in ("explain stormproof.toml", "lint app.py", "schema", "demo --help", "run -- true"):
        assert ended(main, command.split()) == 0, command
        said.append(command.split()[0])
    return "stormproof " + ", ".join(said)


def ended(main: Any, arguments: list[str]) -> int:
    """The exit code of the command line, which talks into the void."""
    sys.argv = ["stormproof", *arguments]
    with Path("said").open("w") as void, contextlib.redirect_stdout(void):
        try:
            return int(main() or 0)
        except SystemExit as end:
            return int(end.code or 0)


def lab() -> str:
    from stormproof import lab

    storm = lab.Scenario(
        clients=20, arrival_rps=200, capacity_rps=300, outage=lab.Outage(at=5, lasts=3), timeout=0.5
    )
    naive = sp.Policy(sp.Retry(attempts=4, budget=None))
    held = sp.Policy(sp.Retry(attempts=4))
    for engine in ("exact", "fast"):
        assert not lab.simulate(naive, storm, seed=1, engine=engine).recovered
        result = lab.simulate(held, storm, seed=1, engine=engine)
        assert result.recovered
    result.report("storm.html")
    result.plot("storm.png")
    assert Path("storm.html").stat().st_size > 50_000 and Path("storm.png").read_bytes()[:4] == b"\x89PNG"
    return "an outage in both engines, a report, a plot"


def celery() -> str:
    import celery

    import stormproof.celery

    app = celery.Celery("mail", broker="memory://", backend="cache+memory://")
    failures = [ConnectionError("greylisted")]

    @app.task(base=stormproof.celery.task_base(POLICY))  # type: ignore[untyped-decorator]
    def send(address: str) -> str:
        if failures:
            raise failures.pop()
        return address

    assert send.apply(("ann@example.org",)).get() == "ann@example.org"
    assert not failures
    return "a task that failed, was queued again and ran"


def dramatiq() -> str:
    import dramatiq
    from dramatiq.brokers.stub import StubBroker

    import stormproof.dramatiq

    broker = StubBroker()
    stormproof.dramatiq.install(broker)
    ran: list[int] = []

    @dramatiq.actor(broker=broker, policy=POLICY)
    def resize(picture: int) -> None:
        ran.append(picture)
        if len(ran) < 2:
            raise ConnectionError("storage")

    worker = dramatiq.Worker(broker, worker_threads=1, worker_timeout=50)
    worker.start()
    resize.send(7)
    broker.join(resize.queue_name, timeout=20_000)
    worker.join()
    worker.stop()
    assert ran == [7, 7]
    return "a message that failed, was queued again and ran"


if __name__ == "__main__":
    assert Path(sp.__file__).is_relative_to(sys.prefix), sp.__file__
    print(globals()[sys.argv[1]]())
