"""The arithmetic of leases, in virtual time and without a store: what is held, owed, asked for and lent."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormproof._strategies.limiter.rules import leases
from stormproof._strategies.limiter.rules.leases import Demand, LeaseBucket, Purse


class Pool:
    """The store's part of the bargain, written down a second time: a bucket that lends a little."""

    def __init__(self, rate: float, burst: int, instances: int) -> None:
        self.rate, self.burst, self.instances = rate, burst, instances
        self.level, self.last = float(burst), 0.0

    def exchange(self, owed: int, wanted: int, now: float) -> tuple[int, float, float]:
        self.level = min(self.burst, self.level + (now - self.last) * self.rate)
        self.last = now
        before = self.level
        self.level -= owed
        granted = wanted
        if wanted > 0:
            free = self.level + self.rate * leases.horizon_s(self.instances)
            if self.instances > 1:
                free = min(free, max(1.0, free / 2))
            granted = max(0, math.floor(min(wanted, free)))
        self.level = min(self.burst, self.level - granted)
        return granted, before, self.level


def visit(bucket: LeaseBucket, pool: Pool, now: float) -> int:
    owed, wanted = bucket.ask(now)
    granted, before, after = pool.exchange(owed, wanted, now)
    bucket.take(owed, granted, before, after, pool.instances, now)
    return owed + granted


def lease(rate: float = 100.0, burst: int = 20, instances: int = 2, credit: int = 1) -> LeaseBucket:
    return LeaseBucket(rate, burst, instances, credit, 0.0)


# Credit.


@given(st.floats(0, 1e9), st.integers(1, 1000))
def test_credit_of_all_instances_is_within_half_the_level(level: float, instances: int) -> None:
    credit = leases.credit_of(level, instances)
    assert credit * instances <= max(level / 2, instances)
    assert (credit > 0) == (level >= 1)


def test_credit_is_spent_at_once_and_owed() -> None:
    bucket = lease(credit=2)
    assert [bucket.reserve(1, 0.0, 0.0).ok for _ in range(3)] == [True, True, False]
    assert bucket.held(0.0) == -2
    assert bucket.ask(0.01)[0] == 2


def test_debt_is_charged_once() -> None:
    bucket, pool = lease(credit=2), Pool(100, 20, 2)
    bucket.reserve(1, 0.0, 0.0)
    bucket.reserve(1, 0.0, 0.0)
    assert visit(bucket, pool, 0.001) >= 2
    held = bucket.held(0.001)
    assert pool.level == pytest.approx(20 - 2 - held)
    assert bucket.ask(0.002)[0] == 0


# Demand.


def test_demand_rises_at_once_and_falls_by_halves() -> None:
    demand = Demand(0.0)
    demand.measure(50, 0.5)
    assert demand.rate == 100
    demand.measure(0, 1.0)
    assert demand.rate == 50
    for step in range(40):
        demand.measure(0, 1.5 + step)
    assert demand.rate == 0
    assert demand.target(1, 1000) == 0


def test_demand_over_a_few_milliseconds_is_bounded() -> None:
    demand = Demand(0.0)
    demand.measure(1, 1e-6)
    assert demand.rate == 1 / leases.EAGER_S


@given(st.floats(0.01, 1e6), st.integers(1, 2000), st.floats(0, 1e6))
def test_target_covers_the_horizon_and_keeps_the_limit(rate: float, instances: int, most: float) -> None:
    demand = Demand(0.0)
    demand.rate = rate
    target = demand.target(instances, most)
    assert target <= max(most, 0)
    if most >= rate * leases.horizon_s(instances) + 2:
        assert target >= rate * leases.horizon_s(instances)


@given(st.integers(1, 100_000))
def test_all_instances_make_at_most_2000_exchanges_a_second(instances: int) -> None:
    assert instances / leases.period_s(instances) <= 2000 + 1e-6


def test_refused_instance_waits_before_its_next_visit() -> None:
    demand = Demand(0.0)
    demand.measure(100, 1.0)
    due, earliest = leases.next_visit(5.0, demand, 8, True, 0.0)
    assert due == earliest >= 5.0 + leases.EAGER_S
    # A token a minute is not asked for fifty times a second, but within a second all the same.
    assert leases.next_visit(5.0, demand, 8, True, 60.0) == (6.0, 6.0)


def test_idle_instance_visits_rarely_and_then_not_at_all() -> None:
    demand = Demand(0.0)
    assert leases.next_visit(0.5, demand, 8, False, 0.0)[0] == 0.5 + leases.HOT_S
    assert leases.next_visit(1.0, demand, 8, False, 0.0)[0] == 1.0 + leases.WARM_S
    assert leases.next_visit(1.0 + leases.COLD_AFTER_S, demand, 8, False, 0.0)[0] == math.inf


# What is lent matures.


