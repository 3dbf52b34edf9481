"""A request with an idempotency key announces the time of the whole call, not of one attempt.

The documented client announced the attempt's time, the documented server cut the handler off with it, and
the retry found an unknown outcome: a 409 for a day, for work that would have been done in time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.support.http.server import Server, answer

import stormproof as sp
from stormproof.asgi import DeadlineMiddleware, IdempotencyMiddleware, RefusalMiddleware, SheddingMiddleware
from stormproof.httpx import Transport
from stormproof.idempotency import MemoryStore

orders: list[object] = []


async def order(request: Request) -> JSONResponse:
    await asyncio.sleep(0.4)
    orders.append(await request.json())
    return JSONResponse({"order": len(orders)}, status_code=201)


@pytest.fixture
def shop() -> Iterator[str]:
    app = Starlette(
        routes=[Route("/orders", order, methods=["POST"])],
        middleware=[
            Middleware(RefusalMiddleware),
            Middleware(DeadlineMiddleware, default=10),
            Middleware(SheddingMiddleware, limit=50, retry_share=1),
            Middleware(IdempotencyMiddleware, store=MemoryStore(), required=True),
        ],
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def test_retries_with_a_key_find_the_answer_of_the_attempt_that_timed_out(shop: str) -> None:
    orders.clear()
    backoff = sp.Constant(0.15)
    policy = sp.Policy(sp.Deadline(30), sp.Retry(attempts=50, backoff=backoff, budget=None), sp.Timeout(0.1))
    with httpx.Client(transport=Transport(policy, idempotency_key="auto"), trust_env=False) as client:
        response = client.post(f"{shop}/orders", json={"item": 7})
    assert (response.status_code, response.json()) == (201, {"order": 1})
    assert orders == [{"item": 7}]
    assert response.headers["idempotency-replayed"] == "true"


def test_announced_time_is_the_calls_with_a_key_and_the_attempts_without() -> None:
    def announced_ms(policy: sp.Policy, **headers: str) -> str | None:
        with Server() as server, httpx.Client(transport=Transport(policy), trust_env=False) as client:
            server.on("/", answer(200))
            client.post(server.url("/"), headers=headers)
            return server.seen[0].header("X-Request-Timeout-Ms")

    both = sp.Policy(sp.Deadline(60), sp.Retry(), sp.Timeout(5))
    assert int(announced_ms(both) or 0) <= 5_000
    assert 50_000 < int(announced_ms(both, **{"Idempotency-Key": "a1"}) or 0) <= 60_000
    assert announced_ms(sp.Policy(sp.Timeout(5)), **{"Idempotency-Key": "a1"}) is None
