"""``on_result`` sees what the table of statuses calls a success; its plain ``True`` keeps the server's hint.

It was asked about failed responses too, where a ``.json()`` in it broke on the HTML of a 503, and its
``True`` made the client come back before the time that the response's ``Retry-After`` named.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import Server, answer

import stormproof as sp
import stormproof.httpx


@each_client
async def test_on_result_is_asked_about_successes_only(http: Http) -> None:
    asked: list[int] = []

    def pending(response: Any) -> bool:
        status = getattr(response, "status_code", None) or response.status
        asked.append(status)
        return bool(status == 202)

    http.server.on("/", answer(503, b"<html>"), answer(202, b"{}"), answer(404, b"{}"))
    got = await http.client(retry(on_result=pending)).get("/")
    assert (got.status, asked) == (404, [202, 404])


@pytest.mark.parametrize("says", [True, sp.Verdict(True, after=7)])
def test_plain_true_keeps_the_hint_of_the_response(says: bool | sp.Verdict) -> None:
    clock = sp.testing.FakeClock()
    rule = sp.Retry(
        backoff=sp.Constant(0.25),
        budget=None,
        on_result=lambda response: says if response.status_code == 202 else False,
    )
    policy = sp.Policy(rule, clock=clock, rng=lambda: 0.0)
    with Server() as server:
        server.on("/", answer(202, b"", [("Retry-After", "20")]), answer(200))
        with httpx.Client(transport=stormproof.httpx.Transport(policy), trust_env=False) as client:
            assert client.get(server.url("/")).status_code == 200
    assert clock.sleeps == [20.0 if says is True else 7.0]
