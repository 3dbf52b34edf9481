"""Servers that take a connection and do nothing with it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer, hang

import stormproof as sp

pytestmark = pytest.mark.proves("fault http-hangs")

#: Long enough for a busy machine to connect and send in, short enough to wait for.
TIMEOUT_S = 0.5


@each_client
async def test_server_that_never_answers_costs_the_attempts_time_and_no_more(http: Http) -> None:
    http.server.on("/", hang())
    started = time.monotonic()
    with pytest.raises(http.kind.slow) as caught:
        await http.client(retry(attempts=3)).get("/", timeout=TIMEOUT_S)
    assert time.monotonic() - started > 2.9 * TIMEOUT_S
    assert len(http.server.seen) == 3
    assert any("3 attempts" in note for note in caught.value.__notes__)


@each_client
async def test_connection_that_is_never_read_costs_the_same(http: Http) -> None:
    http.server.on_accept("hang", "hang")
    with pytest.raises(http.kind.slow):
        await http.client(retry(attempts=2)).get("/", timeout=TIMEOUT_S)
    assert (http.server.seen, http.server.accepted) == ([], 2)


@each_client
async def test_timeouts_pay_the_price_of_timeouts(http: Http) -> None:
    budget = sp.QuotaBudget(capacity=1000, retry_cost=5, timeout_cost=10)
    events: list[Any] = []
    unsubscribe = sp.subscribe(events.append)
    try:
        http.server.on("/", hang(), answer(200))
        # On a busy machine the answer may arrive too late, and then costs another retry.
        await http.client(retry(attempts=50, budget=budget)).get("/", timeout=0.05)
    finally:
        unsubscribe()
    retries = [event for event in events if isinstance(event, sp.events.Retrying)]
    assert retries
    # Each retry paid 10, and the success gave the last payment back.
    assert budget.balance == 1000 - 10 * (len(retries) - 1)


@each_client
async def test_timeouts_exhaust_the_budget(http: Http) -> None:
    http.server.on("/", hang())
    budget = sp.QuotaBudget(capacity=20, retry_cost=5, timeout_cost=10)
    with pytest.raises(http.kind.slow) as caught:
        await http.client(retry(budget=budget)).get("/", timeout=0.3)
    assert budget.balance == 0
    assert any("3 attempts" in note for note in caught.value.__notes__)
