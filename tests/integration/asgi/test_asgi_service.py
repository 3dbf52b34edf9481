"""The middlewares around a Starlette application, in a real server, asked by a real client."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastapi
import httpx
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

import stormproof as sp
from stormproof.asgi import DeadlineMiddleware, IdempotencyMiddleware, RefusalMiddleware, SheddingMiddleware
from stormproof.idempotency import MemoryStore, SqliteStore, Store

Serve = Callable[[Any], str]


class Orders:
    """The work of the handlers, counted."""

    def __init__(self) -> None:
        self.made = 0
        self.running = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.finished = threading.Event()

    async def create(self, request: Request) -> Response:
        self.made += 1
        order = await request.json()
        return JSONResponse({"id": self.made, **order}, 201, headers={"location": f"/orders/{self.made}"})

    async def slowly(self, request: Request) -> Response:
        self.made += 1
        self.running.release()
        await asyncio.to_thread(self.go_on.wait, 60)
        self.finished.set()
        return PlainTextResponse(f"order {self.made}")


@pytest.fixture
def orders() -> Orders:
    return Orders()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "keys.db", durable=False)
    yield made
    made.close()


def service(store: Store, *routes: Route, limit: int = 100) -> Starlette:
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(RefusalMiddleware),
            Middleware(DeadlineMiddleware),
            Middleware(SheddingMiddleware, limit=limit),
            Middleware(IdempotencyMiddleware, store=store),
        ],
    )


def test_repetition_gets_the_same_answer(serve: Serve, store: Store, orders: Orders) -> None:
    address = serve(service(store, Route("/orders", orders.create, methods=["POST"])))
    with httpx.Client(base_url=address) as client:
        answers = [
            client.post("/orders", json={"item": 7}, headers={"Idempotency-Key": '"k-1"'}) for _ in range(3)
        ]
        other = client.post("/orders", json={"item": 8}, headers={"Idempotency-Key": "k-1"})
    assert [answer.status_code for answer in answers] == [201] * 3
    assert [answer.json() for answer in answers] == [{"id": 1, "item": 7}] * 3
    assert [answer.headers["location"] for answer in answers] == ["/orders/1"] * 3
    assert ["idempotency-replayed" in answer.headers for answer in answers] == [False, True, True]
    assert (other.status_code, other.headers["content-type"]) == (422, "application/problem+json")
    assert orders.made == 1


def test_crowd_with_one_key_runs_once(serve: Serve, store: Store, orders: Orders) -> None:
    address = serve(service(store, Route("/slow", orders.slowly, methods=["POST"])))

    async def main() -> Counter[tuple[int, str | None]]:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:

            async def ask() -> httpx.Response:
                answer = await client.post("/slow", headers={"Idempotency-Key": "k-1"})
                replies.append(answer)
                if len(replies) == 19:
                    orders.go_on.set()
                return answer

            answers = await asyncio.gather(*(ask() for _ in range(20)))
            again = await client.post("/slow", headers={"Idempotency-Key": "k-1"})
        assert (again.status_code, again.text) == (200, "order 1")
        return Counter((answer.status_code, answer.headers.get("x-should-retry")) for answer in answers)

    replies: list[httpx.Response] = []
    assert asyncio.run(main()) == {(200, None): 1, (409, "true"): 19}
    assert orders.made == 1


def test_client_that_gives_up_finds_the_answer_later(serve: Serve, store: Store, orders: Orders) -> None:
    address = serve(service(store, Route("/slow", orders.slowly, methods=["POST"])))
    with httpx.Client(base_url=address, timeout=60) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post("/slow", headers={"Idempotency-Key": "k-1"}, timeout=httpx.Timeout(60, read=0.2))
        assert orders.running.acquire(timeout=60)
        orders.go_on.set()
        assert orders.finished.wait(60)
        while (answer := client.post("/slow", headers={"Idempotency-Key": "k-1"})).status_code == 409:
            assert answer.headers["x-should-retry"] == "true"
    assert (answer.text, answer.headers["idempotency-replayed"]) == ("order 1", "true")
    assert orders.made == 1


@pytest.mark.parametrize("kind", ["stream", "file", "background", "html"])
def test_every_kind_of_response_is_kept(serve: Serve, store: Store, tmp_path: Path, kind: str) -> None:
    done: list[int] = []
    afterwards = threading.Event()
    (tmp_path / "file.bin").write_bytes(bytes(range(256)) * 400)

    async def parts() -> Any:
        for number in range(5):
            yield f"part {number};"

    async def answer(request: Request) -> Response:
        done.append(1)
        if kind == "stream":
            return StreamingResponse(parts(), media_type="text/plain")
        if kind == "file":
            return FileResponse(tmp_path / "file.bin")
        if kind == "background":
            return PlainTextResponse("ok", background=BackgroundTask(afterwards.set))
        return fastapi.responses.HTMLResponse("<p>ünï</p>")

    address = serve(service(store, Route("/", answer, methods=["POST"])))
    with httpx.Client(base_url=address) as client:
        first, second = (client.post("/", headers={"Idempotency-Key": "k"}) for _ in range(2))
    assert second.headers["idempotency-replayed"] == "true"
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert first.headers["content-type"] == second.headers["content-type"]
    assert len(done) == 1
    assert kind != "background" or afterwards.wait(60)


def test_server_beyond_its_limit_sheds_requests(serve: Serve, orders: Orders) -> None:
    routes = [Route("/slow", orders.slowly), Route("/quick", lambda request: PlainTextResponse("quick"))]
    address = serve(service(MemoryStore(), *routes, limit=4))

    async def inside(count: int) -> None:
        for _ in range(count):
            assert await asyncio.to_thread(orders.running.acquire, timeout=60)

    async def main() -> tuple[list[int], httpx.Response, httpx.Response]:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            held = [asyncio.create_task(client.get("/slow")) for _ in range(2)]
            await inside(2)
            retry = await client.get("/quick", headers={"X-Request-Attempt": "2"})
            first = await client.get("/quick")
            assert first.text == "quick"
            held += [asyncio.create_task(client.get("/slow")) for _ in range(2)]
            await inside(2)
            shed = await client.get("/quick")
            orders.go_on.set()
            return [(await task).status_code for task in held], retry, shed

    served, retry, shed = asyncio.run(main())
    assert served == [200] * 4
    assert (retry.status_code, shed.status_code) == (503, 503)
    assert 2 <= int(shed.headers["retry-after"]) <= 4
    assert sp.transient(shed).retry and sp.transient(shed).after == int(shed.headers["retry-after-ms"]) / 1000


def test_callers_time_is_the_handlers_deadline(serve: Serve, orders: Orders) -> None:
    seen: list[float | None] = []

    async def look(request: Request) -> Response:
        seen.append(sp.remaining())
        return PlainTextResponse("ok")

    def look_in_a_thread(request: Request) -> Response:
        seen.append(sp.remaining())
        return PlainTextResponse("ok")

    async def hang(request: Request) -> Response:
        await asyncio.sleep(600)
        raise AssertionError

    routes = [Route("/look", look), Route("/thread", look_in_a_thread), Route("/hang", hang)]
    address = serve(service(MemoryStore(), *routes))
    with httpx.Client(base_url=address, timeout=60) as client:
        for path in ("/look", "/thread"):
            assert client.get(path, headers={"X-Request-Timeout-Ms": "20000"}).status_code == 200
        late = client.get("/look", headers={"X-Request-Timeout-Ms": "0"})
        hung = client.get("/hang", headers={"X-Request-Timeout-Ms": "100"})
    assert [value is not None and 10 < value <= 20 for value in seen] == [True, True]
    for answer in (late, hung):
        assert (answer.status_code, answer.headers["x-should-retry"]) == (504, "false")
        assert sp.transient(answer).retry is False


def test_handler_that_gives_up_sends_do_not_retry(serve: Serve) -> None:
    policy = sp.Policy(sp.Breaker(consecutive=1, open_for=40))

    async def order(request: Request) -> Response:
        async def down() -> None:
            raise ConnectionError("db:5432 user=admin")

        await policy.acall(down)
        raise AssertionError

    address = serve(service(MemoryStore(), Route("/order", order)))
    # A connection each: the server closes one on which a handler has raised.
    broken, refused = httpx.get(f"{address}/order"), httpx.get(f"{address}/order")
    assert broken.status_code == 500
    assert (refused.status_code, refused.headers["x-should-retry"]) == (503, "false")
    assert 30 <= int(refused.headers["retry-after"]) <= 44
    assert "admin" not in refused.text
    assert sp.transient(refused).retry is False


def test_fastapi_handlers_run_under_the_middlewares(serve: Serve, store: Store) -> None:
    """Handlers that run in threads, and bodies that are parsed by the framework."""
    app = fastapi.FastAPI()
    made: list[Any] = []

    @app.post("/orders", status_code=201)
    def create(order: dict[str, Any]) -> dict[str, Any]:
        made.append(order)
        return {"id": len(made)}

    app.add_middleware(IdempotencyMiddleware, store=store, required=True)
    app.add_middleware(DeadlineMiddleware, default=30)
    app.add_middleware(SheddingMiddleware, limit=10)
    app.add_middleware(RefusalMiddleware)
    address = serve(app)
    with httpx.Client(base_url=address) as client:
        missing = client.post("/orders", json={"item": 7})
        answers = [
            client.post("/orders", json={"item": 7}, headers={"Idempotency-Key": "k"}) for _ in range(2)
        ]
        invalid = [
            client.post("/orders", json=[], headers={"Idempotency-Key": "bad"}).status_code for _ in range(2)
        ]
    assert missing.status_code == 400
    assert [answer.json() for answer in answers] == [{"id": 1}] * 2
    assert invalid == [422, 422]
    assert made == [{"item": 7}]
