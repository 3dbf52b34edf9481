"""The service: four middlewares around handlers that know nothing of them."""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from stormproof import Breaker, Policy, remaining
from stormproof.asgi import DeadlineMiddleware, IdempotencyMiddleware, RefusalMiddleware, SheddingMiddleware
from stormproof.idempotency import Store

PLACES = 8


class Shop:
    """State that the handlers share. ``calls`` counts the runs of each."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.bank = Policy(Breaker(consecutive=1, open_for=30), name="bank")

    async def charge(self, request: Request) -> JSONResponse:
        """Something that must happen once."""
        order = await request.json()
        self.calls["charge"] += 1
        return JSONResponse({"charged": order["amount"], "receipt": self.calls["charge"]}, status_code=201)

    async def search(self, request: Request) -> JSONResponse:
        """Something that takes a while, so that many at once fill the service."""
        self.calls["search"] += 1
        await asyncio.sleep(0.05)
        return JSONResponse({"found": 3})

    async def report(self, request: Request) -> JSONResponse:
        """Something that takes longer than most callers wait."""
        self.calls["report begun"] += 1
        left = remaining()
        assert left is not None
        await asyncio.sleep(float(request.query_params["takes"]))
        self.calls["report done"] += 1
        return JSONResponse({"milliseconds_left_at_start": round(left * 1000)})

    async def refund(self, request: Request) -> JSONResponse:
        """Something that needs a bank, and the bank is down."""
        self.calls["refund"] += 1
        await self.bank.acall(self._call_the_bank)
        return JSONResponse({"refunded": True})

    async def _call_the_bank(self) -> None:
        self.calls["bank"] += 1
        raise ConnectionRefusedError


def make_app(shop: Shop, store: Store) -> Starlette:
    return Starlette(
        routes=[
            Route("/charge", shop.charge, methods=["POST"]),
            Route("/search", shop.search),
            Route("/report", shop.report),
            Route("/refund", shop.refund, methods=["PUT"]),
        ],
        middleware=[
            Middleware(RefusalMiddleware),
            Middleware(DeadlineMiddleware, default=10),
            Middleware(SheddingMiddleware, limit=PLACES, retry_after=0.1),
            Middleware(IdempotencyMiddleware, store=store, required=True),
        ],
    )
