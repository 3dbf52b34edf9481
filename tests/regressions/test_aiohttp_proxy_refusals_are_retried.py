"""A proxy's 502, 503 or 504 to CONNECT is retried, with its hint, as httpx and requests do it.

aiohttp gives the error the CONNECT request, so that even a GET was "CONNECT without an idempotency key".
"""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from tests.support.http.server import Server, answer

import stormproof as sp
import stormproof.aiohttp


@pytest.mark.parametrize(("status", "attempts"), [(503, 3), (504, 3), (407, 1), (403, 1)])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_refused_tunnel_is_retried_by_its_status(method: str, status: int, attempts: int) -> None:
    clock = sp.testing.FakeClock()
    retry = sp.Retry(attempts=3, backoff=sp.Constant(0.1), budget=None)
    policy = sp.Policy(retry, clock=clock, rng=lambda: 0.0)

    async def main(proxy: str) -> None:
        async with aiohttp.ClientSession(middlewares=[stormproof.aiohttp.middleware(policy)]) as session:
            with pytest.raises(aiohttp.ClientHttpProxyError):
                await session.request(method, "https://shop.example/", proxy=proxy)

    with Server(otherwise=lambda seen: answer(status, b"", [("Retry-After", "7")])) as server:
        asyncio.run(main(server.url()))
        assert [seen.method for seen in server.seen] == ["CONNECT"] * attempts
    assert clock.sleeps == [7.0] * (attempts - 1)
