"""HTTP/2 says when nothing was processed: REFUSED_STREAM, and a GOAWAY before the first stream.

A POST without an idempotency key was not sent again after either, nor was anything after h2's own "too many
streams", which says that nothing was sent at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import h2.exceptions
import httpcore
import httpx
import httpx2
import pytest
from h2.errors import ErrorCodes
from tests.support.http.h2_server import Answer, H2Server, go_away, refuse, say

import stormproof as sp
import stormproof.httpx
import stormproof.httpx2

LIBRARIES = {"httpx": (httpx, stormproof.httpx), "httpx2": (httpx2, stormproof.httpx2)}


def _sync(library: str, url: str, policy: sp.Policy) -> int:
    module, door = LIBRARIES[library]
    inner = module.HTTPTransport(http1=False, http2=True, verify=False)
    with module.Client(transport=door.Transport(policy, inner), trust_env=False) as client:
        return int(client.post(url, content=b"data").status_code)


def _async(library: str, url: str, policy: sp.Policy) -> int:
    module, door = LIBRARIES[library]

    async def main() -> int:
        inner = module.AsyncHTTPTransport(http1=False, http2=True, verify=False)
        async with module.AsyncClient(
            transport=door.AsyncTransport(policy, inner), trust_env=False
        ) as client:
            return int((await client.post(url, content=b"data")).status_code)

    return asyncio.run(main())


@pytest.mark.parametrize("send", [_sync, _async])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("said", [refuse(), go_away(0)], ids=["REFUSED_STREAM", "GOAWAY 0"])
def test_post_is_sent_again_when_nothing_was_processed(
    said: Answer, library: str, send: Callable[[str, str, sp.Policy], int]
) -> None:
    policy = sp.Policy(sp.Retry(attempts=3, backoff=sp.Constant(0), budget=None))
    with H2Server() as server:
        server.on("/", said, say(200))
        assert send(library, server.url("/"), policy) == 200
        assert [request.body for request in server.seen] == [b"data", b"data"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_post_is_not_sent_again_after_another_reset(library: str) -> None:
    policy = sp.Policy(sp.Retry(attempts=3, backoff=sp.Constant(0), budget=None))
    with H2Server() as server:
        server.on("/", refuse(ErrorCodes.INTERNAL_ERROR), say(200))
        with pytest.raises(LIBRARIES[library][0].RemoteProtocolError):
            _sync(library, server.url("/"), policy)
        assert len(server.seen) == 1


def test_too_many_streams_is_safe_to_retry() -> None:
    said: Any = h2.exceptions.TooManyStreamsError("Max outbound streams is 100, 100 open")
    error = httpx.LocalProtocolError(str(said))
    error.__cause__ = httpcore.LocalProtocolError(said)
    assert sp.transient(error).retry
    assert not sp.transient(httpx.LocalProtocolError("Illegal header name")).retry
