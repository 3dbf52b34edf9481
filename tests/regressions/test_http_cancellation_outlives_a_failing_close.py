"""A cancellation that met a body whose connection could not be closed was lost: the request went on.

Stormproof: what fails as a response is closed does not take the place of what ended its reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

import stormproof as sp
import stormproof.httpx


class Unclosable(httpx.AsyncByteStream):
    """A body that falls silent, on a connection that fails to close."""

    def __init__(self, reading: asyncio.Event) -> None:
        self.reading = reading

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"half"
        self.reading.set()
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        raise RuntimeError("the connection is in no state to be closed")


#: A body that is read with its request, one that is read as the error it is, one that makes way for a retry.
@pytest.mark.parametrize("status", [200, 404, 503])
def test_cancelled_request_ends_though_its_body_cannot_be_closed(status: int) -> None:
    asked = 0

    async def main() -> None:
        reading = asyncio.Event()

        async def serve(request: httpx.Request) -> httpx.Response:
            nonlocal asked
            asked += 1
            return httpx.Response(status, headers={"Content-Length": "8"}, stream=Unclosable(reading))

        policy = sp.Policy(sp.Retry(attempts=3, backoff=sp.Constant(0), on=RuntimeError))
        transport = stormproof.httpx.AsyncTransport(policy, httpx.MockTransport(serve))
        async with httpx.AsyncClient(transport=transport) as client:
            task = asyncio.ensure_future(client.get("http://shop/"))
            await reading.wait()
            await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=2)
            assert done
            assert task.cancelled()

    asyncio.run(main())
    assert asked == 1
