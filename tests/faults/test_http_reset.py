"""Connections that the server cuts with an RST: on accept, after the request, in the headers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import Exchange, answer, reset

from stormproof._classify.exhaustion import exhausted_by

pytestmark = pytest.mark.proves("fault http-reset")


async def _in_the_headers(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Half: ")
    # The bytes must have left before the reset overtakes them.
    await asyncio.sleep(0.02)
    exchange.reset()


STEPS = {"after the request": reset(), "in the headers": _in_the_headers}


@each_client
async def test_resets_on_accept_are_retried(http: Http, measured: Callable[[str], None]) -> None:
    http.server.on("/", answer(200, b"ok"))
    http.server.on_accept("reset", "reset", "reset")
    assert (await http.client(retry()).get("/")).body == b"ok"
    assert [seen.connection for seen in http.server.seen] == [4]
    measured(f"{http.kind.__name__}: {http.server.accepted} connections, 3 of them reset, 1 request served")


@each_client
async def test_resets_on_accept_use_up_the_attempts(http: Http) -> None:
    http.server.on_accept(*["reset"] * 3)
    with pytest.raises((*http.kind.lost, *http.kind.refused)) as caught:
        await http.client(retry(attempts=3)).get("/")
    assert (http.server.seen, http.server.accepted) == ([], 3)
    assert exhausted_by(caught.value) is not None


@each_client
@pytest.mark.parametrize("when", STEPS)
async def test_resets_after_the_request_was_read_are_retried(http: Http, when: str) -> None:
    http.server.on("/", STEPS[when], STEPS[when], answer(200, b"ok"))
    assert (await http.client(retry()).get("/")).body == b"ok"
    assert len(http.server.seen) == 3
    http.server.on("/", STEPS[when])
    with pytest.raises(http.kind.lost) as caught:
        await http.client(retry(attempts=2)).get("/")
    assert len(http.server.seen) == 5
    assert any("2 attempts" in note for note in caught.value.__notes__)


@each_client
async def test_post_is_sent_once_since_a_reset_proves_nothing(http: Http) -> None:
    client = http.client(retry())
    for path, step in (("/", reset()), ("/headers", _in_the_headers)):
        http.server.on(path, step, answer(200))
        with pytest.raises(http.kind.lost):
            await client.post(path)
        assert len(http.server.requests(path)) == 1


@each_client
async def test_reset_post_with_a_key_is_retried_under_the_same_key(http: Http) -> None:
    http.server.on_accept("reset")
    http.server.on("/", reset(), _in_the_headers, answer(200, b"ok"))
    assert (await http.client(retry(), idempotency_key="auto").post("/")).body == b"ok"
    assert [seen.body for seen in http.server.seen] == [b"data"] * 3
    assert len({seen.header("Idempotency-Key") for seen in http.server.seen}) == 1
