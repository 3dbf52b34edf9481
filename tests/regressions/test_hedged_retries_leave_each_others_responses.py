"""With a Retry inside a Hedge, the retry of one hedge closed the response that the other was still reading.

Stormproof: an attempt discards what its own attempts before it left, and nothing of another hedge's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx

import stormproof as sp
import stormproof.httpx


def _policy() -> sp.Policy:
    budget = sp.Budget(burst=10)
    return sp.Policy(
        sp.Hedge(after=0.01, budget=budget), sp.Retry(attempts=2, backoff=sp.Constant(0), budget=budget)
    )


class Slow(httpx.AsyncByteStream):
    """A body whose end comes when ``end`` is set."""

    def __init__(self, end: asyncio.Event) -> None:
        self.end = end
        self.readers = 0
        self.is_cut_short = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.readers += 1
        yield b"no such"
        await self.end.wait()
        yield b" page"

    async def aclose(self) -> None:
        self.is_cut_short = not self.end.is_set()


def test_retry_of_one_hedge_leaves_the_response_of_another_open() -> None:
    async def main() -> None:
        end, asked = asyncio.Event(), 0
        body = Slow(end)

        async def serve(request: httpx.Request) -> httpx.Response:
            nonlocal asked
            asked += 1
            if asked == 1:
                return httpx.Response(404, stream=body)
            if asked == 2:
                return httpx.Response(503)
            # The second hedge's retry has discarded what it discards.
            asyncio.get_running_loop().call_later(0, end.set)
            await asyncio.Event().wait()
            raise AssertionError

        transport = stormproof.httpx.AsyncTransport(_policy(), httpx.MockTransport(serve))
        async with httpx.AsyncClient(transport=transport) as client:
            response = await asyncio.wait_for(client.get("http://shop/"), 20)
        assert (response.status_code, response.content) == (404, b"no such page")
        assert (body.readers, body.is_cut_short, asked) == (1, False, 3)

    asyncio.run(main())
