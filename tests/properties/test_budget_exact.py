"""Invariant 7: the sums are exact for any ratio, and the bounds hold under any number of threads."""

from __future__ import annotations

import math
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.scripted import Boom, retry

import stormproof as sp

N = 10_000
RATIOS = [
    0.0001,
    0.0007,
    0.001,
    0.01,
    0.03,
    0.1,
    0.2,
    0.29,
    1 / 3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.9,
    0.99,
    0.999,
    0.9999,
]


def frozen(ratio: float, burst: float = 10) -> sp.Budget:
    return sp.Budget(ratio=ratio, burst=burst, clock=sp.testing.FakeClock(1e6))


def expected(ratio: float, burst: float, successes: int = N) -> int:
    """floor(pN) + burst, with p the binary fraction that the option really is."""
    return math.floor(Fraction(ratio) * successes) + int(burst)


def drain(budget: Any) -> int:
    paid = 0
    while budget.withdraw():
        paid += 1
    return paid


@pytest.mark.parametrize("burst", [0, 10])
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.proves("invariant 7")
def test_n_successes_at_one_instant_allow_the_ratio_and_the_burst(
    ratio: float, burst: int, measured: Callable[[str], None]
) -> None:
    budget = frozen(ratio, burst)
    for _ in range(N):
        budget.success()
    allowed = drain(budget)
    assert abs(allowed - expected(ratio, burst)) <= 1
    measured(
        f"p = {ratio:.4g}, burst {burst}: {allowed:,} allowed, floor(pN) + burst = {expected(ratio, burst):,}"
    )


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.proves("invariant 7")
def test_spending_on_the_way_allows_the_same(ratio: float) -> None:
    """Asked after every success: what is settled a little at a time sums up to the same."""
    budget = frozen(ratio)
    paid = 0
    for _ in range(N):
        budget.success()
        paid += bool(budget.withdraw())
    paid += drain(budget)
    assert abs(paid - expected(ratio, 10)) <= 1


@pytest.mark.parametrize("ratio", RATIOS)
def test_reading_the_balance_changes_no_decision(ratio: float) -> None:
    budget = frozen(ratio)
    for _ in range(N):
        budget.success()
        assert budget.balance >= 0
    assert abs(drain(budget) - expected(ratio, 10)) <= 1


@pytest.mark.parametrize("ratio", RATIOS)
def test_retries_and_hedges_pay_from_the_same_budget(ratio: float) -> None:
    """A hedge withdraws as a retry does; the order of the two makes no difference."""
    budget = frozen(ratio)
    for _ in range(N):
        budget.success()
    hedges = retries = 0
    while True:
        paid = budget.withdraw()
        hedges += bool(paid)
        if not budget.withdraw():
            break
        retries += 1
    assert abs(hedges + retries - expected(ratio, 10)) <= 1


@pytest.mark.parametrize("ratio", [0.0001, 0.1, 0.29, 0.9999])
def test_budget_inside_a_policy_pays_the_exact_amounts(ratio: float) -> None:
    clock = sp.testing.FakeClock()
    budget = sp.Budget(ratio=ratio, burst=10, clock=clock)
    policy = retry(budget=budget, attempts=N, backoff=sp.Constant(0), clock=clock)
    decorated = policy(lambda: "ok")
    for _ in range(N):
        decorated()
    calls = 0
    error = Boom()

    def fail() -> None:
        nonlocal calls
        calls += 1
        raise error.with_traceback(None)

    with pytest.raises((sp.BudgetExhausted, Boom)):
        policy.call(fail)
    assert abs(calls - 1 - min(N - 1, expected(ratio, budget.burst))) <= 1


@given(ratio=st.floats(0.0001, 0.9999), burst=st.integers(0, 50), successes=st.integers(0, N))
@example(ratio=0.1, burst=0, successes=10)
@example(ratio=0.7, burst=0, successes=10)
@pytest.mark.proves("invariant 7")
def test_any_ratio_is_exact(ratio: float, burst: int, successes: int) -> None:
    budget = frozen(ratio, burst)
    tick = budget.success
    for _ in range(successes):
        tick()
    assert abs(drain(budget) - expected(ratio, burst, successes)) <= 1


@pytest.mark.parametrize("ratio", RATIOS)
def test_window_budget_is_exact(ratio: float) -> None:
    """Finagle's own test: 10,000 requests in frozen time, 10,000 p + the reserve, give or take one."""
    budget = sp.WindowBudget(ratio=ratio, floor=5, window=10, clock=sp.testing.FakeClock())
    for _ in range(N):
        budget.started()
    assert abs(drain(budget) - (math.floor(Fraction(ratio) * N) + 50)) <= 1


# Threads.


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads change places as often as the interpreter lets them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


THREADS, OPERATIONS = 16, 10_000


