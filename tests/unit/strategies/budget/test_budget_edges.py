"""Budgets at their edges: balances a rounding short of a retry, clocks set back, slices that just end."""

from __future__ import annotations

from typing import Any

import pytest

import stormproof as sp
from stormproof._strategies.budget import budget as module
from stormproof._strategies.budget.rules import ROUNDING, Slices, shortage


@pytest.fixture
def clock() -> sp.testing.FakeClock:
    return sp.testing.FakeClock(100.0)


# What pays.


def test_balance_that_falls_a_rounding_short_pays_without_earnings_between(
    clock: sp.testing.FakeClock,
) -> None:
    budget = sp.Budget(0, burst=2 - ROUNDING / 2, clock=clock)
    assert [budget.withdraw() for _ in range(3)] == [1.0, 1.0, 0.0]


def test_window_budget_that_is_a_rounding_short_pays(clock: sp.testing.FakeClock) -> None:
    assert sp.WindowBudget(0, floor=1 - ROUNDING, window=1, clock=clock).withdraw() == 1.0
    assert sp.WindowBudget(0, floor=1 - 2 * ROUNDING, window=1, clock=clock).withdraw() == 0.0


def test_observing_budget_pays_a_first_retry_that_it_would_refuse(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(burst=0, observe=True, clock=clock)
    assert budget.pay("transient") > 0.0
    assert budget.describe()["would_refuse"] == 1


def test_earnings_above_the_burst_end_with_the_window_though_the_clock_was_set_back(
    clock: sp.testing.FakeClock,
) -> None:
    budget = sp.Budget(1.0, burst=1, window=10, clock=clock)
    for _ in range(5):
        budget.success()
    assert budget.withdraw() == 1.0
    clock.advance(-100)
    assert budget.withdraw() == 1.0
    # Of six tokens two are spent; three stand above the burst, until ten seconds have passed.
    clock.advance(200)
    assert [budget.withdraw() for _ in range(2)] == [1.0, 0.0]


@pytest.mark.parametrize("gil", [True, False], ids=["gil", "free-threaded"])
def test_shortage_counts_every_retry_of_one_moment(
    gil: bool, clock: sp.testing.FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HAS_GIL", gil)
    budget = sp.Budget(1.0, burst=1, window=10, clock=clock)
    for _ in range(5):
        budget.success()
    assert [budget.withdraw() for _ in range(7)] == [1.0] * 6 + [0.0]
    assert "5 successes earned 5, 6 retries spent 6" in budget.shortage()


def test_ratio_of_a_half_is_advised_and_none_above_it() -> None:
    assert shortage(0.1, 3, 4, 4).endswith(" or ratio=0.5")
    assert "ratio" not in shortage(0.1, 3, 4, 5).partition("; to allow more")[2]


def test_rate_budget_that_never_refills_refuses_instead_of_waiting(clock: sp.testing.FakeClock) -> None:
    budget = sp.RateBudget(0, 1, wait=True, clock=clock)
    assert [float(budget.pay("transient")) for _ in range(2)] == [1.0, 0.0]


# A budget with a store.


class Member:
    """The fleet's side of a budget: what it pays is what the fleet has."""

    def __init__(self, left: int) -> None:
        self.left = left

    def start(self) -> None:
        """There is no thread to start."""

    def withdraw(self) -> float:
        self.left -= 1
        return 1.0 if self.left >= 0 else 0.0

    def balance(self) -> float:
        return float(self.left)


class LocalStore:
    """A store that one process keeps to itself."""

    prefix, timeout = "", 1.0

    def __init__(self, left: int) -> None:
        self.left = left
        self.joined: list[tuple[str, str]] = []

    def key(self, name: str) -> str:
        return name

    def join(self, kind: str, owner: object, name: str) -> Any:
        self.joined.append((kind, name))
        return Member(self.left)


@pytest.mark.parametrize("left", [0, 5])
def test_budget_with_a_store_pays_what_the_fleet_has(left: int, clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(burst=3, clock=clock, store=LocalStore(left), name="calls")
    assert [budget.withdraw() for _ in range(6)] == [1.0] * left + [0.0] * (6 - left)


# Sums in slices of another window.


def test_slices_of_tenths_keep_each_part_for_as_long_as_the_new_window() -> None:
    old = Slices(4.0, 100.1)
    old.add(1.0)
    old.roll(101.1)
    old.add(2.0)
    new = old.resliced(20.0, 101.1)
    # The first part lay about 100.1, the second one at 101.1; a new slice is a second.
    totals = []
    for now in (119.5, 120.5, 121.5):
        new.roll(now)
        totals.append(new.total)
    assert totals == [3.0, 2.0, 0.0]


def test_slice_that_is_being_filled_stays_the_last_one_of_another_window() -> None:
    # A second holds ten tenths, but 1.0 // 0.1 is 9: the two ways to divide must not be mixed.
    old = Slices(4.0, 1.0)
    old.add(1.0)
    new = old.resliced(2.0, 1.0)
    new.roll(1.15)
    assert new.total == 1.0


def test_slice_that_the_new_window_has_just_left_is_dropped() -> None:
    old = Slices(20.0, 90.5)
    old.add(1.0)
    assert old.resliced(10.0, 100.5).total == 0.0
