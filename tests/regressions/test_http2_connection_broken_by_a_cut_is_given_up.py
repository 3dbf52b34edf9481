"""An HTTP/2 connection that broke as one attempt was cut off stayed in the pool for good.

The pool was put in order after attempts that were cut off, and only then: not if the last request on the
broken connection ended in an error of its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import httpx2
import pytest
import trio
from tests.support.http.h2_server import H2Server, say

import stormproof as sp
import stormproof.httpx
import stormproof.httpx2


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("door", [stormproof.httpx, stormproof.httpx2], ids=["httpx", "httpx2"])
def test_broken_http2_connection_is_replaced_when_its_last_request_fails(backend: str, door: Any) -> None:
    library: Any = httpx if door is stormproof.httpx else httpx2

    async def main(server: H2Server) -> bytes:
        limits = library.Limits(max_connections=1)
        inner = library.AsyncHTTPTransport(limits=limits, http1=False, http2=True, verify=False)
        transport = door.AsyncTransport(sp.Policy(sp.Retry(attempts=1)), inner)
        async with library.AsyncClient(transport=transport, timeout=1, trust_env=False) as client:
            assert (await client.get(server.url("/"))).content == b"ok"
            [connection] = inner._pool._connections
            # As a cut in the middle of a write leaves it: broken, with a stream that has no reader.
            connection._connection._connection_error = True
            connection._connection._events[99] = []
            connection._connection._state = type(connection._connection._state).ACTIVE
            with pytest.raises(library.PoolTimeout):
                await client.get(server.url("/"), timeout=0.05)
            answer: bytes = (await client.get(server.url("/"))).content
            return answer

    with H2Server() as server:
        server.on("/", say(200, b"ok"))
        if backend == "trio":
            assert trio.run(main, server) == b"ok"
        else:
            assert asyncio.run(main(server)) == b"ok"
