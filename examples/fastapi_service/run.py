"""A FastAPI service with both halves of the contract, and a page about itself.

    python examples/fastapi_service/run.py

As a server it takes its caller's deadline, sheds what is too much, runs each Idempotency-Key once, and says
when retrying is of no use. As a client of another service it retries under a budget and passes the time on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from fastapi import FastAPI

from stormproof import Exponential, Policy, Retry, remaining, transient
from stormproof.asgi import (
    DeadlineMiddleware,
    IdempotencyMiddleware,
    RefusalMiddleware,
    SheddingMiddleware,
    StatusApp,
)
from stormproof.httpx import AsyncTransport
from stormproof.idempotency import MemoryStore


def backend() -> FastAPI:
    """The other service: fails twice, then says how much time it was given."""
    app, calls = FastAPI(), []

    @app.get("/price")
    async def price() -> dict[str, float | None]:
        calls.append(1)
        if len(calls) <= 2:
            raise ConnectionError("the database is restarting")
        left = remaining()
        return {"price": 9.99, "seconds_left": None if left is None else round(left, 1)}

    app.add_middleware(DeadlineMiddleware)
    return app


def shop(prices: str) -> FastAPI:
    """The service itself."""
    policy = Policy(Retry(on=transient, backoff=Exponential(0.01, cap=0.1)), name="prices")
    client = httpx.AsyncClient(base_url=prices, transport=AsyncTransport(policy))
    orders: list[str] = []
    app = FastAPI()

    @app.get("/quote")
    async def quote() -> dict[str, float | None]:
        answer = await client.get("/price")
        answer.raise_for_status()
        found: dict[str, float | None] = answer.json()
        return found

    @app.post("/orders")
    async def order() -> dict[str, int]:
        orders.append("order")
        return {"number": len(orders)}

    app.mount("/status", StatusApp())
    # The last one added is the outermost.
    app.add_middleware(IdempotencyMiddleware, store=MemoryStore())
    app.add_middleware(SheddingMiddleware, limit=100)
    app.add_middleware(DeadlineMiddleware, default=5)
    app.add_middleware(RefusalMiddleware)
    return app


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Serves ``app`` on a free port, in a thread."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


async def visit(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as caller:
        quote = await caller.get("/quote", headers={"X-Request-Timeout-Ms": "3000"})
        print(f"quote, two failures later: {quote.json()}")
        key = {"Idempotency-Key": "order-1"}
        first = await caller.post("/orders", headers=key)
        again = await caller.post("/orders", headers=key)
        print(f"order: {first.json()}; the same key again: {again.json()}")
        late = await caller.get("/quote", headers={"X-Request-Timeout-Ms": "0"})
        print(f"no time left: {late.status_code}, x-should-retry: {late.headers['x-should-retry']}")
        status = (await caller.get("/status/data.json")).json()
        (row,) = [row for row in status["operations"] if row["operation"] == "prices"]
        print(f"its own page: prices: {row['attempts']} attempts, {row['retries']} retries")


def main() -> None:
    with running(backend()) as prices, running(shop(prices)) as url:
        asyncio.run(visit(url))


if __name__ == "__main__":
    main()
