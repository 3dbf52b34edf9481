"""A `RateBudget` with a store pays with the tokens of a limiter that its fleet shares."""

from __future__ import annotations

import math
from typing import Any

import pytest

import stormproof as sp
from stormproof._strategies.limiter.rules.bucket import Bucket


class Member:
    """One limiter's part in a fleet of one: a bucket of its own."""

    def __init__(self, owner: Any) -> None:
        self.rate, self.burst = owner.rate, owner.burst
        self.bucket = Bucket(owner.rate, owner.burst, owner.clock_time())

    def start(self) -> None:
        """There is no thread to start."""

    def kick(self) -> None:
        """There is no thread to wake."""

    def is_dry(self, now: float) -> bool:
        return self.bucket.tokens(now) < 1.0

    def change(self, owner: Any, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, burst
        self.bucket.change(rate, burst, owner.clock_time())


class LocalStore:
    """A store that one process keeps to itself."""

    prefix, timeout = "", 1.0

    def __init__(self) -> None:
        self.joined: list[tuple[str, Any, str]] = []

    def key(self, name: str) -> str:
        return name

    def join(self, kind: str, owner: Any, name: str) -> Member:
        self.joined.append((kind, owner, name))
        return Member(owner)


@pytest.fixture
def clock() -> sp.testing.FakeClock:
    return sp.testing.FakeClock(100.0)


@pytest.fixture
def store() -> Any:
    return LocalStore()


def shared(store: Any, **options: Any) -> tuple[sp.RateBudget, sp.Limiter]:
    """Return a budget of two tokens, one per second, and the limiter that it has joined."""
    budget = sp.RateBudget(1, 2, store=store, name="mail", **options)
    [(kind, limiter, name)] = store.joined
    assert (kind, name) == ("limiter", "mail/rate-budget")
    return budget, limiter


def test_budget_pays_with_the_tokens_of_the_fleet(store: Any, clock: sp.testing.FakeClock) -> None:
    budget, limiter = shared(store, clock=clock)
    assert budget.balance == 2.0
    # Another process takes one.
    assert limiter.allow()
    assert budget.balance == 1.0
    assert [budget.withdraw(), budget.withdraw()] == [1.0, 0.0]
    assert (limiter.tokens(), budget.balance) == (0.0, 0.0)
    clock.advance(1)
    assert [budget.withdraw(), budget.withdraw()] == [1.0, 0.0]


def test_budget_owes_nothing_where_the_fleet_is_in_debt(store: Any, clock: sp.testing.FakeClock) -> None:
    budget, limiter = shared(store, clock=clock)
    for _ in range(3):
        limiter.enqueue(1, None)
    assert budget.balance == 0.0


def test_retry_waits_in_the_line_of_the_fleet(store: Any, clock: sp.testing.FakeClock) -> None:
    budget, limiter = shared(store, clock=clock, wait=True)
    assert limiter.allow() and limiter.allow()
    paid: Any = budget.pay("transient", 1.0)
    assert (paid, paid.wait) == (1.0, 1.0)
    assert budget.pay("transient", 1.0) == 0.0
    paid = budget.pay("transient", math.inf)
    assert (paid, paid.wait) == (1.0, 2.0)


def test_budget_that_is_retuned_retunes_the_limiter_of_the_fleet(
    store: Any, clock: sp.testing.FakeClock
) -> None:
    budget, limiter = shared(store, clock=clock)
    assert budget.retune(sp.RateBudget(5, 7)) is True
    assert (limiter.rate, limiter.burst) == (5, 7)
    clock.advance(60)
    assert budget.balance == 7.0


def test_budget_and_the_limiter_of_the_fleet_use_one_clock(store: Any) -> None:
    clock = sp.testing.FakeClock(100.0)
    budget, limiter = shared(store)
    budget.use_clock(clock)
    assert [budget.withdraw() for _ in range(3)] == [1.0, 1.0, 0.0]
    clock.advance(2)
    assert (limiter.tokens(), budget.balance) == (2.0, 2.0)


def test_budget_without_a_store_is_on_its_own(store: Any, clock: sp.testing.FakeClock) -> None:
    _, limiter = shared(store, clock=clock)
    alone = sp.RateBudget(1, 2, name="mail", clock=clock)
    assert [alone.withdraw() for _ in range(3)] == [1.0, 1.0, 0.0]
    assert limiter.tokens() == 2.0
