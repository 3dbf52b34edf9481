"""A server that sends one byte at a time, for ever, so that no single read is slow.

Tasks are cut off in the middle of a read. A thread looks at the time left before each read.
"""

from __future__ import annotations

import time

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import Exchange, answer, drip, head

import stormproof as sp

pytestmark = pytest.mark.proves("fault http-slow-loris")


async def _drip_body(exchange: Exchange) -> None:
    await exchange.send(head(200, [("Content-Length", "100000")]))
    while await exchange.wait(0.01):
        await exchange.send(b"x")


@each_client
async def test_dripped_headers_are_cut_off_by_the_attempts_timeout(http: Http) -> None:
    http.server.on("/", drip(0.01), answer(200, b"ok"))
    policy = sp.Policy(*retry().strategies, sp.Timeout(0.5))
    assert (await http.client(policy).get("/")).body == b"ok"
    assert len(http.server.seen) == 2


@each_client
async def test_dripped_body_within_the_buffer_is_cut_off_with_the_attempt(http: Http) -> None:
    http.server.on("/", _drip_body, answer(200, b"ok"))
    policy = sp.Policy(*retry().strategies, sp.Timeout(0.5))
    assert (await http.client(policy, buffer=200_000).get("/")).body == b"ok"
    assert len(http.server.seen) == 2


@each_client
async def test_deadline_ends_a_dripped_body_with_attempts_left(http: Http) -> None:
    http.server.on("/", drip(0.01))
    policy = sp.Policy(sp.Deadline(0.3), *retry(attempts=100).strategies, sp.Timeout(0.1))
    started = time.monotonic()
    with pytest.raises((TimeoutError, *http.kind.slow)):
        await http.client(policy).get("/")
    # A hundred attempts would take ten seconds.
    assert time.monotonic() - started < 8
    # The last attempt may begin with next to no time left.
    assert len(http.server.seen) <= 5
