"""Client and server together, over a network that loses requests and answers: every order is placed once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import stormproof as sp
from stormproof.asgi import DeadlineMiddleware, IdempotencyMiddleware, RefusalMiddleware, SheddingMiddleware
from stormproof.httpx import AsyncTransport
from stormproof.idempotency import SqliteStore

ORDERS = 150


class Lossy(httpx.AsyncBaseTransport):
    """Loses a quarter of the requests, and a quarter of the answers."""

    def __init__(self, seed: int) -> None:
        self.inner = httpx.AsyncHTTPTransport()
        self.draw = random.Random(seed).random
        self.lost = Counter[str]()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.draw() < 0.25:
            self.lost["requests"] += 1
            raise httpx.ConnectError("unreachable", request=request)
        response = await self.inner.handle_async_request(request)
        if self.draw() < 0.25:
            self.lost["answers"] += 1
            await response.aread()
            await response.aclose()
            raise httpx.ReadError("reset", request=request)
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


def test_every_order_is_placed_once(serve: Callable[[Any], str], tmp_path: Path) -> None:
    placed = Counter[int]()
    draw = random.Random(7).random

    async def order(request: Request) -> Response:
        number = (await request.json())["number"]
        if draw() < 0.2:
            return Response(status_code=503)
        placed[number] += 1
        await asyncio.sleep(draw() * 0.01)
        return JSONResponse({"placed": number}, status_code=201)

    store = SqliteStore(tmp_path / "keys.db", durable=False)
    app = Starlette(
        routes=[Route("/orders", order, methods=["POST"])],
        middleware=[
            Middleware(RefusalMiddleware),
            Middleware(SheddingMiddleware, limit=10, retry_after=0.02),
            Middleware(DeadlineMiddleware, default=60),
            Middleware(IdempotencyMiddleware, store=store, required=True),
        ],
    )
    address = serve(app)
    policy = sp.Policy(
        sp.Retry(sp.transient, attempts=None, within=100, backoff=sp.Exponential(0.01, cap=0.1), budget=None)
    )
    network = Lossy(seed=42)

    async def main() -> list[httpx.Response]:
        transport = AsyncTransport(policy, network, idempotency_key="auto")
        async with httpx.AsyncClient(base_url=address, transport=transport, timeout=60) as client:
            gate = asyncio.Semaphore(20)

            async def place(number: int) -> httpx.Response:
                async with gate:
                    return await client.post("/orders", json={"number": number})

            return await asyncio.gather(*(place(number) for number in range(ORDERS)))

    answers = asyncio.run(main())
    store.close()
    assert [(a.status_code, a.json()) for a in answers] == [(201, {"placed": n}) for n in range(ORDERS)]
    assert placed == dict.fromkeys(range(ORDERS), 1)
    # The faults did happen: answers got lost, and were replayed.
    assert network.lost["answers"] > 20
    assert sum("idempotency-replayed" in answer.headers for answer in answers) > 20
