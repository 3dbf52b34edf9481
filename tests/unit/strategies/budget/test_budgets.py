"""Budgets: what each kind earns, what it charges, when it refuses.

Exact sums and heavy use are in ``tests/properties/test_budget_exact.py``, random histories in
``tests/properties/test_budget_machine.py``.
"""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted import SYNC, Bang, Boom, every_way, retry

import stormproof as sp


@pytest.fixture
def clock() -> sp.testing.FakeClock:
    return sp.testing.FakeClock(1_000_000.0)


KINDS = [sp.Budget, sp.WindowBudget, sp.QuotaBudget, sp.ThrottleBudget, sp.RateBudget]
each_kind = pytest.mark.parametrize("kind", KINDS)


def drain(budget: Any, most: int = 10_000) -> int:
    """Return how many retries it pays for now."""
    paid = 0
    while paid < most and budget.withdraw():
        paid += 1
    return paid


def succeed(budget: Any, times: int) -> None:
    for _ in range(times):
        budget.started()
        budget.success()


# Every kind.


@each_kind
def test_new_budget_pays_at_least_one_retry(kind: Any, clock: sp.testing.FakeClock) -> None:
    assert kind(clock=clock).withdraw() > 0


@each_kind
def test_first_attempts_never_wait(kind: Any, clock: sp.testing.FakeClock) -> None:
    """With any balance, the first call of every caller goes through."""
    budget = kind(clock=clock)
    for _ in range(1000):
        budget.failure()
    drain(budget)
    policy = retry(budget=budget, clock=clock)
    for _ in range(20):
        assert policy.call(lambda: "ok") == "ok"
    assert clock.sleeps == []


@each_kind
def test_empty_budget_withdraws_zero(kind: Any, clock: sp.testing.FakeClock) -> None:
    budget = kind(clock=clock)
    for _ in range(1000):
        budget.failure()
    drain(budget)
    refused = budget.withdraw()
    assert refused == 0.0
    assert isinstance(refused, float)


@each_kind
def test_refusal_changes_nothing(kind: Any, clock: sp.testing.FakeClock) -> None:
    budget = kind(clock=clock)
    for _ in range(1000):
        budget.failure()
    drain(budget)
    before = budget.balance
    for _ in range(10):
        assert not budget.withdraw()
    assert budget.balance == before


@each_kind
def test_reading_the_balance_changes_nothing(kind: Any, clock: sp.testing.FakeClock) -> None:
    watched, unwatched = kind(clock=clock), kind(clock=clock)
    for budget in (watched, unwatched):
        drain(budget, 3)
    succeed(unwatched, 7)
    for _ in range(7):
        succeed(watched, 1)
        assert watched.balance == watched.balance
    assert watched.balance == pytest.approx(unwatched.balance)


@each_kind
def test_budgets_are_shared_by_object_and_not_by_options(kind: Any, clock: sp.testing.FakeClock) -> None:
    first, second = kind(clock=clock), kind(clock=clock)
    assert first != second
    assert len({first, second, first}) == 2
    for _ in range(1000):
        first.failure()
    drain(first)
    assert not first.withdraw()
    assert second.withdraw()


@each_kind
def test_pickling_carries_the_options_not_the_tokens(kind: Any, clock: sp.testing.FakeClock) -> None:
    budget = kind()
    before = budget.describe()
    drain(budget, 3)
    copied = pickle.loads(pickle.dumps(budget))
    assert repr(copied) == repr(budget)
    assert copied.describe() == before


@each_kind
def test_repr_of_a_budget_rebuilds_the_budget(kind: Any) -> None:
    budget = kind()
    assert repr(eval(repr(budget), {name: getattr(sp, name) for name in sp.__all__})) == repr(budget)


