"""Sixteen threads that are switched a million times a second, on everything that threads may share.

Counts must come out exact, bounds must hold at every moment, and no first use may happen twice.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.scripted import Boom

import stormproof as sp

pytestmark = pytest.mark.proves("fault thread-races")

THREADS = 16


@pytest.fixture(autouse=True)
def _switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def race(run, threads=THREADS):
    """``run(place)`` in each thread, all let go at once: what each returned."""
    meet = threading.Barrier(threads)
    results = [None] * threads
    failures = []

    def one(place):
        try:
            meet.wait(20)
            results[place] = run(place)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=one, args=(place,), daemon=True) for place in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert not any(worker.is_alive() for worker in workers), "deadlock"
    if failures:
        raise failures[0]
    return results


# Budgets: with a clock that stands still, what is paid is what was held and earned.


@pytest.mark.parametrize("ratio", [0.5, 0.1, 1 / 3, 1.0])
def test_budget_counts_of_many_threads_are_exact(ratio):
    clock = sp.testing.FakeClock()
    budget = sp.Budget(ratio=ratio, burst=10, clock=clock)
    rounds = 300

    def run(place):
        draw = random.Random(place)
        paid = 0
        for _ in range(rounds):
            budget.success()
            if draw.random() < 0.5:
                paid += budget.withdraw() > 0
            assert 0 <= budget.balance <= 10 + ratio * THREADS * rounds + 1e-6
        return paid

    paid = sum(race(run))
    while budget.withdraw():
        paid += 1
    assert abs(paid - (10 + int(ratio * THREADS * rounds + 1e-6))) <= 1


BOUNDED = {
    "WindowBudget": (
        lambda clock: sp.WindowBudget(0.2, floor=1, window=10, clock=clock),
        lambda calls: 10 + 0.2 * calls,
    ),
    "QuotaBudget": (
        lambda clock: sp.QuotaBudget(50, retry_cost=1, timeout_cost=1, success_credit=1, clock=clock),
        lambda calls: 50,
    ),
    "ThrottleBudget": (lambda clock: sp.ThrottleBudget(50, token_ratio=0.5, clock=clock), lambda calls: 50),
    "RateBudget": (lambda clock: sp.RateBudget(10, 50, clock=clock), lambda calls: 50),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_other_budgets_of_many_threads_stay_in_their_bounds(name):
    make, cap = BOUNDED[name]
    budget = make(sp.testing.FakeClock())
    rounds = 150

    def run(place):
        draw = random.Random(place)
        for _ in range(rounds):
            budget.started()
            if draw.random() < 0.5:
                budget.success()
            else:
                budget.failure()
                if paid := budget.withdraw():
                    budget.success(paid)
            assert 0 <= budget.balance <= cap(THREADS * rounds) + 1e-6

    race(run)


def test_quota_of_many_threads_is_conserved():
    """Nothing is earned, everything that is paid is given back: the sum must be what it was."""
    budget = sp.QuotaBudget(100, retry_cost=5, timeout_cost=5, success_credit=0)

    def run(place):
        for _ in range(300):
            if paid := budget.withdraw():
                budget.success(paid)

    race(run)
    assert budget.balance == 100


# The limiter: with a clock that stands still, exactly the burst.


@pytest.mark.parametrize("burst", [1, 7, 100])
def test_limiter_admits_exactly_its_burst(burst):
    limiter = sp.Limiter(1000, burst, clock=sp.testing.FakeClock())
    admitted = race(lambda place: sum(limiter.allow() for _ in range(50)))
    assert sum(admitted) == burst


def test_limiter_reservations_of_many_threads_are_given_back():
    limiter = sp.Limiter(10, 100, clock=sp.testing.FakeClock())

    def run(place):
        for _ in range(100):
            limiter.reserve(3).cancel()

    race(run)
    assert limiter.tokens() <= 100
    assert limiter.tokens() >= 0


# Whole calls


def test_every_call_counts_its_own_attempts():
    clock = sp.testing.FakeClock()
    budget = sp.Budget(ratio=0.1, burst=10_000, clock=clock)
    events = []
    calls = 0
    lock = threading.Lock()

    @sp.retry(
        on=Boom, attempts=3, backoff=sp.Constant(0), budget=budget, name="raced", within=None, clock=clock
    )
    def call(fails):
        nonlocal calls
        with lock:
            calls += 1
        attempt = sp.attempt()
        assert attempt.operation == "raced"
        if attempt.number <= fails:
            raise Boom(fails)
        return attempt.number

    def run(place):
        for turn in range(30):
            fails = (place + turn) % 4
            if fails < 3:
                assert call(fails) == fails + 1
            else:
                with pytest.raises(Boom) as caught:
                    call(fails)
                assert caught.value.__notes__[0].startswith("stormproof: 3 attempts")

    stop = sp.subscribe(events.append)
    race(run)
    stop()
    # Of every four calls: 1 + 2 + 3 + 3 attempts, 0 + 1 + 2 + 2 retries, 3 successes.
    fours = THREADS * 30 // 4
    assert calls == 9 * fours == len(events)
    assert budget.balance == pytest.approx(10_000 - 5 * fours + 0.1 * 3 * fours)


def test_block_may_be_shared_by_threads():
    block = sp.retrying(on=Boom, attempts=3, backoff=sp.Constant(0), budget=None)

    def run(place):
        numbers = []
        for _ in range(30):
            for attempt in block:
                with attempt:
                    numbers.append(attempt.number)
                    if attempt.number < 3:
                        raise Boom
        return numbers

    assert race(run) == [[1, 2, 3] * 30] * THREADS


def test_first_call_of_a_policy_happens_everywhere_at_once():
    for _ in range(20):
        policy = sp.retry(on=Boom)
        assert race(lambda place, policy=policy: policy.call(str, place)) == [str(n) for n in range(THREADS)]


# Names and keys: one object each, in any order of arrival.


def test_policies_of_one_name_share_one_budget():
    for turn in range(60):
        policies = race(lambda place, turn=turn: sp.retry(on=Boom, name=f"raced {turn}"))
        budgets = {id(policy.strategies[0].budget) for policy in policies}
        assert len(budgets) == 1, f"{len(budgets)} budgets for one name"


def test_keyed_makes_one_object_for_each_key():
    for _ in range(30):
        budgets = sp.keyed(sp.Budget())
        seen = race(lambda place, budgets=budgets: [budgets[key] for key in range(8)])
        for column in zip(*seen, strict=True):
            assert len({id(budget) for budget in column}) == 1


def test_keyed_never_holds_more_than_its_limit():
    budgets = sp.keyed(sp.Budget(), limit=5)

    def run(place):
        draw = random.Random(place)
        for _ in range(200):
            budgets[draw.randrange(20)]
            assert len(budgets) <= 5

    race(run)


# Subscribing


def test_subscribers_joining_and_leaving_lose_no_event_of_others():
    kept = []
    stop_kept = sp.subscribe(kept.append)
    policy = sp.retry(on=Boom)

    def run(place):
        for _ in range(50):
            seen = []
            stop = sp.subscribe(seen.append)
            policy.call(int)
            stop()
            assert seen, "no event while subscribed"
            seen_before = len(seen)
            policy.call(int)
            stop()
            # A publication that was under way at stop() may still arrive; a later one may not.
            assert len(seen) <= seen_before + THREADS

    race(run)
    stop_kept()
    assert len(kept) == THREADS * 100


def test_subscription_ended_by_many_threads_ends_once():
    for _ in range(60):
        seen = []
        stop, other = sp.subscribe(seen.append), sp.subscribe(seen.append)
        race(lambda place, stop=stop: stop())
        sp.retry(on=Boom).call(int)
        other()
        assert len(seen) == 1, "the other subscription of the same callback went with it"


# Cancelling


def test_scope_cancelled_during_its_end_raises_only_the_failure_or_cancelled():
    def run(place):
        for _ in range(30):
            with sp.deadline(None) as scope:
                canceller = threading.Thread(target=scope.cancel)
                canceller.start()
                try:
                    sp.retry(on=Boom, backoff=sp.Constant(0), attempts=3, budget=None).call(_boom)
                except (Boom, sp.Cancelled):
                    pass
            canceller.join()
            assert sp.remaining() is None

    race(run, threads=4)


def test_all_sleepers_of_a_cancelled_scope_wake_up():
    with sp.deadline(None) as scope, ThreadPoolExecutor(THREADS) as pool:
        sleeping = threading.Semaphore(0)

        class Backoff(sp.Constant):
            def delay(self, n, prev, u):
                sleeping.release()
                return super().delay(n, prev, u)

        policy = sp.retry(on=Boom, backoff=Backoff(20), budget=None)
        futures = [sp.carry(pool).submit(policy.call, _boom) for _ in range(THREADS)]
        for _ in range(THREADS):
            assert sleeping.acquire(timeout=10)
        scope.cancel()
        for future in futures:
            assert isinstance(future.exception(timeout=5), sp.Cancelled)


def _boom():
    raise Boom


# Carrying the context into a pool


def test_carry_keeps_the_order_and_takes_any_iterable():
    with ThreadPoolExecutor(4) as pool, sp.deadline(60):
        carried = sp.carry(pool)
        lists = list(carried.map(lambda a, b: (a, b, sp.remaining() is not None), range(50), range(50)))
        assert lists == [(n, n, True) for n in range(50)]
        once = list(carried.map(lambda a: (a, sp.remaining() is not None), iter(range(5))))
        assert once == [(n, True) for n in range(5)]


# The very first use of the package

FIRST_USE = """
import sys, threading
sys.path.insert(0, sys.argv[1])
sys.setswitchinterval(1e-6)
import stormproof as sp
meet = threading.Barrier(16)
seen, failures = [], []

def run(place):
    try:
        meet.wait(20)
        policy = sp.retry(on=(OSError, sp.StormproofError), backoff=sp.Constant(0))
        try:
            policy.call(open, "/nonexistent")
        except OSError:
            pass
        seen.append((sp.Budget, sp.Retry, sp.Policy, sp.transient, sp.events.Retrying))
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=run, args=(place,)) for place in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failures, failures
assert len({tuple(map(id, row)) for row in seen}) == 1, "two copies of a class"
"""


def test_first_use_in_many_threads_at_once_works():
    source = str(Path(sp.__file__).parents[1])
    for _ in range(3):
        subprocess.run([sys.executable, "-c", FIRST_USE, source], check=True, timeout=30)
