"""The default budget refused retries of callers that make few calls, unless its balance was read often.

Settling scaled what was earned by window / elapsed, so a caller with long gaps between its failures lost
nearly all of it, and each reading (a scrape, `describe`) cut the gaps shorter.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import stormproof as sp

WEEK_S = 7 * 86_400


def refusals(gap_s: float, failing: float, seed: int, scrape_s: float | None = None) -> tuple[int, int]:
    """Return (calls that failed, retries refused) of a week of calls; one retry always succeeds."""
    rng, clock = Random(seed), sp.testing.FakeClock()
    budget = sp.Budget(clock=clock)
    failed = refused = 0
    scraped = 0.0
    for index in range(round(WEEK_S / gap_s)):
        now = (index + 1) * gap_s
        while scrape_s is not None and scraped + scrape_s <= now:
            scraped += scrape_s
            clock.advance(scraped - clock.now())
            assert budget.balance >= 0
        clock.advance(now - clock.now())
        budget.started()
        if rng.random() >= failing:
            budget.success()
            continue
        failed += 1
        budget.failure()
        if paid := budget.withdraw():
            budget.success(paid)
        else:
            refused += 1
    return failed, refused


@pytest.mark.parametrize("gap_s", [60.0, 1.0])
def test_budget_of_quiet_caller_with_rare_failures_refuses_nothing(gap_s: float) -> None:
    failed, refused = refusals(gap_s, 0.01, seed=1)
    assert failed > 50
    assert refused == 0


@pytest.mark.parametrize("gap_s", [60.0, 1.0])
def test_budget_of_quiet_caller_with_frequent_failures_refuses_few(gap_s: float) -> None:
    # A week of one call a minute has 500 failures: ten weeks of them, so that chance plays a small part.
    weeks = [refusals(gap_s, 0.05, seed) for seed in range(10 if gap_s == 60 else 1)]
    failed, refused = (sum(part) for part in zip(*weeks, strict=True))
    assert failed > 4000
    assert refused <= 0.025 * failed


@pytest.mark.parametrize(("gap_s", "scrape_s"), [(60.0, 15.0), (1.0, 15.0), (60.0, 7.3)])
def test_budget_that_is_scraped_refuses_the_same(gap_s: float, scrape_s: float) -> None:
    assert refusals(gap_s, 0.05, 3, scrape_s) == refusals(gap_s, 0.05, 3)


KINDS: list[Any] = [
    lambda clock: sp.Budget(0.1, burst=3, window=10, clock=clock),
    lambda clock: sp.Budget(0.37, burst=1.5, window=2, clock=clock),
    lambda clock: sp.WindowBudget(0.2, floor=0.3, window=10, clock=clock),
    lambda clock: sp.QuotaBudget(
        31, retry_cost=5.5, timeout_cost=7, success_credit=0.3, throttle_cost=2, clock=clock
    ),
    lambda clock: sp.ThrottleBudget(10, token_ratio=0.1, clock=clock),
    lambda clock: sp.RateBudget(0.7, 3, clock=clock),
]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("pace_s", [0.01, 1.0, 30.0])
def test_reading_a_budget_changes_no_later_withdrawal(make: Any, pace_s: float) -> None:
    rng = Random(f"{pace_s}")
    clock = sp.testing.FakeClock()
    watched, alone = make(clock), make(clock)
    for _ in range(2000):
        # A clock may be set back.
        clock.advance(rng.choice((0.0, rng.random() * pace_s, 20 * pace_s, -rng.random() * pace_s)))
        what = rng.random()
        if what < 0.2:
            answers = [(budget.started(), budget.success()) for budget in (watched, alone)]
        elif what < 0.3:
            answers = [(budget.failure(), budget.success(2.0)) for budget in (watched, alone)]
        elif what < 0.5:
            answers = [budget.withdraw() for budget in (watched, alone)]
        else:
            assert watched.balance == watched.describe()["balance"]
            continue
        assert answers[0] == answers[1]
    # The last reading is the first one of the other budget.
    assert watched.balance == alone.balance