@each_kind
def test_clock_set_back_or_forward_keeps_the_balance_in_bounds(
    kind: Any, clock: sp.testing.FakeClock
) -> None:
    """An hour back, ten years on: no windfall, no refusal for ever."""
    budget = kind(clock=clock)
    full = budget.balance
    earned = 0.0
    for jump in (-3600, 315_360_000, -315_360_000, 3600, -1e-9):
        drain(budget, 2)
        clock.advance(jump)
        if jump > 0:
            # Every window is long past.
            earned = 0.0
        assert 0 <= budget.balance <= full + earned
        succeed(budget, 100)
        earned += 100 * 0.2
        assert budget.withdraw()


@each_kind
def test_budget_pays_for_a_call_whose_start_was_not_reported(kind: Any, clock: sp.testing.FakeClock) -> None:
    budget = kind(clock=clock)
    budget.success()
    budget.failure(timeout=True)
    assert budget.withdraw(timeout=True) > 0


@each_kind
def test_budget_paid_by_a_policy_equals_one_paid_by_hand(kind: Any) -> None:
    clock = sp.testing.FakeClock()
    by_policy, by_hand = kind(clock=clock), kind(clock=clock)
    policy = retry(budget=by_policy, backoff=sp.Constant(0), clock=clock)
    SYNC(policy, Boom, Boom, "ok").returned("ok")
    by_hand.started()
    spent = None
    for _ in range(2):
        by_hand.failure()
        spent = by_hand.withdraw()
    by_hand.success(spent)
    assert by_policy.balance == pytest.approx(by_hand.balance)


# The default: earned by success.


def test_budget_defaults_are_the_documented_ones() -> None:
    budget = sp.Budget()
    assert (budget.ratio, budget.burst, budget.window) == (0.1, 3, 10.0)
    assert budget.balance == 3


def test_budget_starts_with_the_burst(clock: sp.testing.FakeClock) -> None:
    assert drain(sp.Budget(burst=7, clock=clock)) == 7
    assert drain(sp.Budget(burst=0, clock=clock)) == 0


