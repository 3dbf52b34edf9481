"""Retrying clients that dropped a response without closing it kept its connection: the pool ran dry.

Stormproof: what is not handed on is read to its end if that is near, and closed. One connection is enough
for any number of attempts, also while the next one is being waited for.
"""

from __future__ import annotations

import asyncio

import httpx
import pytest
from tests.support.http.server import Server, answer, chunked

import stormproof as sp
import stormproof.httpx

ONE = httpx.Limits(max_connections=1)
#: An answer with a length, one without, and one too long to be worth reading.
STEPS = [answer(503, b"x" * 1000), chunked(b"x" * 500, b"y" * 500, status=503), answer(503, b"x" * 300_000)]


def policy(**options):
    return sp.Policy(sp.Retry(attempts=10, budget=None, **{"backoff": sp.Constant(0), **options}))


def test_one_connection_serves_all_attempts():
    with Server() as server:
        server.on("/", *STEPS * 3, answer(200, b"ok"))
        transport = stormproof.httpx.Transport(policy(), httpx.HTTPTransport(limits=ONE))
        with httpx.Client(transport=transport, trust_env=False) as client:
            assert client.get(server.url("/"), timeout=2).text == "ok"
        assert len(server.seen) == 10
        # Only the long ones cost a connection.
        assert server.accepted == 4
        server.no_connection_is_open()


@pytest.mark.parametrize("step", STEPS[:2], ids=["with a length", "without"])
def test_waiting_retry_holds_no_connection(step):
    with Server() as server:
        server.on("/", step, answer(200, b"ok"))
        server.on("/other", answer(200, b"other"))
        transport = stormproof.httpx.AsyncTransport(
            policy(backoff=sp.Constant(0.3)), httpx.AsyncHTTPTransport(limits=ONE)
        )

        async def main():
            async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=5) as client:
                waiting = asyncio.ensure_future(client.get(server.url("/")))
                while not server.seen:  # noqa: ASYNC110 - it happens in the server's thread
                    await asyncio.sleep(0.005)
                other = await client.get(server.url("/other"))
                # The other request was served while the first one was waiting to try again.
                assert (other.text, len(server.requests("/"))) == ("other", 1)
                assert (await waiting).text == "ok"

        asyncio.run(main())
        assert server.accepted == 1
        server.no_connection_is_open()
