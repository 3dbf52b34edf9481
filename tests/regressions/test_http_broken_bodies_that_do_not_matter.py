"""An unneeded body may be broken: a redirect is followed, a 503 retried, and plain errors stay plain.

requests and aiohttp no longer followed a redirect whose body was cut short or did not decode; requests and
urllib3 raised the decoding error of a 503 where its status was to be retried; aiohttp retried bodies that no
retry makes readable.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
import requests
import urllib3
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import Server, answer, half

import stormproof as sp
import stormproof.aiohttp
import stormproof.requests
import stormproof.urllib3

GZIP = ("Content-Encoding", "gzip")
NOT_GZIP = b"plain text"


@each_client
async def test_status_is_retried_though_the_body_does_not_decode(http: Http) -> None:
    broken = answer(503, NOT_GZIP, [GZIP])
    http.server.on("/", broken, broken, answer(200, b"fine"))
    got = await http.client(retry()).get("/")
    assert (got.status, got.body, len(http.server.seen)) == (200, b"fine", 3)


@each_client
async def test_hint_is_kept_though_the_body_is_cut_short(http: Http) -> None:
    async def short(exchange: Any) -> None:
        from tests.support.http.server import head

        fields = [("Content-Length", "100"), ("Retry-After", "7")]
        await exchange.send(head(503, fields) + b"half")
        await asyncio.sleep(0.02)
        exchange.reset()

    clock = sp.testing.FakeClock()
    policy = sp.Policy(sp.Retry(backoff=sp.Constant(0.1), budget=None), clock=clock, rng=lambda: 0.0)
    http.server.on("/", short, answer(200, b"fine"))
    assert (await http.client(policy).get("/")).body == b"fine"
    assert clock.sleeps == [7.0]


@pytest.mark.parametrize("said", ["not gzip", "cut short"])
def test_requests_follows_a_redirect_with_a_broken_body(said: str) -> None:
    with Server() as server, requests.Session() as session:
        session.mount("http://", stormproof.requests.Adapter(retry()))
        server.on("/from", _redirect(said))
        server.on("/to", answer(200, b"there"))
        assert session.get(server.url("/from")).content == b"there"
        assert [seen.path for seen in server.seen] == ["/from", "/to"]


@pytest.mark.parametrize("said", ["not gzip", "cut short"])
def test_aiohttp_follows_a_redirect_with_a_broken_body(said: str) -> None:
    async def main(server: Server) -> bytes:
        async with aiohttp.ClientSession(middlewares=[stormproof.aiohttp.middleware(retry())]) as session:
            async with session.get(server.url("/from")) as response:
                return await response.read()

    with Server() as server:
        server.on("/from", _redirect(said))
        server.on("/to", answer(200, b"there"))
        assert asyncio.run(main(server)) == b"there"
        assert [seen.path for seen in server.seen] == ["/from", "/to"]


def _redirect(said: str) -> Any:
    if said == "not gzip":
        return answer(302, NOT_GZIP, [GZIP, ("Location", "/to")])

    async def short(exchange: Any) -> None:
        from tests.support.http.server import head

        await exchange.send(head(302, [("Content-Length", "100"), ("Location", "/to")]) + b"half")
        await asyncio.sleep(0.02)
        exchange.reset()

    return short


def test_aiohttp_leaves_an_undecodable_body_to_its_reader() -> None:
    async def main(server: Server) -> None:
        async with aiohttp.ClientSession(middlewares=[stormproof.aiohttp.middleware(retry())]) as session:
            async with session.get(server.url("/")) as response:
                assert response.status == 200
                with pytest.raises(aiohttp.ClientPayloadError):
                    await response.read()

    with Server() as server:
        server.on("/", answer(200, NOT_GZIP, [GZIP]))
        asyncio.run(main(server))
        assert len(server.seen) == 1


@pytest.mark.parametrize("status", [200, 503])
def test_undecodable_answers_raise_the_bare_clients_error(status: int) -> None:
    with Server() as server:
        server.on("/", answer(status, NOT_GZIP, [GZIP]))
        with requests.Session() as session:
            session.mount("http://", stormproof.requests.Adapter(retry(attempts=2)))
            with pytest.raises(requests.exceptions.ContentDecodingError):
                session.get(server.url("/"))
        pools = stormproof.urllib3.PoolManager(retry(attempts=2))
        with pytest.raises(urllib3.exceptions.DecodeError):
            pools.request("GET", server.url("/"))
        pools.clear()


def test_broken_body_of_a_plain_answer_is_still_retried() -> None:
    with Server() as server, requests.Session() as session:
        session.mount("http://", stormproof.requests.Adapter(retry()))
        server.on("/", half(b"ha", 404), answer(404, b"whole"))
        assert session.get(server.url("/")).content == b"whole"