def hammer(budget: Any, cap: float) -> tuple[int, float, list[Any]]:
    """(successes, what was paid, complaints) of 16 threads x 10^4 operations."""
    successes, paid = [0] * THREADS, [0.0] * THREADS
    wrong: list[Any] = []
    barrier = threading.Barrier(THREADS)

    def worker(place: int) -> None:
        draw = random.Random(place).random
        barrier.wait(60)
        for _ in range(OPERATIONS):
            u = draw()
            if u < 0.85:
                budget.success()
                successes[place] += 1
            elif u < 0.9:
                budget.started()
            elif u < 0.93:
                budget.failure()
            elif u < 0.98:
                paid[place] += budget.withdraw()
            elif not 0 <= (balance := budget.balance) <= cap:
                wrong.append(balance)

    threads = [threading.Thread(target=worker, args=(place,)) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    return sum(successes), sum(paid), wrong


@pytest.mark.usefixtures("switching")
@pytest.mark.proves("invariant 7")
def test_budget_stays_in_bounds_and_loses_nothing_under_threads() -> None:
    budget = frozen(ratio=0.01, burst=100)
    successes, paid, wrong = hammer(budget, cap=100 + 0.01 * THREADS * OPERATIONS)
    assert wrong == []
    # Nothing earned twice, nothing lost: what was paid and what is held is what came in.
    assert paid + budget.balance == pytest.approx(100 + 0.01 * successes, abs=1e-3)


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize(
    ("budget", "cap"),
    [
        (sp.WindowBudget(ratio=0.1, floor=1, window=10), 10 + 0.1 * THREADS * OPERATIONS),
        (sp.QuotaBudget(capacity=200), 200),
        (sp.ThrottleBudget(max_tokens=100, token_ratio=0.05), 100),
        (sp.RateBudget(rate=1000, burst=50), 50),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.proves("invariant 7")
def test_other_kinds_stay_in_bounds_under_threads(budget: Any, cap: float) -> None:
    _, _, wrong = hammer(budget, cap)
    assert wrong == []
    assert 0 <= budget.balance <= cap


CONSERVED: dict[str, tuple[Callable[[], Any], Callable[[int, int], float]]] = {
    # What comes in, given the successes and the failures: nothing here ever overflows its bounds.
    "Budget": (lambda: frozen(ratio=0.25, burst=30), lambda won, lost: 30 + 0.25 * won),
    "WindowBudget": (
        lambda: sp.WindowBudget(ratio=0.25, floor=3, window=10, clock=sp.testing.FakeClock()),
        lambda won, lost: 30 + 0.25 * won,
    ),
    "QuotaBudget": (
        lambda: sp.QuotaBudget(capacity=10_000, success_credit=0),
        lambda won, lost: 10_000,
    ),
    "ThrottleBudget": (
        lambda: sp.ThrottleBudget(max_tokens=1000, token_ratio=0.001),
        lambda won, lost: 1000 - lost,
    ),
    "RateBudget": (
        lambda: sp.RateBudget(rate=0, burst=60, clock=sp.testing.FakeClock()),
        lambda won, lost: 60,
    ),
}


@pytest.mark.parametrize("kind", CONSERVED)
@pytest.mark.proves("invariant 7")
def test_thread_switch_at_any_step_loses_no_token(kind: str) -> None:
    """Every step of the budget's code hands over to another thread: without its lock, sums would break."""
    make, comes_in = CONSERVED[kind]
    budget = make()
    files = {sp.Budget.withdraw.__code__.co_filename, sp.Limiter.allow.__code__.co_filename}
    workers, rounds = 4, 12
    paid = [0.0] * workers
    barrier = threading.Barrier(workers)

    def hand_over(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        time.sleep(0)
        return hand_over

    def worker(place: int) -> None:
        barrier.wait(60)
        sys.settrace(hand_over)
        try:
            for _ in range(rounds):
                if kind != "ThrottleBudget":
                    # The order of a credit and a debit matters at its upper bound.
                    budget.success()
                budget.started()
                budget.failure()
                paid[place] += budget.withdraw()
        finally:
            sys.settrace(None)

    threads = [threading.Thread(target=worker, args=(place,)) for place in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    went_out = 0.0 if kind == "ThrottleBudget" else sum(paid)
    calls = workers * rounds
    assert went_out + budget.balance == pytest.approx(comes_in(calls, calls), abs=1e-6)


# A million operations.


def a_hundred_operations(budget: Any, draw: Callable[[], float]) -> None:
    """Most of them successes, as in life."""
    for _ in range(85):
        budget.success()
    for _ in range(5):
        budget.started()
        budget.failure(draw() < 0.5)
    for _ in range(5):
        if paid := budget.withdraw(draw() < 0.5):
            budget.success(paid)


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "cap"),
    [
        (lambda clock: sp.Budget(ratio=0.1, burst=10, window=10, clock=clock), None),
        (lambda clock: sp.WindowBudget(clock=clock), None),
        (lambda clock: sp.QuotaBudget(clock=clock), 500),
        (lambda clock: sp.ThrottleBudget(clock=clock), 10),
        (lambda clock: sp.RateBudget(clock=clock), 200),
    ],
    ids=["Budget", "WindowBudget", "QuotaBudget", "ThrottleBudget", "RateBudget"],
)
def test_million_operations_keep_the_budget_in_bounds(make: Callable[[Any], Any], cap: float | None) -> None:
    clock = sp.testing.FakeClock()
    budget, draw = make(clock), random.Random(7).random
    for _ in range(10_000):
        a_hundred_operations(budget, draw)
        clock.advance(draw() * 0.2)
        balance = budget.balance
        assert balance >= 0 and math.isfinite(balance)
        # A window of 10 s sees some 100 rounds: 90 successes or 5 starts in each.
        assert balance <= (cap if cap is not None else 100 + 300 * 90 * 0.2)
    clock.advance(100)
    budget.withdraw()
    clock.advance(100)
    # After a quiet window, what is held has not drifted: the burst, the reserve or the capacity bounds it.
    rest = {"Budget": 10, "WindowBudget": 100}.get(type(budget).__name__, cap)
    assert rest is not None
    assert 0 <= budget.balance <= rest + 1e-6
