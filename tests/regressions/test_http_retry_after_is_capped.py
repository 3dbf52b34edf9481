"""urllib3#1338, open since 2018: ``Retry-After: 86400`` made the client sleep for a day.

Stormproof: a hint is kept to up to ``max_hint`` and within the deadline; a longer one ends the call at
once with the server's own answer, which says so.
"""

from __future__ import annotations

import httpx
import pytest
from tests.support.http.server import Server, answer

import stormproof as sp
import stormproof.httpx


def get(*steps, deadline=None, **options):
    with Server() as server:
        server.on("/", *steps)
        rows = [] if deadline is None else [sp.Deadline(deadline)]
        retry = sp.Retry(backoff=sp.Constant(0.25), budget=None, **options)
        policy = sp.Policy(*rows, retry, clock=sp.testing.FakeClock(), rng=lambda: 0.0)
        with httpx.Client(transport=stormproof.httpx.Transport(policy), trust_env=False) as client:
            response = client.get(server.url("/"))
        return response, policy.clock.sleeps, len(server.seen)


def asks(value, status=503, name="Retry-After"):
    return answer(status, b"later", [(name, value)])


@pytest.mark.parametrize(
    "value", ["61", "86400", "1" + "0" * 12, "9" * 5000, "Fri, 31 Dec 2100 23:59:59 GMT"]
)
def test_hint_beyond_max_hint_returns_the_answer_at_once(value):
    response, sleeps, requests = get(asks(value))
    assert (response.status_code, response.text, sleeps, requests) == (503, "later", [], 1)
    assert response.extensions["stormproof"].reason.startswith("the server asked for ")


def test_hint_within_max_hint_is_waited_for():
    response, sleeps, _ = get(asks("20"), asks("0.5", 429), answer(200))
    assert (response.status_code, sleeps) == (200, [20.0, 0.5])


@pytest.mark.parametrize("value", ["-1", "soon", "", "Fri, 31 Dec 1999 23:59:59 GMT", "nan", "1e3"])
def test_hint_without_a_value_leaves_our_own_wait(value):
    response, sleeps, _ = get(asks(value), answer(200))
    assert (response.status_code, sleeps) == (200, [0.25])


def test_longest_of_several_hints_counts():
    step = answer(503, b"", [("Retry-After", "1"), ("Retry-After", "7")])
    assert get(step, answer(200))[1] == [7.0]


def test_hint_past_the_deadline_stops():
    response, sleeps, requests = get(asks("30"), deadline=10)
    assert (response.status_code, sleeps, requests) == (503, [], 1)
    assert response.extensions["stormproof"].reason.startswith("DeadlineExceeded: ")


def test_max_hint_can_be_raised():
    assert get(asks("3600"), answer(200), max_hint=7200, within=None)[1] == [3600.0]
