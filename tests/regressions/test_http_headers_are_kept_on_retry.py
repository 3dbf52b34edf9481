"""Retries that lost headers, Authorization first of all: the second attempt came back as a 401.

Stormproof: every attempt carries what the first one did, in the same order and spelling. Only another
origin, to which `before_attempt` sends an attempt, does not get the credentials.
"""

from __future__ import annotations

import httpx
from tests.support.http.server import Server, answer, reset

import stormproof as sp
import stormproof.httpx

HEADERS = [("Authorization", "Bearer token"), ("X-Twice", "a"), ("X-Twice", "b"), ("cOOkie", "c=1")]


def get(server, policy, **options):
    transport = stormproof.httpx.Transport(policy, attempt_header=None, **options)
    with httpx.Client(transport=transport, trust_env=False) as client:
        return client.get(server.url("/?q=1"), headers=HEADERS)


def test_every_attempt_carries_the_callers_headers():
    with Server() as server:
        server.on("/", answer(503), reset(), answer(429), answer(200))
        assert get(server, sp.Policy(sp.Retry(backoff=sp.Constant(0), budget=None))).status_code == 200
        assert server.seen[0].header("authorization") == "Bearer token"
        assert server.seen[0].all("x-twice") == ["a", "b"]
        assert [seen.headers for seen in server.seen] == [server.seen[0].headers] * 4
        assert [seen.target for seen in server.seen] == ["/?q=1"] * 4


def test_headers_are_kept_inside_a_deadline():
    with Server() as server:
        server.on("/", answer(503), answer(200))
        policy = sp.Policy(sp.Deadline(5), sp.Retry(backoff=sp.Constant(0), budget=None))
        assert get(server, policy, timeout_header=None).status_code == 200
        assert [seen.headers for seen in server.seen] == [server.seen[0].headers] * 2


def test_another_origin_gets_no_credentials():
    with Server() as one, Server() as two:
        one.on("/", answer(503))
        two.on("/", answer(200, b"two"))

        def rotate(attempt):
            if attempt.number > 1:
                attempt.request.host = f"127.0.0.1:{two.port}"

        policy = sp.Policy(sp.Retry(backoff=sp.Constant(0), budget=None, before_attempt=rotate))
        assert get(one, policy).text == "two"
        (seen,) = two.seen
        assert (seen.header("authorization"), seen.header("cookie")) == (None, None)
        assert (seen.all("x-twice"), seen.target) == (["a", "b"], "/?q=1")
        assert seen.header("host") == f"127.0.0.1:{two.port}"
