"""A server that sent a byte now and then held a sync client as long as it liked, whatever the deadline."""

from __future__ import annotations

import pytest
from tests.support.http.each_client import Http, each_sync_client, retry
from tests.support.http.server import Exchange, Step, head

import stormproof as sp


def _drip(part: str) -> Step:
    """Send a byte of the head or of the body every 0.02 s, 150 times, and end the response."""
    begin, end = {
        "head": (b"HTTP/1.1 200 OK\r\nX-Drip: ", b"\r\nContent-Length: 0\r\n\r\n"),
        "body": (head(200, [("Content-Length", "150")]), b""),
    }[part]

    async def step(exchange: Exchange) -> None:
        await exchange.send(begin)
        for _ in range(150):
            if not await exchange.wait(0.02):
                return
            await exchange.send(b"x")
        await exchange.send(end)

    return step


@each_sync_client
@pytest.mark.parametrize("part", ["head", "body"])
async def test_sync_deadline_ends_a_dripped_response(http: Http, part: str) -> None:
    http.server.on("/", _drip(part))
    client = http.client(sp.Policy(sp.Deadline(0.3), sp.Retry(attempts=1)))
    with pytest.raises((TimeoutError, *http.kind.family)):
        await client.get("/", timeout=30)


@each_sync_client
async def test_sync_deadline_around_a_stream_ends_its_reading(http: Http) -> None:
    http.server.on("/", _drip("body"))
    client = http.client(retry(attempts=1))
    with pytest.raises((TimeoutError, *http.kind.family)), sp.deadline(0.3):
        await (await client.get("/", stream=True, timeout=30)).rest()


@each_sync_client
async def test_stream_read_after_its_deadline_has_the_clients_timeout(http: Http) -> None:
    async def two_halves(exchange: Exchange) -> None:
        await exchange.send(head(200, [("Content-Length", "2")]) + b"a")
        if await exchange.wait(1.1):
            await exchange.send(b"b")

    http.server.on("/", two_halves)
    client = http.client(retry(attempts=1), buffer=0)
    with sp.deadline(1):
        got = await client.get("/", stream=True, timeout=30)
    assert await got.rest() == b"ab"