def test_success_earns_the_ratio(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(ratio=0.25, burst=0, clock=clock)
    succeed(budget, 3)
    assert budget.balance == 0.75
    assert not budget.withdraw()
    succeed(budget, 1)
    assert budget.withdraw() == 1
    assert budget.balance == 0


def test_ten_successes_at_ratio_0_1_pay_one_retry(clock: sp.testing.FakeClock) -> None:
    """As a sum of binary fractions they fall just short."""
    budget = sp.Budget(ratio=0.1, burst=0, clock=clock)
    for _ in range(10):
        succeed(budget, 1)
        assert budget.balance <= 1
    assert budget.withdraw() == 1
    assert not budget.withdraw()


def test_time_alone_refills_nothing(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(burst=3, clock=clock)
    assert drain(budget) == 3
    for _ in range(10):
        clock.advance(1000)
        assert not budget.withdraw()


def test_outage_earns_nothing(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(burst=3, clock=clock)
    drain(budget)
    for _ in range(1000):
        budget.started()
        budget.failure()
        budget.failure(timeout=True)
        clock.advance(0.01)
    assert not budget.withdraw()


def test_budget_holds_at_most_the_burst_and_the_earnings_of_the_window(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(ratio=0.5, burst=4, window=10, clock=clock)
    succeed(budget, 100)
    assert budget.withdraw() == 1
    assert budget.balance == 53
    clock.advance(5)
    assert budget.balance == 53
    clock.advance(5.001)
    # What was earned has left the window; what remains is the burst.
    assert budget.balance == 4


def test_earnings_that_left_the_window_do_not_come_back(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(ratio=1, burst=0, window=10, clock=clock)
    succeed(budget, 10)
    assert budget.withdraw() == 1
    assert budget.balance == 9
    clock.advance(11)
    assert budget.balance == 0
    succeed(budget, 2)
    assert budget.balance <= 2


def test_steady_traffic_pays_for_the_ratio_in_the_long_run(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(ratio=0.1, burst=0, window=10, clock=clock)
    paid = 0
    for _ in range(10_000):
        succeed(budget, 1)
        clock.advance(0.01)
        paid += bool(budget.withdraw())
    assert paid == pytest.approx(1000, abs=2)


def test_successes_counted_between_readings_are_spread_over_the_time(clock: sp.testing.FakeClock) -> None:
    """The success path reads no clock: of 1,000 in 100 s, the window's tenth counts."""
    budget = sp.Budget(ratio=0.1, burst=0, window=10, clock=clock)
    for _ in range(1000):
        succeed(budget, 1)
        clock.advance(0.1)
    assert budget.balance == pytest.approx(10, rel=0.01)


def test_ratio_of_zero_leaves_the_burst_for_good(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(ratio=0, burst=2, clock=clock)
    succeed(budget, 1000)
    assert drain(budget) == 2
    succeed(budget, 1000)
    assert drain(budget) == 0


def test_ratio_above_one_is_legal(clock: sp.testing.FakeClock) -> None:
    budget = sp.Budget(ratio=2.5, burst=0, clock=clock)
    succeed(budget, 2)
    assert drain(budget) == 5


# Finagle's.


def test_window_budget_defaults_are_the_documented_ones() -> None:
    budget = sp.WindowBudget()
    assert (budget.ratio, budget.floor, budget.window) == (0.2, 10.0, 10.0)


def test_window_budget_allows_the_floor_and_a_share_of_calls(clock: sp.testing.FakeClock) -> None:
    budget = sp.WindowBudget(ratio=0.2, floor=1, window=10, clock=clock)
    for _ in range(100):
        budget.started()
    # ratio * calls + floor * window = 20 + 10.
    assert drain(budget) == 30


def test_window_budget_is_earned_at_the_start_of_a_call(clock: sp.testing.FakeClock) -> None:
    budget = sp.WindowBudget(ratio=1, floor=0, clock=clock)
    budget.success()
    assert not budget.withdraw()
    budget.started()
    assert budget.withdraw() == 1


@every_way
def test_window_budget_is_earned_through_a_policy_once_a_call(play: Any) -> None:
    for script in (["ok"], [Bang], [Boom, "ok"]):
        budget = sp.WindowBudget(ratio=2, floor=0)
        play(retry(budget=budget), *script)
        with sp.testing.instant():
            assert budget.balance == 2 - (len(script) - 1)


def test_window_budget_forgets_calls_and_retries_outside_the_window(clock: sp.testing.FakeClock) -> None:
    budget = sp.WindowBudget(ratio=0.5, floor=1, window=10, clock=clock)
    for _ in range(20):
        budget.started()
    assert drain(budget) == 20
    clock.advance(10.001)
    # Neither the calls nor the retries of then count; the floor does.
    assert drain(budget) == 10


def test_window_budget_keeps_paying_through_an_outage(clock: sp.testing.FakeClock) -> None:
    """Its known weakness, and why it is not the default."""
    budget = sp.WindowBudget(ratio=0, floor=1, window=10, clock=clock)
    paid = 0
    for _ in range(1000):
        clock.advance(0.1)
        paid += drain(budget)
    assert paid == pytest.approx(100, abs=15)


# AWS's.


def test_quota_budget_defaults_are_the_documented_ones() -> None:
    budget = sp.QuotaBudget()
    assert (budget.capacity, budget.retry_cost, budget.timeout_cost) == (500, 5, 10)
    assert budget.success_credit == 1


def test_quota_budget_charges_by_kind() -> None:
    budget = sp.QuotaBudget()
    assert budget.withdraw() == 5
    assert budget.balance == 495
    assert budget.withdraw(timeout=True) == 10
    assert budget.balance == 485


def test_quota_budget_pays_a_hundred_retries_or_fifty_timeouts() -> None:
    assert drain(sp.QuotaBudget()) == 100
    budget = sp.QuotaBudget()
    paid = 0
    while budget.withdraw(timeout=True):
        paid += 1
    assert paid == 50


def test_quota_budget_refuses_a_cost_above_its_balance() -> None:
    budget = sp.QuotaBudget(capacity=7)
    assert budget.withdraw(timeout=True) == 0
    assert budget.withdraw() == 5
    assert budget.withdraw() == 0
    assert budget.balance == 2


def test_quota_budget_refunds_the_last_cost_only() -> None:
    budget = sp.QuotaBudget()
    budget.withdraw()
    budget.withdraw(timeout=True)
    budget.success(10)
    assert budget.balance == 495


def test_quota_budget_credits_a_first_try_success_up_to_the_capacity() -> None:
    budget = sp.QuotaBudget()
    budget.withdraw()
    for _ in range(3):
        budget.success()
    assert budget.balance == 498
    for _ in range(10):
        budget.success()
    assert budget.balance == 500
    budget.success(10)
    assert budget.balance == 500


@every_way
def test_quota_budget_is_charged_and_refunded_by_a_policy(play: Any) -> None:
    budget = sp.QuotaBudget()
    play(retry(on=(Boom, TimeoutError), budget=budget), TimeoutError, Boom, "ok").returned("ok")
    # 10 for the timeout, 5 for the other; the 5 of the last retry come back.
    assert budget.balance == 490
    play(retry(budget=budget), "ok")
    assert budget.balance == 491
    play(retry(budget=budget, attempts=2), Boom, ...).raised_the_last_error()
    assert budget.balance == 486


@every_way
def test_quota_budget_of_v2_1_charges_14_and_5(play: Any) -> None:
    """14 for a retry, 5 after throttling."""
    budget = sp.QuotaBudget(retry_cost=14, timeout_cost=14, throttle_cost=5)
    kinds = iter(["throttle", "transient"])
    policy = retry(on=lambda error: sp.Verdict(True, kind=next(kinds)), budget=budget)
    play(policy, Boom, Boom, "ok").returned("ok")
    assert budget.balance == 500 - 5 - 14 + 14


# gRPC's.


def test_throttle_budget_defaults_are_the_documented_ones() -> None:
    budget = sp.ThrottleBudget()
    assert (budget.max_tokens, budget.token_ratio) == (10, 0.1)
    assert budget.balance == 10


def test_throttle_budget_refuses_at_half_and_below() -> None:
    budget = sp.ThrottleBudget(max_tokens=10)
    for tokens in (9, 8, 7, 6):
        budget.failure()
        assert budget.balance == tokens
        assert budget.withdraw()
    budget.failure()
    assert budget.balance == 5
    assert not budget.withdraw()


def test_throttle_budget_is_paid_by_the_failure_not_by_the_retry() -> None:
    budget = sp.ThrottleBudget()
    for _ in range(100):
        assert budget.withdraw()
    assert budget.balance == 10


def test_throttle_budget_stays_between_nought_and_its_maximum() -> None:
    budget = sp.ThrottleBudget(max_tokens=3, token_ratio=0.5)
    for _ in range(20):
        budget.failure()
    assert budget.balance == 0
    for _ in range(3):
        budget.success()
    assert budget.balance == 1.5
    for _ in range(20):
        budget.success()
    assert budget.balance == 3


def test_throttle_budget_counts_the_ratio_in_thousandths() -> None:
    budget = sp.ThrottleBudget(max_tokens=10, token_ratio=0.29)
    for _ in range(10):
        budget.failure()
    for _ in range(100):
        budget.success()
    assert budget.balance == 10
    budget = sp.ThrottleBudget(max_tokens=10, token_ratio=1.001)
    for _ in range(10):
        budget.failure()
    budget.success()
    # 1.001 * 1000 is 1000.9999999999999; A6 keeps three decimals exactly.
    assert budget.balance == 1.001
    budget = sp.ThrottleBudget(max_tokens=10, token_ratio=0.1239)
    for _ in range(10):
        budget.failure()
    budget.success()
    assert budget.balance == 0.123


def test_throttle_budget_refuses_at_half_of_an_odd_maximum() -> None:
    budget = sp.ThrottleBudget(max_tokens=5)
    budget.failure()
    budget.failure()
    # 3 > 2.5
    assert budget.withdraw()
    budget.failure()
    assert not budget.withdraw()


@every_way
def test_throttle_budget_counts_a_failure_even_on_the_last_attempt(play: Any) -> None:
    budget = sp.ThrottleBudget(max_tokens=100)
    play(retry(budget=budget, attempts=3), Boom, ...).made(3)
    assert budget.balance == 97
    play(retry(budget=budget), Bang)
    assert budget.balance == 97
    play(retry(budget=budget, on=lambda error: sp.Verdict(False, kind="pushback")), Boom)
    assert budget.balance == 96


@every_way
def test_throttle_budget_decrements_first_then_tests(play: Any) -> None:
    """At 6 of 10 a failure leaves 5, which is half: refused."""
    budget = sp.ThrottleBudget(max_tokens=10)
    for _ in range(4):
        budget.failure()
    play(retry(budget=budget), Boom, "never").stopped_for("budget").made(1)


# A token bucket.


def test_rate_budget_refills_with_time(clock: sp.testing.FakeClock) -> None:
    budget = sp.RateBudget(rate=2, burst=3, clock=clock)
    assert drain(budget) == 3
    clock.advance(0.5)
    assert drain(budget) == 1
    clock.advance(100)
    assert drain(budget) == 3


def test_rate_budget_of_rate_zero_gives_the_burst_once(clock: sp.testing.FakeClock) -> None:
    budget = sp.RateBudget(rate=0, burst=3, clock=clock)
    assert drain(budget) == 3
    clock.advance(1e9)
    assert drain(budget) == 0


def test_rate_budget_without_a_limit_always_pays(clock: sp.testing.FakeClock) -> None:
    assert drain(sp.RateBudget(rate=float("inf"), burst=0, clock=clock), most=100) == 100


def test_rate_budget_has_no_sustained_share() -> None:
    """It refills by time: a service with few calls may retry each of them any number of times."""
    assert sp.RateBudget(rate=10, burst=1).sustained == math.inf
    assert sp.Budget(ratio=0.2).sustained == 0.2


@every_way
def test_waiting_rate_budget_of_rate_zero_refuses(play: Any) -> None:
    """Waiting for a token that never comes is useless."""
    play(retry(budget=sp.RateBudget(rate=0, burst=0, wait=True)), Boom).stopped_for("budget").made(1).slept()


@every_way
def test_waiting_rate_budget_waits_within_the_rest_of_within(play: Any) -> None:
    """A token every two seconds, and three to spend: the second wait for one would end after four."""
    budget = sp.RateBudget(rate=0.5, burst=1, wait=True)
    policy = retry(budget=budget, backoff=sp.Constant(0), within=3, attempts=10)
    play(policy, *[Boom] * 10).stopped_for("budget").made(3)


# Total outage.


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.proves("invariant 8")
def test_outage_adds_at_most_the_balance_at_its_start(processes: int) -> None:
    """Invariant 8: load on the server <= offered + burst + ratio * the window's successes, per process."""
    clock = sp.testing.FakeClock()
    ratio, burst, window, rate = 0.1, 10, 10, 10
    budgets = [sp.Budget(ratio, burst=burst, window=window, clock=clock) for _ in range(processes)]
    policies = [retry(budget=budget, backoff=sp.Constant(0), clock=clock) for budget in budgets]
    load, down = 0, False

    def backend() -> None:
        nonlocal load
        load += 1
        if down:
            raise Boom

    def offer(seconds: float) -> int:
        calls = 0
        for _ in range(int(seconds * rate)):
            for policy in policies:
                calls += 1
                try:
                    policy.call(backend)
                except (Boom, sp.BudgetExhausted):
                    pass
            clock.advance(1 / rate)
        return calls

    offered = offer(30)
    assert load == offered
    load, down = 0, True
    offered = offer(60)
    held = burst + ratio * window * rate
    assert offered < load <= offered + processes * (held + 1)
    load = 0
    offered = offer(60)
    assert load == offered, "it must have ended by itself"
    down = False
    offer(20)
    assert all(budget.balance >= 1 for budget in budgets)


# One per key.


def test_keyed_gives_each_key_its_own_budget(clock: sp.testing.FakeClock) -> None:
    budgets = sp.keyed(sp.Budget(burst=2, clock=clock))
    assert budgets["a"] is budgets["a"]
    assert budgets["a"] is not budgets["b"]
    assert drain(budgets["a"]) == 2
    assert drain(budgets["b"]) == 2
    assert len(budgets) == 2


def test_keyed_forgets_the_least_recently_used(clock: sp.testing.FakeClock) -> None:
    budgets = sp.keyed(sp.Budget(clock=clock), limit=3)
    first = {key: budgets[key] for key in "abc"}
    assert budgets["a"] is first["a"]
    budgets["d"]
    assert len(budgets) == 3
    assert set(budgets) == {"a", "c", "d"}
    assert budgets["b"] is not first["b"]


def test_keyed_is_bounded_under_many_keys(clock: sp.testing.FakeClock) -> None:
    budgets = sp.keyed(sp.Budget(clock=clock), limit=50)
    for number in range(10_000):
        budgets[f"host-{number}"]
    assert len(budgets) == 50


def test_keyed_makes_one_object_per_key_for_many_threads(clock: sp.testing.FakeClock) -> None:
    budgets = sp.keyed(sp.Budget(clock=clock))
    barrier, found = threading.Barrier(8), []

    def worker() -> None:
        barrier.wait(30)
        found.extend([budgets[number] for number in range(50)])

    threads = [threading.Thread(target=worker) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 400
    assert len(set(found)) == 50


def test_keyed_budgets_are_picked_by_the_arguments_of_the_call() -> None:
    budgets = sp.keyed(sp.Budget(burst=1), key=lambda host, path="/": host)
    failing: set[str] = {"a", "b"}
    clock = sp.testing.FakeClock()

    @sp.retry(on=Boom, budget=budgets, backoff=sp.Constant(0), attempts=10, clock=clock)
    def get(host: str, path: str = "/") -> str:
        if host in failing:
            raise Boom
        return host

    for host in ("a", "b"):
        with pytest.raises(Boom):
            get(host, path="/x")
    assert get("c") == "c"
    assert set(budgets) == {"a", "b", "c"}
    assert budgets["a"].balance == budgets["b"].balance == 0
    assert budgets["c"].balance == pytest.approx(1.1)


def test_keyed_needs_to_know_the_key_of_a_call() -> None:
    @sp.retry(on=Boom, budget=sp.keyed(sp.Budget()))
    def get(host: str) -> str:
        return host

    with pytest.raises(TypeError, match="key"):
        get("a")


def test_keyed_takes_a_factory() -> None:
    made: list[str] = []

    def factory() -> sp.Budget:
        made.append("budget")
        return sp.Budget(burst=3)

    budgets = sp.keyed(factory)
    assert budgets["a"].balance == 3
    assert budgets["a"] is budgets["a"]
    assert made == ["budget"]


# Forking.


FORKED = """
    import os, signal, sys, threading
    sys.path.insert(0, {source!r})
    import stormproof as sp

    budgets = [sp.Budget(), sp.WindowBudget(), sp.QuotaBudget(), sp.ThrottleBudget(), sp.RateBudget()]
    stop = threading.Event()

    def hammer():
        while not stop.is_set():
            for budget in budgets:
                budget.balance

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    ended = []
    for _ in range(20):
        # A lock that another thread holds at this moment stays locked in the child for ever.
        child = os.fork()
        if child == 0:
            # Stuck, it must not outlive the test.
            signal.alarm(60)
            for budget in budgets:
                budget.withdraw()
            os._exit(0)
        ended.append(os.waitpid(child, 0)[1])
    stop.set()
    for thread in threads:
        thread.join()
    print(ended)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other platform: no fork")
def test_forked_child_finds_no_lock_held() -> None:
    code = textwrap.dedent(FORKED.format(source=str(Path(sp.__file__).parents[1])))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"{[0] * 20}\n"
