"""requests#2830: a POST whose answer did not come in time was sent again, and done twice.

Stormproof: a POST or PATCH is sent again only with an idempotency key, or when the failure proves that
nothing was processed, whatever the policy's ``on`` says.
"""

from __future__ import annotations

import httpx
import pytest
from tests.support.http.server import Server, answer, hang, reset, unused_port

import stormproof as sp
import stormproof.httpx


def client(on=sp.transient, **options):
    policy = sp.Policy(sp.Retry(on=on, attempts=3, backoff=sp.Constant(0), budget=None))
    return httpx.Client(transport=stormproof.httpx.Transport(policy, **options), trust_env=False, timeout=0.2)


@pytest.mark.parametrize("on", [sp.transient, httpx.TransportError, Exception], ids=repr)
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_post_without_a_key_is_not_retried_after_a_slow_answer(on, method):
    with Server() as server, client(on) as http:
        server.on("/", hang())
        with pytest.raises(httpx.ReadTimeout) as caught:
            http.request(method, server.url("/"), content=b"pay")
        assert f"{method} without an idempotency key may have been processed" in caught.value.__notes__[0]
        assert len(server.seen) == 1


@pytest.mark.parametrize("step", [reset(), answer(500), answer(503)], ids=["reset", "500", "503"])
def test_post_without_a_key_is_not_retried_after_a_reset_or_5xx(step):
    with Server() as server, client() as http:
        server.on("/", step)
        try:
            http.post(server.url("/"), content=b"pay")
        except httpx.TransportError:
            pass
        assert len(server.seen) == 1


@pytest.mark.parametrize("status", [425, 429])
def test_post_is_retried_if_the_status_proves_nothing_was_processed(status):
    with Server() as server, client() as http:
        server.on("/", answer(status), answer(200))
        assert http.post(server.url("/"), content=b"pay").status_code == 200
        assert [seen.body for seen in server.seen] == [b"pay"] * 2


def test_post_to_a_closed_port_is_retried():
    events = []
    stop = sp.subscribe(events.append)
    try:
        with client() as http, pytest.raises(httpx.ConnectError):
            http.post(f"http://127.0.0.1:{unused_port()}/", content=b"pay")
    finally:
        stop()
    assert [type(event).__name__ for event in events] == ["Retrying", "Retrying", "GaveUp"]


def test_post_with_an_idempotency_key_is_retried_under_that_key():
    with Server() as server, client(idempotency_key="auto") as http:
        server.on("/", hang(), answer(503), answer(200))
        assert http.post(server.url("/"), content=b"pay").status_code == 200
        keys = {seen.header("idempotency-key") for seen in server.seen}
        assert len(server.seen) == 3 and len(keys) == 1 and None not in keys


def test_answer_of_a_get_is_waited_for_again():
    with Server() as server, client() as http:
        server.on("/", hang(), answer(200))
        assert http.get(server.url("/")).status_code == 200
