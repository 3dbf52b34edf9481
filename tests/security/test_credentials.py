"""Credentials for one origin reach no other: not by a redirect, not by a hook, not by a retry."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import Server, answer, reset

import stormproof as sp
from stormproof._http.options import CREDENTIALS

pytestmark = pytest.mark.proves("security credentials")

SECRET = "hunter2"


def _moved(other: Server) -> Callable[[sp.Attempt], None]:
    def before(attempt: sp.Attempt) -> None:
        if attempt.number > 1:
            attempt.request.host = f"127.0.0.1:{other.port}"

    return before


async def _over(http: Http, *others: Server) -> None:
    await http.close()
    http.clients.clear()
    gc.collect()
    for other in others:
        other.no_connection_is_open()


def _nothing_secret(other: Server) -> int:
    assert other.seen, "nothing came there, so nothing was tested"
    for seen in other.seen:
        assert SECRET not in repr(seen.headers) and SECRET not in seen.target, seen
    return len(other.seen)


@each_client
async def test_hook_that_moves_a_request_to_another_origin_sends_no_credentials(
    http: Http, measured: Callable[[str], None]
) -> None:
    with Server() as other:
        other.on("/", answer(503), reset(), answer(200, b"other"))
        http.server.on("/", answer(503))
        client = http.client(retry(attempts=5, before_attempt=_moved(other)))
        headers = {name.title(): f"{SECRET}-{name}" for name in CREDENTIALS}
        got: Any = await client.get("/", headers={**headers, "X-Mine": "1"})
        assert (got.status, got.body) == (200, b"other")
        assert {name for name in CREDENTIALS if http.server.seen[0].header(name)} == CREDENTIALS
        requests = _nothing_secret(other)
        assert [seen.header("X-Mine") for seen in other.seen] == ["1"] * 3
        del got
        await _over(http, other)
        measured(
            f"{http.kind.__name__}: {len(CREDENTIALS)} credentials, {requests} requests elsewhere, 0 sent"
        )


@each_client
async def test_credentials_in_the_url_reach_no_other_origin(http: Http) -> None:
    with Server() as other:
        other.on("/", answer(200, b"other"))
        http.server.on("/", answer(503))
        client = http.client(retry(before_attempt=_moved(other)))
        got: Any = await client.get(f"http://user:{SECRET}@127.0.0.1:{http.server.port}/")
        assert got.body == b"other"
        _nothing_secret(other)
        assert all(seen.header("Authorization") is None for seen in other.seen)
        del got
        await _over(http, other)


@each_client
async def test_users_own_secret_headers_reach_no_other_origin(http: Http) -> None:
    with Server() as other:
        other.on("/", answer(200))
        http.server.on("/", answer(503))
        options = {"credentials": [*CREDENTIALS, "X-Our-Token"]}
        client = http.client(retry(before_attempt=_moved(other)), **options)
        got: Any = await client.get("/", headers={"x-our-token": SECRET})
        assert got.status == 200
        _nothing_secret(other)
        del got
        await _over(http, other)


@each_client
async def test_redirect_to_another_origin_carries_no_credentials(http: Http) -> None:
    """Following it is the client's own affair; retries bring nothing back that it has taken off."""
    with Server() as other:
        other.on("/there", answer(503), reset(), answer(200, b"there"))
        target = [("Location", other.url("/there"))]
        http.server.on("/", answer(503), answer(302, headers=target))
        got: Any = await http.client(retry()).get("/", headers={"Authorization": SECRET}, redirects=True)
        assert (got.status, got.body) == (200, b"there")
        assert [seen.header("Authorization") for seen in http.server.seen] == [SECRET] * 2
        assert _nothing_secret(other) == 3
        del got
        await _over(http, other)


@each_client
async def test_credentials_are_sent_again_to_the_first_origin(http: Http) -> None:
    """Each attempt starts from the request as the client made it."""
    with Server() as other:
        other.on("/", answer(503))
        http.server.on("/", answer(503), answer(200, b"home"))

        def before(attempt: sp.Attempt) -> None:
            if attempt.number == 2:
                attempt.request.host = f"127.0.0.1:{other.port}"

        got: Any = await http.client(retry(before_attempt=before)).get("/", headers={"Authorization": SECRET})
        assert got.body == b"home"
        assert [seen.header("Authorization") for seen in http.server.seen] == [SECRET] * 2
        _nothing_secret(other)
        del got
        await _over(http, other)
