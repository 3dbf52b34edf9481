"""httpx#108, #784, #1141: retries by status in the HTTP client itself, not around every call of it.

Stormproof: 408, 425, 429 and every 5xx but those that will not change, in the transport; SDKs and
libraries that take an ``http_client`` get it too.
"""

from __future__ import annotations

import httpx
import pytest
from tests.support.http.server import Server, answer

import stormproof as sp
import stormproof.httpx

FINAL = {501, 505, 506, 508, 510, 511}


@pytest.fixture
def server():
    with Server() as server:
        yield server


@pytest.fixture
def client():
    policy = sp.Policy(sp.Retry(attempts=2, backoff=sp.Constant(0), budget=None))
    with httpx.Client(transport=stormproof.httpx.Transport(policy), trust_env=False) as client:
        yield client


@pytest.mark.parametrize("status", [408, 425, 429, *(s for s in range(500, 512) if s not in FINAL), 520, 599])
def test_transient_status_is_retried(server, client, status):
    server.on("/", answer(status), answer(200, b"ok"))
    assert client.get(server.url("/")).text == "ok"


@pytest.mark.parametrize("status", [200, 204, 304, 400, 401, 403, 404, 409, 422, *sorted(FINAL)])
def test_fatal_status_is_returned_at_once(server, client, status):
    server.on("/", answer(status))
    assert client.get(server.url("/")).status_code == status
    assert len(server.seen) == 1


def test_redirect_is_the_clients_affair_and_each_step_is_retried(server, client):
    server.on("/", answer(503), answer(302, headers=[("Location", "/there")]))
    server.on("/there", answer(503), answer(200, b"there"))
    assert client.get(server.url("/"), follow_redirects=True).text == "there"
    assert [seen.path for seen in server.seen] == ["/", "/", "/there", "/there"]


def test_last_answer_comes_back_as_a_response(server, client):
    server.on("/", answer(503, b"first"), answer(500, b"last"))
    got = client.get(server.url("/"))
    assert (got.status_code, got.text) == (500, "last")
    assert got.extensions["stormproof"].attempts == 2