def test_lent_tokens_are_not_usable_before_their_time() -> None:
    bucket, pool = lease(rate=100, burst=1, instances=1, credit=1), Pool(100, 1, 1)
    bucket.reserve(1, 0.0, 0.0)
    bucket.missed = 50
    visit(bucket, pool, 0.0)
    assert bucket.held(0.0) >= 5
    assert bucket.usable(0.0) < 1
    # No process may use more than the fleet's rate would have brought by then.
    for step in range(1, 20):
        now = step * 0.01
        assert bucket.tokens(now) <= 100 * now + 1e-9


def test_real_tokens_are_usable_at_once() -> None:
    bucket, pool = lease(rate=100, burst=20, instances=1), Pool(100, 20, 1)
    bucket.missed = 10
    visit(bucket, pool, 0.0)
    assert bucket.tokens(0.0) >= 10
    assert bucket.rate == 0


def test_time_set_back_refills_nothing() -> None:
    bucket, pool = lease(rate=100, burst=1, instances=1), Pool(100, 1, 1)
    bucket.reserve(1, 10.0, 0.0)
    bucket.missed = 50
    visit(bucket, pool, 10.0)
    bucket.reserve(0, 10.05, 0.0)
    before = bucket.tokens(10.05)
    bucket.reserve(0, 3.0, 0.0)
    assert bucket.tokens(3.0) == pytest.approx(before)
    assert bucket.tokens(3.01) <= before + 1.01 * 100 * 0.01


# Waiting.


def test_reservation_is_never_later_than_promised() -> None:
    bucket = lease(rate=100, instances=2, credit=0)
    grant = bucket.reserve(1, 0.0, None)
    assert grant.ok and grant.delay(0.0) == pytest.approx(1 / 50)
    # The store has nothing, and the share shrinks to a tenth: the promise stands.
    bucket.take(1, 0, -1000.0, -1001.0, 20, 0.005)
    assert grant.delay(0.005) > 0
    assert grant.delay(0.02 + 2 * leases.PERIOD_S + 1e-9) == 0


def test_reservation_comes_sooner_when_the_store_has_tokens() -> None:
    bucket, pool = lease(rate=100, burst=20, instances=8, credit=0), Pool(100, 20, 8)
    grants = [bucket.reserve(1, 0.0, None) for _ in range(10)]
    assert grants[-1].delay(0.0) == pytest.approx(10 / 12.5)
    visit(bucket, pool, 0.002)
    assert [grant.delay(0.002) for grant in grants] == [0.0] * 10


def test_waiters_are_served_in_order() -> None:
    bucket = lease(rate=100, instances=1, credit=0)
    grants = [bucket.reserve(1, 0.0, None) for _ in range(5)]
    delays = [grant.delay(0.0) for grant in grants]
    assert delays == sorted(delays) and len(set(delays)) == 5


def test_cancelled_reservation_at_the_end_of_the_line_comes_back() -> None:
    bucket = lease(rate=100, instances=1, credit=0)
    first, last = bucket.reserve(2, 0.0, None), bucket.reserve(3, 0.0, None)
    bucket.cancel(last, 0.001)
    bucket.cancel(last, 0.001)
    assert bucket.held(0.001) == -2
    assert first.delay(0.001) == pytest.approx(0.02)


def test_refusal_takes_nothing_and_is_counted() -> None:
    bucket = lease(rate=100, burst=5, instances=1, credit=0)
    assert not bucket.reserve(1, 0.0, 0.001).ok
    assert not bucket.reserve(6, 0.0, None).ok
    assert bucket.held(0.0) == 0
    assert bucket.missed == 7


def test_refused_demand_is_asked_for_at_once() -> None:
    bucket, pool = lease(rate=1, burst=100, instances=1, credit=1), Pool(1, 100, 1)
    assert not bucket.reserve(100, 0.0, 0.0).ok
    visit(bucket, pool, 0.01)
    assert bucket.reserve(100, 0.02, 0.0).ok
    # Served: nothing of that size is kept for the next.
    visit(bucket, pool, 0.03)
    assert bucket.held(0.03) <= leases.horizon_s(1) * 100 / 0.02 and pool.level >= -1


def test_refused_demand_is_remembered_for_a_second() -> None:
    bucket, pool = lease(rate=1, burst=100, instances=1, credit=1), Pool(1, 100, 1)
    assert not bucket.reserve(90, 0.0, 0.0).ok
    for step in range(1, 19):
        visit(bucket, pool, step * 0.05)
        assert bucket.held(step * 0.05) >= 90
    for step in range(20, 60):
        visit(bucket, pool, step * 0.05)
    assert bucket.held(3.0) == 0


def test_lease_never_asks_for_more_than_the_burst() -> None:
    bucket = lease(rate=1, burst=10, instances=1, credit=1)
    assert not bucket.reserve(11, 0.0, 0.0).ok
    assert bucket.ask(0.01)[1] <= bucket.most()


def test_lease_with_rate_zero_grants_no_reservation() -> None:
    bucket = lease(rate=0, burst=5, instances=1, credit=0)
    grant = bucket.reserve(1, 0.0, None)
    assert not grant.ok and grant.delay(0.0) == math.inf


# The books.

steps = st.lists(
    st.tuples(
        st.sampled_from(["spend", "wait", "cancel", "visit", "charge"]),
        st.integers(0, 5),
        st.floats(0, 0.3),
    ),
    max_size=60,
)


