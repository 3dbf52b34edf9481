"""A retry budget of several instances: earned anywhere, spent anywhere, held at most once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import PATIENT_S, Server

import stormproof as sp
from stormproof._strategies.limiter.rules import leases
from stormproof.redis import RedisStore

pytestmark = pytest.mark.redis


@pytest.fixture
def pair(shared_server: Server, request: pytest.FixtureRequest) -> Iterator[tuple[RedisStore, RedisStore]]:
    prefix = "".join(c if c.isalnum() else "-" for c in request.node.name)[-60:]
    with (
        RedisStore(shared_server.url, prefix, PATIENT_S) as one,
        RedisStore(shared_server.url, prefix, PATIENT_S) as two,
    ):
        yield one, two


def settled(*budgets: Any) -> None:
    eventually(lambda: all(budget._fleet.answered_at is not None for budget in budgets))
    eventually(lambda: all(budget._fleet.purse.instances == len(budgets) for budget in budgets))


def spend(budget: sp.Budget, least: float = 0.0, seconds: float = 0.3) -> float:
    """Return how much a caller gets that tries until it has ``least``, and goes on for a while."""
    paid = 0.0

    def pay() -> bool:
        nonlocal paid
        paid += budget.withdraw()
        return paid >= least

    eventually(pay, f"{least:g} of the budget")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pay()
        time.sleep(0.001)
    return paid


def known(budget: sp.Budget, least: float) -> None:
    eventually(lambda: budget.balance >= least)


def test_budget_spent_by_one_instance_is_empty_for_the_other(pair: tuple[RedisStore, RedisStore]) -> None:
    one, two = (sp.Budget(0.1, burst=20, store=store, name="x") for store in pair)
    settled(one, two)
    assert spend(one, least=19) <= 20
    assert spend(two) <= 1 + leases.credit_of(20, 2)
    assert one.withdraw() == 0.0
    assert one.balance == 0.0


def test_budget_earned_by_one_instance_is_spent_by_the_other(pair: tuple[RedisStore, RedisStore]) -> None:
    one, two = (sp.Budget(0.5, burst=0, store=store, name="x") for store in pair)
    settled(one, two)
    assert one.withdraw() == 0.0
    for _ in range(40):
        two.success()
    known(one, 19)
    assert spend(one, least=19) <= 21


def test_budget_holds_at_most_the_burst_and_the_earnings_of_the_window(
    pair: tuple[RedisStore, RedisStore],
) -> None:
    budget = sp.Budget(1.0, burst=5, window=0.4, store=pair[0], name="x")
    settled(budget)

    def earned() -> bool:
        # Again each time: on a busy machine the window may end before its earnings have been exchanged.
        for _ in range(100):
            budget.success()
        return budget.balance >= 100

    eventually(earned)
    time.sleep(0.5)
    # What the window earned has fallen out of it, and was held only as part of it.
    budget.success()
    eventually(lambda: budget.balance <= 6)
    assert spend(budget, least=5) <= 7


def test_time_alone_refills_nothing(pair: tuple[RedisStore, RedisStore]) -> None:
    budget = sp.Budget(0.1, burst=5, window=0.2, store=pair[0], name="x")
    settled(budget)
    assert spend(budget, least=5) == 5
    assert spend(budget, seconds=1.0) == 0


def test_fraction_of_a_token_is_kept(pair: tuple[RedisStore, RedisStore]) -> None:
    one, two = (sp.Budget(0.0001, burst=0, store=store, name="x") for store in pair)
    settled(one, two)
    for _ in range(5000):
        one.success()
        two.success()
    known(one, 1)
    assert spend(one, least=1) == 1


def test_policies_of_two_instances_pay_from_one_budget(pair: tuple[RedisStore, RedisStore]) -> None:
    budgets = [sp.Budget(0.1, burst=3, store=store, name="x") for store in pair]
    settled(*budgets)
    calls = 0

    def fails() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    retries = [
        sp.retry(on=ConnectionError, attempts=50, backoff=sp.Constant(0.002), budget=each) for each in budgets
    ]
    for retry in retries:
        with pytest.raises(ConnectionError) as caught:
            retry(fails)()
        assert sp.stopped(caught.value).reason == "budget"
    assert calls <= 2 + 3 + 2


def test_first_attempts_do_not_wait_for_a_store_that_hangs(server: Server) -> None:
    with RedisStore(server.url, timeout=PATIENT_S) as store:
        server.pause()
        policy = sp.Policy(sp.Retry(on=ConnectionError, budget=sp.Budget(store=store, name="x")))
        start = time.monotonic()
        for _ in range(1000):
            policy.call(int)
        assert time.monotonic() - start < PATIENT_S / 2
        server.resume()


def test_closing_gives_back_what_is_held(shared_server: Server) -> None:
    with RedisStore(shared_server.url, "budget-close", PATIENT_S) as watcher:
        store = RedisStore(shared_server.url, "budget-close", PATIENT_S)
        budget = sp.Budget(0.1, burst=500, store=store, name="x")
        settled(budget)

        paid = 0.0

        def use() -> bool:
            nonlocal paid
            paid += budget.withdraw()
            return budget._fleet is not None and budget._fleet.purse.held >= 5

        eventually(use)
        store.close()
        assert watcher.inspect()[0]["state"]["level"] == 500 - paid


def test_copies_of_a_fleet_budget_share_store_and_name(pair: tuple[RedisStore, RedisStore]) -> None:
    budget = sp.Budget(0.25, burst=8, store=pair[0], name="x")
    again = budget.replace(burst=9)
    assert (again.store, again.name, again.burst, again.ratio) == (pair[0], "x", 9, 0.25)
    assert budget.fresh().name == "x"
    assert sp.keyed(budget)["k"].name != "x"
    assert repr(budget).endswith(f"store={pair[0]!r}, name='x')")
    assert repr(sp.Budget()) == "Budget(ratio=0.1, burst=3.0, window=10.0)"


def test_other_kinds_of_budget_refuse_a_store(pair: tuple[RedisStore, RedisStore]) -> None:
    for kind in (sp.WindowBudget, sp.QuotaBudget, sp.ThrottleBudget):
        with pytest.raises(TypeError, match="store"):
            kind(store=pair[0], name="x")  # type: ignore[call-arg]


def test_budget_with_a_store_and_no_name_is_refused(pair: tuple[RedisStore, RedisStore]) -> None:
    with pytest.raises(TypeError, match=r"^Budget: name must be a string"):
        sp.Budget(store=pair[0])


def test_idle_budget_asks_for_nothing(pair: tuple[RedisStore, RedisStore]) -> None:
    budget = sp.Budget(store=pair[0], name="x")
    settled(budget)
    assert budget._fleet is not None
    # As if it had not been used for long.
    budget._fleet.purse.demand.last -= leases.COLD_AFTER_S
    eventually(lambda: budget._fleet is not None and budget._fleet.ask(time.monotonic()) is None)
    budget.success()
    assert budget._fleet.ask(time.monotonic()) is not None
