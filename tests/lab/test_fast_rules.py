"""The fast engine's compiled rules against the shipped ones: the same questions, the same floats."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import stormproof as sp
from stormproof.lab.engines.numba import compilation, layout, randomness
from stormproof.lab.engines.numba import rules as fast_rules
from stormproof.lab.engines.numba.engine import _chance
from stormproof.lab.engines.numba.policy import ceilings, fill_policy
from stormproof.lab.engines.policy_shape import Shape
from stormproof.lab.engines.processes import RunClock
from stormproof.lab.model.scenario import Scenario
from stormproof.lab.model.spread import Spread

ROUNDS = 4000


def rules(retry: sp.Retry) -> Any:
    found = layout.records(layout.RunRules, 1)
    form = Shape()
    form.retry = retry
    fill_policy(found[0], form, Scenario())
    return found[0]


# Chance.


def test_compiled_draws_equal_those_of_pythons_random() -> None:
    mt, _ = _chance(7)
    for row, purpose in enumerate(("policy", "errors", "service", "network")):
        shipped = Random(f"7 {purpose}")
        assert [randomness.draw(mt, row) for _ in range(2000)] == [shipped.random() for _ in range(2000)]


@pytest.mark.parametrize("kind", ["fixed", "exponential", "lognormal"])
def test_durations_are_spread_as_the_exact_engine_spreads_them(kind: str) -> None:
    mt, kept = _chance(3)
    shape = Spread(kind, sigma=0.7)
    number = {"fixed": layout.FIXED, "exponential": layout.EXPONENTIAL}.get(kind, layout.LOGNORMAL)
    shipped = shape.sampler(Random("3 service"), 0.25)
    got = [randomness.spread(mt, kept, layout.SERVICE, number, 0.25, 0.7) for _ in range(ROUNDS)]
    assert got == [shipped() for _ in range(ROUNDS)]


# Compiling.


def test_engine_compiles_without_a_writable_cache(monkeypatch: Any) -> None:
    def njit(cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: ("compiled", function)

    monkeypatch.setattr(compilation, "_njit", njit)
    assert compilation.kept(len) == ("compiled", len)


def test_any_change_of_the_kernels_source_is_a_change_of_its_types(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(compilation, "__file__", str(tmp_path / "compilation.py"))
    (tmp_path / "rules.py").write_text("1")
    before = compilation.stamp()
    (tmp_path / "rules.py").write_text("2")
    assert compilation.stamp() != before and before.isidentifier()
    monkeypatch.undo()
    assert compilation.stamp() in layout.dtype_of(layout.RunRules).names


# Waits.

BACKOFFS = [
    sp.Exponential(),
    sp.Exponential(0.01, factor=1.3, cap=2, jitter="equal", min=0.02),
    sp.Exponential(1e-3, factor=1, jitter="none"),
    sp.Exponential(1, cap=1e300, factor=1e10, jitter=sp.Symmetric(1)),
    sp.Constant(0),
    sp.Constant(0.7, jitter="full", min=0.3),
    sp.Linear(0.2, cap=3.1, jitter=sp.Symmetric(0.25)),
    sp.Fibonacci(0.05, cap=4, jitter="equal"),
    sp.Schedule([0.5, 0.1, 2, 0.1], jitter="full"),
    sp.Schedule([3]),
    sp.Decorrelated(),
    sp.Decorrelated(0.3, cap=1.1, clip="sample", min=0.4),
    sp.Decorrelated(0.01, cap=1e308, clip="sample"),
]


@pytest.mark.parametrize("backoff", BACKOFFS, ids=repr)
def test_waits_are_the_shipped_backoffs(backoff: sp.Backoff) -> None:
    retry = sp.Retry(backoff=backoff, attempts=None, within=5)
    made, table, rng = rules(retry), ceilings(retry), Random(1)
    for _ in range(ROUNDS):
        n, u = rng.randrange(70), rng.choice((0.0, rng.random(), rng.random(), 1.0))
        prev = None if n == 0 else rng.choice((0.0, rng.random(), 10 ** rng.uniform(-3, 308)))
        got = fast_rules.wait_for(made, table, n, math.nan if prev is None else prev, u)
        assert got == backoff.delay(n, prev, u), (n, prev, u)


def test_table_of_waits_ends_when_waits_are_constant() -> None:
    assert list(ceilings(sp.Retry(backoff=sp.Exponential(1, cap=5)))) == [1, 2, 4]
    assert list(ceilings(sp.Retry(attempts=None, backoff=sp.Exponential(1, cap=5)))) == [1, 2, 4, 5]
    assert list(ceilings(sp.Retry(attempts=9, backoff=sp.Schedule([1, 3, 1])))) == [1, 3, 1]
    assert list(ceilings(sp.Retry(attempts=1))) == [0.1]
    slow = sp.Exponential(1, factor=1.000001, cap=100)
    assert ceilings(sp.Retry(attempts=None, backoff=slow)) is None
    assert len(ceilings(sp.Retry(attempts=100, backoff=slow))) == 99


# Budgets.

BUDGETS = [
    sp.Budget(),
    sp.Budget(0.37, burst=0, window=2),
    sp.Budget(0.1, burst=3, window=0.004),
    sp.Budget(0, burst=5),
    sp.Budget(3, burst=1.5, window=100),
    sp.WindowBudget(),
    sp.WindowBudget(0.1, floor=0, window=1.5),
    sp.WindowBudget(0.7, floor=0.3, window=40),
    sp.QuotaBudget(),
    sp.QuotaBudget(31, retry_cost=5.5, timeout_cost=7, success_credit=0.3, throttle_cost=2),
    sp.ThrottleBudget(),
    sp.ThrottleBudget(100, token_ratio=1.0019),
    sp.RateBudget(),
    sp.RateBudget(0.7, 3),
    sp.RateBudget(0, 2),
    sp.RateBudget(5, 0),
    sp.RateBudget(math.inf, 1),
]


@pytest.mark.parametrize("pace", [0.0003, 0.05, 3.0])
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_budgets_pay_as_the_shipped_ones(budget: Any, pace: float) -> None:
    rng, clock = Random(f"{budget!r} {pace}"), RunClock()
    clock.time = rng.random() * 10
    shipped = type(budget)(**budget.fields(), clock=clock)
    made = rules(sp.Retry(budget=budget))
    purse, row = layout.records(layout.PurseRecord, 1)[0], np.zeros(2 * layout.ROW)
    fast_rules.open_purse(made, purse, clock.time)
    paid = 0
    for _ in range(ROUNDS):
        clock.time += rng.choice((0.0, rng.random() * pace, rng.random() * pace, 40 * pace))
        now, what = clock.time, rng.random()
        if what < 0.3:
            shipped.started()
            if type(budget) is sp.WindowBudget:
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
        assert fast_rules.balance_of(made, purse, row) == shipped._balance_of(shipped._live)
    # Few calls in a short window earn nothing; else something must have been paid.
    assert paid > 1 or budget.fields().get("burst") == 0 or pace > 0.01


@pytest.mark.parametrize("start", [0.0, 1e6])
def test_rate_budget_at_exact_pace_pays_every_time(start: float) -> None:
    clock = RunClock()
    clock.time = start
    budget = sp.RateBudget(10, 1, clock=clock)
    made, purse = rules(sp.Retry(budget=budget)), layout.records(layout.PurseRecord, 1)[0]
    for index in range(ROUNDS):
        clock.time = start + index / 10
        assert fast_rules.reserve(made, purse, clock.time, 0.0) == 0.0
        assert budget.withdraw() == 1.0


@pytest.mark.parametrize("budget", [sp.RateBudget(2, 3, wait=True), sp.RateBudget(0, 2, wait=True)], ids=repr)
def test_budget_that_waits_promises_the_same_time(budget: sp.RateBudget) -> None:
    rng, clock = Random(5), RunClock()
    shipped = sp.RateBudget(**budget.fields(), clock=clock)
    made, purse = rules(sp.Retry(budget=budget)), layout.records(layout.PurseRecord, 1)[0]
    waited = 0
    for _ in range(ROUNDS):
        clock.time += rng.random()
        most = rng.random() * 3
        turn = shipped.reserve(most)
        got = fast_rules.reserve(made, purse, clock.time, most)
        assert got == (turn.delay if turn.ok else -1.0)
        waited += got > 0
    assert waited or budget.rate == 0