@given(steps, st.integers(1, 20), st.sampled_from([1.0, 50.0, 1000.0]), st.integers(1, 50))
def test_every_token_is_accounted_for(steps: Any, instances: int, rate: float, burst: int) -> None:
    """Charged by the store = spent + held, whatever happens in between; what is owed is a whole number."""
    bucket, pool = LeaseBucket(rate, burst, instances, 1, 0.0), Pool(rate, burst, instances)
    now, spent, charged = 0.0, 0, 0
    waiting: list[Any] = []
    for what, n, pause in steps:
        now += pause
        if what == "spend":
            spent += n if bucket.reserve(n, now, 0.0).ok else 0
        elif what == "wait":
            grant = bucket.reserve(n, now, None)
            spent += n if grant.ok else 0
            waiting.append(grant)
        elif what == "cancel" and waiting:
            held = bucket.held(now)
            bucket.cancel(waiting.pop(), now)
            spent -= bucket.held(now) - held
        elif what == "charge":
            bucket.charge(n, now)
            spent += n
        elif what == "visit":
            charged += visit(bucket, pool, now)
            assert bucket.held(now) >= 0
    assert bucket.held(now) == charged - spent


# The whole fleet, in virtual time.


def run(demands: list[float], rate: float, burst: int, seconds: float) -> list[float]:
    """Return the time of each spent token. ``demands`` are calls a second, one process each."""
    pool = Pool(rate, burst, len(demands))
    fleet = [LeaseBucket(rate, burst, len(demands), 1, 0.0) for _ in demands]
    due = [index * 0.003 for index in range(len(fleet))]
    earliest = [0.0] * len(fleet)
    credit = [0.0] * len(fleet)
    spent: list[float] = []
    tick = 0.001
    for step in range(int(seconds / tick)):
        now = step * tick
        for index, bucket in enumerate(fleet):
            credit[index] += demands[index] * tick
            while credit[index] >= 1:
                credit[index] -= 1
                if bucket.tokens(now) < 1:
                    # On credit or not at all: it asks as soon as it may.
                    due[index] = min(due[index], earliest[index])
                if bucket.reserve(1, now, 0.0).ok:
                    spent.append(now)
            if now >= due[index]:
                owed, wanted = bucket.ask(now)
                granted, before, after = pool.exchange(owed, wanted, now)
                bucket.take(owed, granted, before, after, pool.instances, now)
                short = granted < wanted
                due[index], earliest[index] = leases.next_visit(
                    now, bucket.demand, bucket.instances, short, bucket.ready_s()
                )
    return spent


FLEETS = {
    "all want more": [400.0] * 8,
    "one wants all": [2000.0] + [0.0] * 7,
    "uneven": [1500.0, 300.0, 100.0, 50.0, 20.0, 5.0, 1.0, 0.0],
    "alone": [3000.0],
}


@pytest.mark.parametrize("burst", [1, 100, 2000])
@pytest.mark.parametrize("name", FLEETS)
def test_fleet_uses_its_limit_and_never_exceeds_it(name: str, burst: int) -> None:
    rate, seconds = 1000.0, 3.0
    spent = run(FLEETS[name], rate, burst, seconds)
    bound = leases.overshoot(rate, burst, len(FLEETS[name]))
    for start in (0.0, 0.5, 1.0, 2.0):
        for width in (0.1, 0.5, 1.0):
            inside = sum(start <= moment < start + width for moment in spent)
            assert inside <= burst + rate * width + bound
    wanted = sum(FLEETS[name]) * seconds
    assert len(spent) >= 0.97 * min(wanted, rate * seconds)


def test_fleet_below_its_limit_is_granted_everything() -> None:
    spent = run([50.0] * 8, 1000.0, 100, 3.0)
    assert len(spent) >= 0.97 * 50 * 8 * 3


# The purse of a budget.


def test_purse_spends_its_holdings_and_its_credit() -> None:
    purse = Purse(10, 2, 1, 0.0)
    assert [purse.spend(), purse.spend()] == [True, False]
    assert purse.ask(0.1)[0] == 1
    purse.take(1, 3, 5.0, 2)
    assert purse.held == 3
    assert purse.credit == 1
    assert [purse.spend() for _ in range(5)] == [True] * 4 + [False]


def test_purse_of_an_empty_budget_has_no_credit() -> None:
    purse = Purse(10, 2, 1, 0.0)
    purse.take(0, 0, 0.4, 2)
    assert not purse.spend()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=50))
def test_every_token_of_a_purse_is_accounted_for(steps: Any) -> None:
    purse, spent, charged, now = Purse(10, 3, 1, 0.0), 0, 0, 0.0
    for spends, level in steps:
        now += 0.05
        if spends:
            spent += purse.spend()
        else:
            owed, wanted = purse.ask(now)
            granted = min(wanted, level)
            purse.take(owed, granted, float(level), 3)
            charged += owed + granted
            assert purse.held >= 0
    assert purse.held == charged - spent
