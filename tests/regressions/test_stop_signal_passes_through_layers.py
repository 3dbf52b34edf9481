"""A service that was asked not to retry, and does not, passes that on to its own caller."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import stormproof as sp
from stormproof.asgi import RefusalMiddleware
from stormproof.httpx import AsyncTransport


def layer(below: httpx.AsyncClient) -> Starlette:
    async def ask(request: Request) -> Response:
        (await below.get("http://below/")).raise_for_status()
        return Response()

    app = Starlette(routes=[Route("/", ask)])
    app.add_middleware(RefusalMiddleware)
    return app


@pytest.mark.parametrize(("status", "expected_status"), [(503, 503), (504, 503), (429, 503)])
def test_stop_signal_passes_through_two_layers(status: int, expected_status: int) -> None:
    asked = 0

    async def refuse(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        return httpx.Response(status, headers={"x-should-retry": "false"})

    async def main() -> httpx.Response:
        policy = sp.retry(on=sp.transient, backoff=sp.Constant(0))
        lowest = httpx.AsyncClient(transport=AsyncTransport(policy, httpx.MockTransport(refuse)))
        middle = httpx.AsyncClient(transport=AsyncTransport(policy, httpx.ASGITransport(app=layer(lowest))))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=layer(middle))) as client:
            return await client.get("http://top/")

    answer = asyncio.run(main())
    assert (answer.status_code, answer.headers["x-should-retry"]) == (expected_status, "false")
    assert asked == 1


def test_stop_signal_on_a_fatal_status_stays_with_the_application() -> None:
    async def missing(request: httpx.Request) -> httpx.Response:
        return httpx.Response(404, headers={"x-should-retry": "false"})

    async def main() -> None:
        policy = sp.retry(on=sp.transient, backoff=sp.Constant(0))
        below = httpx.AsyncClient(transport=AsyncTransport(policy, httpx.MockTransport(missing)))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=layer(below))) as client:
            await client.get("http://top/")

    with pytest.raises(httpx.HTTPStatusError):
        asyncio.run(main())
