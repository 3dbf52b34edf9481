"""Connections that break in every way: retried where that is safe, else the client's own error."""

from __future__ import annotations

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer, garbage, half, hang, reset, unused_port

import stormproof as sp
from stormproof._classify.exhaustion import exhausted_by

BREAKS = {"reset": reset(), "half": half(b"half"), "garbage": garbage(), "hang": hang()}


@each_client
@pytest.mark.parametrize("name", BREAKS)
async def test_broken_answer_is_retried(http: Http, name: str) -> None:
    http.server.on("/", BREAKS[name], answer(200, b"ok"))
    hangs = name == "hang"
    client = http.client(retry(attempts=9))
    assert (await client.get("/", timeout=0.5 if hangs else 5.0)).body == b"ok"
    # On a busy machine the time of an attempt may also end with an answer on its way.
    assert len(http.server.seen) == 2 or hangs


@each_client
async def test_connection_reset_on_accept_is_retried(http: Http) -> None:
    http.server.on("/", answer(200, b"ok"))
    http.server.on_accept("reset", "reset")
    assert (await http.client(retry()).get("/")).body == b"ok"
    assert [seen.connection for seen in http.server.seen] == [3]


@each_client
async def test_connection_that_is_never_read_is_retried(http: Http) -> None:
    http.server.on("/", answer(200, b"ok"))
    http.server.on_accept("hang")
    assert (await http.client(retry()).get("/", timeout=0.5)).body == b"ok"


@each_client
async def test_attempts_used_up_give_the_clients_own_error_noted(http: Http) -> None:
    http.server.on("/", reset())
    with pytest.raises(http.kind.lost) as caught:
        await http.client(retry(attempts=3)).get("/")
    assert len(http.server.seen) == 3
    assert any("3 attempts" in note for note in caught.value.__notes__)
    assert exhausted_by(caught.value) is not None


@each_client
async def test_answer_after_errors_is_the_last_one(http: Http) -> None:
    http.server.on("/", reset(), answer(503, b"at least"))
    got = await http.client(retry(attempts=2)).get("/")
    assert (got.status, got.body) == (503, b"at least")


@each_client
async def test_fatal_error_is_raised_at_once(http: Http) -> None:
    events: list[object] = []
    stop = sp.subscribe(events.append)
    try:
        with pytest.raises(Exception) as caught:
            await http.client(retry()).get("http://127.0.0.1:1\x00/")
    finally:
        stop()
    assert not isinstance(caught.value, AssertionError)
    assert "Retrying" not in [type(event).__name__ for event in events]


@each_client
async def test_refused_connections_use_up_their_attempts(http: Http) -> None:
    with pytest.raises(http.kind.refused) as caught:
        await http.client(retry(attempts=2)).get(f"http://127.0.0.1:{unused_port()}/")
    assert any("2 attempts" in note for note in caught.value.__notes__)
