"""In the order that the documentation names, waiting for a place uses up the caller's time."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from stormproof.asgi import DeadlineMiddleware, SheddingMiddleware


def test_request_that_waited_past_its_deadline_is_not_run() -> None:
    ran: list[str] = []

    async def main() -> list[int]:
        entered, leave = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            ran.append(scope["path"])
            entered.set()
            await leave.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        site = DeadlineMiddleware(SheddingMiddleware(app, limit=1, queue=5))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(site), base_url="http://t") as client:
            first = asyncio.create_task(client.get("/first"))
            await entered.wait()
            second = await client.get("/second", headers={"X-Request-Timeout-Ms": "50"})
            leave.set()
            return [(await first).status_code, second.status_code]

    assert asyncio.run(main()) == [200, 504]
    assert ran == ["/first"]
