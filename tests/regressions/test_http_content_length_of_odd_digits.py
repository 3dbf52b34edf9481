"""``Content-Length: ²``: a digit to `str.isdigit`, and a ValueError to `int`, which came out of the request.

Stormproof: a length that cannot be believed is none; what else to make of it is for the client to say.
"""

from __future__ import annotations

import aiohttp
import httpx
import httpx2
import pytest
from tests.support.http.clients import Requests, Urllib3
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import Exchange

from stormproof._http.headers import announced

LENGTHS = ["\u00b2", "1\u00b3", "\u0663", "", "+1", "-1", "1_0", " 1", "9" * 19]


@pytest.mark.parametrize("value", LENGTHS)
def test_digit_that_is_not_a_number_gives_no_length(value: str) -> None:
    assert announced([("Content-Length", value)]) is None


@pytest.mark.parametrize("value", ["0", "17", b"17"])
def test_decimal_length_is_read(value: str | bytes) -> None:
    assert announced([("Content-Length", value)]) == int(value)


async def squared(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\nConnection: close\r\n\r\nhi")
    exchange.keep = False


@each_client
async def test_answer_with_an_invalid_length_never_raises_value_error(http: Http) -> None:
    http.server.on("/", squared)
    client = http.client(retry())
    if http.kind in (Requests, Urllib3):
        answer = await client.get("/")
        assert (answer.status, answer.body, len(http.server.seen)) == (200, b"hi", 1)
        return
    # To the others it is not a response.
    with pytest.raises((httpx.RemoteProtocolError, httpx2.RemoteProtocolError, aiohttp.ClientError)):
        await client.get("/")
    assert len(http.server.seen) == 4
