"""The fast engine's compiled rules against the shipped ones: the same questions, the same floats."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.lab import fast_chance, fast_compile, fast_layout, fast_rules
from holdfast.lab.fast import _chance
from holdfast.lab.fast_policy import ceilings, fill_policy
from holdfast.lab.processes import RunClock
from holdfast.lab.rows import Shape
from holdfast.lab.scenario import Scenario
from holdfast.lab.spread import Spread

ROUNDS = 4000


def rules(retry: hf.Retry) -> Any:
    found = np.zeros(1, fast_layout.RULES)
    form = Shape()
    form.retry = retry
    fill_policy(found[0], form, Scenario())
    return found[0]


# Chance.


def test_draws_are_pythons_own() -> None:
    mt, _ = _chance(7)
    for row, purpose in enumerate(("policy", "errors", "service", "network")):
        shipped = Random(f"7 {purpose}")
        assert [fast_chance.draw(mt, row) for _ in range(2000)] == [shipped.random() for _ in range(2000)]


@pytest.mark.parametrize("kind", ["fixed", "exponential", "lognormal"])
def test_durations_are_spread_as_the_exact_engine_spreads_them(kind: str) -> None:
    mt, kept = _chance(3)
    shape = Spread(kind, sigma=0.7)
    number = {"fixed": fast_layout.FIXED, "exponential": fast_layout.EXPONENTIAL}.get(
        kind, fast_layout.LOGNORMAL
    )
    shipped = shape.sampler(Random("3 service"), 0.25)
    got = [fast_chance.spread(mt, kept, fast_layout.SERVICE, number, 0.25, 0.7) for _ in range(ROUNDS)]
    assert got == [shipped() for _ in range(ROUNDS)]


# Compiling.


def test_where_nothing_can_be_kept_on_disk_it_is_compiled_all_the_same(monkeypatch: Any) -> None:
    def njit(cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: ("compiled", function)

    monkeypatch.setattr(fast_compile, "_njit", njit)
    assert fast_compile.kept(len) == ("compiled", len)


def test_any_change_of_the_kernels_source_is_a_change_of_its_types(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(fast_compile, "__file__", str(tmp_path / "fast_compile.py"))
    (tmp_path / "fast_rules.py").write_text("1")
    before = fast_compile.stamp()
    (tmp_path / "fast_rules.py").write_text("2")
    assert fast_compile.stamp() != before and before.isidentifier()
    monkeypatch.undo()
    assert fast_compile.stamp() in fast_layout.RULES.names


# Waits.

BACKOFFS = [
    hf.Exponential(),
    hf.Exponential(0.01, factor=1.3, cap=2, jitter="equal", min=0.02),
    hf.Exponential(1e-3, factor=1, jitter="none"),
    hf.Exponential(1, cap=1e300, factor=1e10, jitter=hf.Symmetric(1)),
    hf.Constant(0),
    hf.Constant(0.7, jitter="full", min=0.3),
    hf.Linear(0.2, cap=3.1, jitter=hf.Symmetric(0.25)),
    hf.Fibonacci(0.05, cap=4, jitter="equal"),
    hf.Schedule([0.5, 0.1, 2, 0.1], jitter="full"),
    hf.Schedule([3]),
    hf.Decorrelated(),
    hf.Decorrelated(0.3, cap=1.1, clip="sample", min=0.4),
    hf.Decorrelated(0.01, cap=1e308, clip="sample"),
]


@pytest.mark.parametrize("backoff", BACKOFFS, ids=repr)
def test_waits_are_the_shipped_backoffs(backoff: hf.Backoff) -> None:
    retry = hf.Retry(backoff=backoff, attempts=None, within=5)
    made, table, rng = rules(retry), ceilings(retry), Random(1)
    for _ in range(ROUNDS):
        n, u = rng.randrange(70), rng.choice((0.0, rng.random(), rng.random(), 1.0))
        prev = None if n == 0 else rng.choice((0.0, rng.random(), 10 ** rng.uniform(-3, 308)))
        got = fast_rules.wait_for(made, table, n, math.nan if prev is None else prev, u)
        assert got == backoff.delay(n, prev, u), (n, prev, u)


def test_the_table_of_waits_ends_where_they_no_longer_change() -> None:
    assert list(ceilings(hf.Retry(backoff=hf.Exponential(1, cap=5)))) == [1, 2, 4]
    assert list(ceilings(hf.Retry(attempts=None, backoff=hf.Exponential(1, cap=5)))) == [1, 2, 4, 5]
    assert list(ceilings(hf.Retry(attempts=9, backoff=hf.Schedule([1, 3, 1])))) == [1, 3, 1]
    assert list(ceilings(hf.Retry(attempts=1))) == [0.1]
    slow = hf.Exponential(1, factor=1.000001, cap=100)
    assert ceilings(hf.Retry(attempts=None, backoff=slow)) is None
    assert len(ceilings(hf.Retry(attempts=100, backoff=slow))) == 99


# Budgets.

BUDGETS = [
    hf.Budget(),
    hf.Budget(0.37, 0, window=2),
    hf.Budget(0.1, 3, window=0.004),
    hf.Budget(0, 5),
    hf.Budget(3, 1.5, window=100),
    hf.WindowBudget(),
    hf.WindowBudget(0.1, 0, window=1.5),
    hf.WindowBudget(0.7, 0.3, window=40),
    hf.QuotaBudget(),
    hf.QuotaBudget(31, 5.5, 7, 0.3, 2),
    hf.ThrottleBudget(),
    hf.ThrottleBudget(100, 1.0019),
    hf.RateBudget(),
    hf.RateBudget(0.7, 3),
    hf.RateBudget(0, 2),
    hf.RateBudget(5, 0),
    hf.RateBudget(math.inf, 1),
]


@pytest.mark.parametrize("pace", [0.0003, 0.05, 3.0])
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_budgets_pay_as_the_shipped_ones(budget: Any, pace: float) -> None:
    rng, clock = Random(f"{budget!r} {pace}"), RunClock()
    clock.time = rng.random() * 10
    shipped = type(budget)(**budget.fields(), clock=clock)
    made = rules(hf.Retry(budget=budget))
    purse, row = np.zeros(1, fast_layout.PURSE)[0], np.zeros(2 * fast_layout.ROW)
    fast_rules.open_purse(made, purse, clock.time)
    paid = 0
    for _ in range(ROUNDS):
        clock.time += rng.choice((0.0, rng.random() * pace, rng.random() * pace, 40 * pace))
        now, what = clock.time, rng.random()
        if what < 0.3:
            shipped.started()
            if type(budget) is hf.WindowBudget:
                purse["tally"] += 1
        elif what < 0.6:
            spent = rng.choice((None, 1.0, 5.5))
            shipped.success(spent)
            if made["by_success"]:
                fast_rules.credited(made, purse, row, now, math.nan if spent is None else spent)
        elif what < 0.8:
            shipped.failure()
            fast_rules.debited(made, purse, row, now)
        else:
            timeout, throttle = rng.random() < 0.5, rng.random() < 0.3
            got = fast_rules.withdraw(made, purse, row, now, timeout, throttle)
            if throttle and getattr(budget, "throttle_cost", None) is not None:
                assert got == shipped.withdraw(throttle=True)
            else:
                assert got == shipped.withdraw(timeout)
            paid += got > 0
        assert fast_rules.held(made, purse, row) == shipped._held()
    # Few calls in a short window earn nothing; else something must have been paid.
    assert paid > 1 or budget.fields().get("burst") == 0 or pace > 0.01


@pytest.mark.parametrize("budget", [hf.RateBudget(2, 3, wait=True), hf.RateBudget(0, 2, wait=True)], ids=repr)
def test_a_budget_that_waits_promises_the_same_time(budget: hf.RateBudget) -> None:
    rng, clock = Random(5), RunClock()
    shipped = hf.RateBudget(**budget.fields(), clock=clock)
    made, purse = rules(hf.Retry(budget=budget)), np.zeros(1, fast_layout.PURSE)[0]
    waited = 0
    for _ in range(ROUNDS):
        clock.time += rng.random()
        most = rng.random() * 3
        grant, delay = shipped.reserve(most)
        got = fast_rules.reserve(made, purse, clock.time, most)
        assert got == (-1.0 if grant is None else delay)
        waited += got > 0
    assert waited or budget.rate == 0
