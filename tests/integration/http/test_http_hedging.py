"""A second request while the first is out: for requests that may be made twice, and no others."""

from __future__ import annotations

from threading import Event

import pytest
from tests.support.http.each_client import Http, each_client
from tests.support.http.server import answer, hang, late, once

import stormproof as sp


def _hedged(**options: object) -> sp.Policy:
    given = {"after": 0.02, "budget": sp.Budget(burst=10), **options}
    return sp.Policy(sp.Hedge(**given))


@each_client
async def test_slow_get_is_hedged_and_the_first_answer_wins(http: Http) -> None:
    answered = Event()
    http.server.on("/", once(answered.is_set, answer(200, b"slow")), answer(200, b"fast"))
    assert (await http.client(_hedged()).get("/")).body == b"fast"
    answered.set()
    assert len(http.server.seen) == 2


@pytest.mark.proves("invariant 16")
@each_client
async def test_post_without_a_key_is_never_hedged(http: Http) -> None:
    http.server.on("/", late(0.1, answer(200, b"one")), answer(200, b"two"))
    assert (await http.client(_hedged()).post("/")).body == b"one"
    assert len(http.server.seen) == 1


@each_client
async def test_post_with_a_key_is_hedged_under_that_key(http: Http) -> None:
    answered = Event()
    http.server.on("/", once(answered.is_set, answer(200, b"slow")), answer(200, b"fast"))
    assert (await http.client(_hedged(), idempotency_key="auto").post("/")).body == b"fast"
    answered.set()
    first, second = http.server.seen
    assert first.header("Idempotency-Key") == second.header("Idempotency-Key") is not None


@each_client
async def test_fast_answer_is_not_hedged(http: Http) -> None:
    http.server.on("/", answer(200, b"fast"))
    assert (await http.client(_hedged(after=2.0)).get("/")).body == b"fast"
    assert len(http.server.seen) == 1


@each_client
async def test_refusal_launches_the_next_at_once(http: Http) -> None:
    http.server.on("/", answer(503), answer(200, b"ok"))
    assert (await http.client(_hedged(after=30.0)).get("/")).body == b"ok"
    assert len(http.server.seen) == 2


@each_client
async def test_hedges_that_all_answer_503_return_the_503(http: Http) -> None:
    http.server.on("/", answer(503, b"down"))
    got = await http.client(_hedged(after=30.0)).get("/")
    assert (got.status, got.body) == (503, b"down")
    assert len(http.server.seen) == 2


@pytest.mark.proves("invariant 16")
@each_client
async def test_losing_hedge_closes_its_response(http: Http) -> None:
    http.server.on("/", hang(), answer(200, b"fast"))
    client = http.client(_hedged())
    assert (await client.get("/", timeout=2.0)).body == b"fast"
    # Its connection goes, while the winner's may be kept for the next request.
    http.server.wait_for(lambda server: server.open <= 1)


@pytest.mark.proves("invariant 16")
@each_client
@pytest.mark.parametrize("max", [2, 3])
async def test_hedges_never_exceed_max(http: Http, max: int) -> None:
    # The answer is late, so that one hedge too many would have time to arrive.
    http.server.on("/", once(lambda: len(http.server.seen) >= max, late(0.05, answer(200, b"slow"))))
    assert (await http.client(_hedged(max=max, after=0.01)).get("/")).body == b"slow"
    assert len(http.server.seen) == max
