"""``on_result`` of an httpx client finds the body of a short response as a user of the client does.

Before, ``response.json()`` raised ``ResponseNotRead`` there. And ``response.read()``, which helped, left the
caller with a response that had no ``elapsed`` and could not be streamed.
"""

from __future__ import annotations

import gzip
from typing import Any

import httpx
import pytest
from tests.support.http.server import Server, answer

import stormproof as sp
import stormproof.httpx
from stormproof.httpx import AsyncTransport, Transport

PENDING, DONE = answer(200, b'{"state": "pending"}'), answer(200, b'{"state": "done"}')


def _is_pending(response: Any) -> bool:
    return bool(response.json()["state"] == "pending")


def _policy(on_result: Any) -> sp.Policy:
    return sp.Policy(sp.Retry(attempts=3, backoff=sp.Constant(0), budget=None, on_result=on_result))


def test_on_result_reads_json_and_the_caller_has_a_whole_response() -> None:
    with Server() as server, httpx.Client(transport=Transport(_policy(_is_pending))) as client:
        server.on("/", PENDING, DONE)
        response = client.get(server.url())
        assert response.json() == {"state": "done"}
        assert response.elapsed.total_seconds() >= 0 and response.is_closed
        assert len(server.seen) == 2
        server.on("/", PENDING, DONE)
        with client.stream("GET", server.url()) as streamed:
            assert b"".join(streamed.iter_raw()) == b'{"state": "done"}'


def test_on_result_reads_a_compressed_body() -> None:
    with Server() as server, httpx.Client(transport=Transport(_policy(_is_pending))) as client:
        packed = [("Content-Encoding", "gzip")]
        server.on("/", answer(200, gzip.compress(b'{"state": "pending"}'), packed), DONE)
        assert client.get(server.url()).json() == {"state": "done"}


def test_on_result_of_a_body_that_does_not_decode_gets_the_response_as_it_is() -> None:
    with Server() as server, httpx.Client(transport=Transport(_policy(lambda response: False))) as client:
        server.on("/", answer(200, b"no gzip", [("Content-Encoding", "gzip")]))
        with pytest.raises(httpx.DecodingError):
            client.get(server.url())
        assert len(server.seen) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.anyio
async def test_async_on_result_reads_json(anyio_backend: str) -> None:
    async def is_pending(response: Any) -> bool:
        return _is_pending(response)

    with Server() as server:
        for rule in (_is_pending, is_pending):
            server.on("/", PENDING, DONE)
            async with httpx.AsyncClient(transport=AsyncTransport(_policy(rule))) as client:
                response = await client.get(server.url())
                assert response.json() == {"state": "done"}
                assert response.elapsed.total_seconds() >= 0
