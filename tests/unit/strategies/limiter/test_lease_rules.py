"""The arithmetic of leases, number by number."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stormproof._strategies.limiter.rules.leases import (
    Demand,
    LeaseBucket,
    Purse,
    credit_of,
    horizon_s,
    next_visit,
    overshoot,
    period_s,
)


def test_period_grows_with_the_number_of_instances() -> None:
    assert (period_s(1), period_s(100), period_s(101), period_s(1000)) == (0.05, 0.05, 0.0505, 0.5)
    assert (horizon_s(1), horizon_s(1000)) == (pytest.approx(0.15), pytest.approx(1.5))


def test_overshoot_grows_with_rate_and_instances() -> None:
    assert overshoot(100, 10, 2) == pytest.approx(100 * (0.15 + 0.1) + 6)
    assert overshoot(100, 10, 20) == pytest.approx(25 + 20)
    assert overshoot(0, 0, 1) == 1.0


@pytest.mark.parametrize(
    ("level", "instances", "credit"),
    [(0.99, 1, 0), (-5, 1, 0), (1, 1, 1), (1, 50, 1), (10, 1, 5), (10, 2, 2), (10, 0, 5), (11, 1, 5)],
)
def test_credit_is_a_share_of_half_the_level(level: float, instances: int, credit: int) -> None:
    assert credit_of(level, instances) == credit


# Demand.


def test_demand_is_measured_over_the_time_that_passed() -> None:
    demand = Demand(10.0)
    assert (demand.rate, demand.at, demand.last) == (0.0, 10.0, 10.0)
    demand.measure(10.0, 12.0)
    assert (demand.rate, demand.at, demand.last) == (5.0, 12.0, 12.0)
    demand.measure(2.0, 13.0)
    assert (demand.rate, demand.last) == (2.5, 13.0)
    demand.measure(0.0, 14.0)
    assert (demand.rate, demand.at, demand.last) == (1.25, 14.0, 13.0)
    # No time at all: no fall.
    demand.measure(0.0, 14.0)
    assert demand.rate == 1.25
    demand.measure(1.0, 14.001)
    assert demand.rate == pytest.approx(50.0)


def test_demand_decays_to_zero() -> None:
    demand = Demand(0.0)
    demand.rate = 0.002
    demand.measure(0.0, 1.0)
    assert demand.rate == 0.001
    demand.measure(0.0, 2.0)
    assert demand.rate == 0.0
    demand.rate = 0.0001
    demand.measure(1e-9, 3.0)
    assert demand.rate > 0


def test_target_of_demand_is_bounded_by_the_share() -> None:
    demand = Demand(0.0)
    assert demand.target(1, 100.0) == 0
    demand.rate = 10.0
    assert demand.target(1, 100.0) == 3
    assert demand.target(1, 2.5) == 2
    assert demand.target(1, 1.0) == 1
    assert demand.target(1, 0.9) == 0
    demand.rate = 0.5
    assert demand.target(1, 100.0) == 2


def test_demand_is_warm_for_ten_seconds() -> None:
    demand = Demand(5.0)
    assert demand.is_warm(14.99)
    assert not demand.is_warm(15.0)


def test_next_visit_is_sooner_under_demand() -> None:
    demand = Demand(0.0)
    assert next_visit(0.0, demand, 1, False, 0.0) == (0.1, 0.005)
    assert next_visit(0.999, demand, 1, False, 0.0) == (pytest.approx(1.099), pytest.approx(1.004))
    assert next_visit(1.0, demand, 1, False, 0.0) == (1.5, 1.005)
    assert next_visit(1.0, demand, 2000, False, 0.0) == (2.0, 1.005)
    assert next_visit(10.0, demand, 1, False, 0.0) == (math.inf, 10.005)
    demand.rate = 5.0
    assert next_visit(0.0, demand, 1, False, 0.0) == (0.05, 0.005)
    assert next_visit(0.0, demand, 1, True, 0.0) == (0.025, 0.025)
    assert next_visit(0.0, demand, 1, True, 0.3) == (0.3, 0.3)
    assert next_visit(0.0, demand, 1, True, 99.0) == (1.0, 1.0)


# A bucket of leases.


def leased(
    rate: float = 10.0, burst: int = 100, instances: int = 2, credit: int = 0, **options: Any
) -> LeaseBucket:
    return LeaseBucket(rate, burst, instances, credit, 0.0, **options)


def test_new_bucket_holds_nothing() -> None:
    bucket = leased(credit=3)
    assert (bucket.level, bucket.rate, bucket.maturing, bucket.kept, bucket.missed, bucket.sought) == (
        0,
        0,
        0,
        0,
        0,
        0,
    )
    assert (bucket.fleet_rate, bucket.fleet_burst, bucket.instances, bucket.credit) == (10.0, 100, 2, 3)
    assert (bucket.tokens(99.0), bucket.usable(99.0)) == (0.0, 3.0)
    assert (bucket.delivery_s, leased(delivery_s=5.0).delivery_s) == (0.1, 5.0)
    assert bucket.sought_at == -math.inf
    assert bucket.level_seen == 0.0


def test_waiter_may_count_on_its_fair_share_or_the_maturing_rate() -> None:
    bucket = leased()
    assert bucket.speed() == 5.0
    bucket.rate = 7.0
    assert bucket.speed() == 7.0


def test_reservation_waits_for_the_shortage_and_a_little_longer() -> None:
    bucket = leased(credit=1)
    first = bucket.reserve(1, 0.0, None)
    assert (first.ok, first.at, first.mark, first.n) == (True, 0.0, 1, 1)
    assert (bucket.level, bucket.booked) == (-1.0, 1)
    second = bucket.reserve(2, 0.0, None)
    assert (second.ok, second.at, second.mark, second.rate) == (True, pytest.approx(0.4 + 0.1), 3, 5.0)
    assert second.delay(0.0) == pytest.approx(0.4)
    # Tokens that have come meanwhile make it shorter.
    bucket.level += 1
    assert second.delay(0.0) == pytest.approx(0.2)
    bucket.level += 1
    assert second.delay(0.0) == 0.0
    free = bucket.reserve(0, 0.0, 0.0)
    assert (free.ok, free.at) == (True, 0.0)


def test_refusal_takes_nothing_and_is_remembered() -> None:
    bucket = leased()
    assert not bucket.reserve(1, 1.0, 0.19).ok
    assert (bucket.level, bucket.booked, bucket.missed, bucket.sought) == (0.0, 0, 1, 0)
    refused = bucket.reserve(3, 2.0, 0.0)
    assert (refused.ok, refused.delay(2.0)) == (False, math.inf)
    assert (bucket.missed, bucket.sought, bucket.sought_at) == (4, 3, 2.0)
    bucket.reserve(2, 3.0, 0.0)
    assert (bucket.sought, bucket.sought_at) == (3, 3.0)
    assert not bucket.reserve(101, 4.0, None).ok
    assert (bucket.missed, bucket.sought) == (107, 3)
    assert bucket.reserve(100, 4.0, None).ok
    assert bucket.sought == 0
    assert bucket.reserve(1, 0.0, 1e9).ok


def test_granted_tokens_are_no_longer_sought() -> None:
    bucket = leased()
    bucket.reserve(3, 0.0, 0.0)
    bucket.level = 10.0
    assert bucket.reserve(2, 0.0, 0.0).ok
    assert bucket.sought == 3
    assert bucket.reserve(3, 0.0, 0.0).ok
    assert bucket.sought == 0


def test_wait_of_exactly_max_wait_is_granted() -> None:
    bucket = leased()
    assert bucket.reserve(1, 0.0, 0.2).ok
    assert not leased(rate=0.0).reserve(1, 0.0, None).ok


def test_eta_is_the_time_until_the_tokens_mature() -> None:
    bucket = leased(credit=1)
    assert bucket.eta(1, 0.0) == 0.0
    assert bucket.eta(2, 0.0) == pytest.approx(0.2)
    bucket.booked = 5
    assert bucket.eta(7, 0.0) == pytest.approx(0.2)
    assert leased(rate=0.0).eta(1, 0.0) == math.inf


def test_cancelled_reservation_comes_back_once() -> None:
    bucket = leased()
    first, second = bucket.reserve(3, 0.0, None), bucket.reserve(2, 0.0, None)
    bucket.cancel(second, 0.0)
    assert (second.returned, second.given_back, bucket.level, bucket.booked) == (True, 2.0, -3.0, 3)
    bucket.cancel(second, 0.0)
    assert bucket.level == -3.0
    bucket.reserve(1, 0.0, None)
    bucket.leave(first, 0.0)
    assert (first.given_back, bucket.level, bucket.booked) == (2.0, -2.0, 2)


def test_usable_foreign_or_refused_grants_do_not_come_back() -> None:
    bucket = leased(credit=5)
    had = bucket.reserve(1, 0.0, None)
    bucket.cancel(had, 0.0)
    assert (had.returned, bucket.level) == (False, -1.0)
    other = leased().reserve(1, 0.0, None)
    bucket.cancel(other, 0.0)
    assert (other.returned, bucket.level) == (False, -1.0)
    nothing = bucket.reserve(0, 0.0, None)
    bucket.cancel(nothing, 0.0)
    refused = bucket.reserve(999, 0.0, None)
    bucket.cancel(refused, 0.0)
    assert bucket.level == -1.0


def test_lease_is_charged_moved_and_changed() -> None:
    bucket = leased()
    bucket.level, bucket.rate = 5.0, 2.0
    bucket.charge(3, 1.0)
    assert (bucket.level, bucket.last) == (4.0, 1.0)
    bucket.sought_at = 1.0
    bucket.move(100.0)
    assert (bucket.last, bucket.since, bucket.demand.at, bucket.demand.last, bucket.sought_at) == (
        101.0,
        100.0,
        100.0,
        100.0,
        101.0,
    )
    bucket.change(20.0, 7, 102.0)
    assert (bucket.fleet_rate, bucket.fleet_burst, bucket.level, bucket.rate) == (20.0, 7, 6.0, 2.0)


def test_clock_set_back_takes_the_past_along() -> None:
    bucket = leased()
    bucket.level, bucket.rate, bucket.maturing, bucket.last, bucket.since = 1.0, 2.0, 4.0, 10.0, 9.0
    assert bucket.held(4.0) == 3
    assert (bucket.last, bucket.since, bucket.level) == (4.0, 3.0, 1.0)


def test_held_tokens_include_usable_and_maturing_ones() -> None:
    bucket = leased()
    bucket.level, bucket.rate, bucket.maturing = 1.0, 2.0, 4.0
    assert bucket.held(0.0) == 5
    assert bucket.held(1.0) == 5
    assert bucket.level == 3.0
    assert bucket._maturing(1.0) == 2.0


def test_largest_lease_follows_the_rate_and_the_level() -> None:
    bucket = leased()
    assert bucket.most() == pytest.approx(1.5)
    bucket.level_seen = 40.0
    assert bucket.most() == 10.0
    assert leased(rate=0.1).most() == 1.0


def test_ask_reports_the_use_and_requests_the_target() -> None:
    bucket = leased(rate=1000.0, credit=2)
    bucket.reserve(2, 0.0, 0.0)
    assert bucket.ask(1.0) == (2, 2)
    assert (bucket.kept, bucket.missed, bucket.demand.rate) == (-2, 0, 2.0)
    bucket.take(2, 2, 100.0, 96.0, 3, 1.0)
    assert (bucket.level, bucket.kept, bucket.instances, bucket.level_seen) == (2.0, 2, 3, 96.0)
    assert (bucket.credit, bucket.delivery_s, bucket.rate) == (16, 0.1, 0.0)
    # Idle: by halves less is wanted, and what is too much goes back.
    assert bucket.ask(2.0) == (0, 0)
    bucket.level = bucket.kept = 50  # type: ignore[assignment]
    assert bucket.ask(3.0) == (0, 2 - 50)


def test_refused_tokens_are_sought_for_a_second() -> None:
    bucket = leased(rate=1.0)
    bucket.reserve(30, 5.0, 0.0)
    assert bucket.ask(5.9)[1] == 30
    bucket.reserve(30, 10.0, 0.0)
    assert bucket.ask(11.0)[1] < 30


def test_refusals_count_as_demand_up_to_the_largest_lease() -> None:
    bucket = leased(rate=1.0, instances=1)
    for _ in range(50):
        bucket.reserve(1, 0.0, 0.0)
    bucket.ask(1.0)
    assert bucket.demand.rate == pytest.approx(1.0)


def test_lent_tokens_mature_until_the_store_is_level_again() -> None:
    bucket = leased(rate=10.0)
    bucket.take(0, 8, 2.0, -6.0, 2, 1.0)
    # Two were there; six are lent, for the 0.6 s that the store takes to get them back.
    assert (bucket.level, bucket.maturing, bucket.since, bucket.last) == (2.0, 6.0, 1.0, 1.0)
    assert bucket.rate == pytest.approx(10.0)
    assert bucket.tokens(1.3) == pytest.approx(5.0)
    # Half of it is old by then: its time and that of the new are weighed.
    bucket.take(0, 3, -3.0, -6.0, 2, 1.3)
    assert bucket.maturing == pytest.approx(6.0)
    assert bucket.rate == pytest.approx(36 / (3 * 0.3 + 3 * 0.6))
    assert bucket.level == pytest.approx(5.0)


def test_lent_tokens_mature_at_most_at_the_rate_that_the_next_exchange_can_correct() -> None:
    bucket = leased(rate=1000.0)
    bucket.take(0, 10, 0.0, -10.0, 2, 0.0)
    assert bucket.rate == pytest.approx(10 / 0.1)


def test_tokens_present_or_returned_do_not_mature() -> None:
    bucket = leased()
    bucket.take(1, 4, 10.0, 5.0, 2, 0.0)
    assert (bucket.level, bucket.maturing, bucket.rate) == (5.0, 0.0, 0.0)
    bucket = leased()
    bucket.take(0, 8, 2.0, -6.0, 2, 0.0)
    bucket.take(0, -4, -6.0, -2.0, 2, 0.0)
    # Four of the six that matured went back; the rest goes on at the same speed.
    assert (bucket.maturing, bucket.rate, bucket.level) == (2.0, pytest.approx(10.0), 2.0)
    bucket.take(0, -2, -2.0, -0.5, 2, 0.0)
    assert (bucket.maturing, bucket.rate) == (0.0, 0.0)
    fixed = leased(rate=0.0)
    fixed.take(0, 3, 1.0, -2.0, 2, 0.0)
    assert (fixed.maturing, fixed.level) == (0.0, 3.0)


def test_ready_s_is_the_time_until_the_store_can_lend_a_token() -> None:
    bucket = leased(rate=10.0)
    assert bucket.ready_s() == 0.0
    bucket.level_seen = -3.0
    assert bucket.ready_s() == pytest.approx((1 + 3 - 1.5) / 10)
    assert leased(rate=0.0).ready_s() == math.inf


# A purse.


def test_new_purse_holds_nothing_but_its_credit() -> None:
    purse = Purse(10.0, 3, 2, 5.0)
    assert (purse.held, purse.kept, purse.missed, purse.most, purse.level_seen) == (0, 0, 0, 10.0, 10.0)
    assert (purse.instances, purse.credit, purse.demand.at) == (3, 2, 5.0)
    assert Purse(0.0, 1, 0, 0.0).most == 1.0


def test_purse_spends_its_holdings_and_its_credit() -> None:
    purse = Purse(10.0, 1, 2, 0.0)
    assert [purse.spend() for _ in range(4)] == [True, True, False, False]
    assert (purse.held, purse.missed) == (-2, 2)
    assert purse.ask(1.0) == (2, 2)
    assert (purse.kept, purse.missed, purse.demand.rate) == (-2, 0, 4.0)
    purse.take(2, 3, 40.0, 2)
    assert (purse.held, purse.kept, purse.instances, purse.level_seen, purse.credit) == (3, 3, 2, 40.0, 10)
    purse.spend()
    assert purse.ask(2.0) == (0, 0)


def test_purse_asks_for_half_of_the_level_unless_alone() -> None:
    for instances, wanted in ((1, 10), (2, 5), (3, 5)):
        purse = Purse(10.0, instances, 0, 0.0)
        purse.demand.rate = 1000.0
        assert purse.ask(0.0) == (0, wanted)
    purse = Purse(1.0, 2, 0, 0.0)
    purse.demand.rate = 1000.0
    assert purse.ask(0.0) == (0, 1)
    many = Purse(2.0, 1, 0, 0.0)
    for _ in range(50):
        many.spend()
    many.ask(1.0)
    assert many.demand.rate == 2.0


# Slow fleets, and what happens twice.


def test_leases_of_a_slow_fleet_follow_the_same_rules() -> None:
    bucket = leased(rate=1.0, instances=2)
    grant = bucket.reserve(1, 0.0, None)
    assert (grant.ok, grant.at) == (True, pytest.approx(2.1))
    assert bucket.eta(1, 0.0) == pytest.approx(2.0)
    bucket = leased(rate=0.5, instances=1)
    bucket.take(0, 1, 0.0, -1.0, 1, 0.0)
    assert (bucket.level, bucket.maturing, bucket.rate) == (0.0, 1.0, pytest.approx(0.5))
    assert bucket.ready_s() == pytest.approx((2 - 0.075) / 0.5)
    demand = Demand(5.0)
    assert next_visit(5.5, demand, 1, False, 0.0) == (pytest.approx(5.6), pytest.approx(5.505))
    demand.rate = 0.5
    assert next_visit(5.5, demand, 1, False, 0.0) == (pytest.approx(5.55), pytest.approx(5.505))


def test_refused_call_of_the_whole_burst_counts_as_demand() -> None:
    bucket = leased(burst=3)
    assert not bucket.reserve(3, 0.0, 0.0).ok
    assert bucket.sought == 3
    # A second later the demand is gone, and nothing is asked for.
    bucket.demand.rate = 0.0
    bucket.missed = 0
    assert bucket.ask(60.0) == (0, 0)


def test_lent_tokens_are_usable_when_the_store_is_level_again() -> None:
    for after in (0.0, 0.5):
        bucket = leased(rate=10.0)
        bucket.take(0, 8, 2.0, -6.0, 2, 0.0)
        bucket.take(0, 0, after, after, 2, 0.0)
        assert (bucket.maturing, bucket.rate, bucket.level) == (0.0, 0.0, 8.0)


def test_single_maturing_token_keeps_maturing() -> None:
    bucket = leased(rate=0.5, instances=1)
    bucket.take(0, 2, 0.0, -2.0, 1, 0.0)
    assert (bucket.maturing, bucket.rate) == (2.0, pytest.approx(0.5))
    bucket.take(0, -1, -2.0, -1.0, 1, 0.0)
    assert (bucket.maturing, bucket.rate) == (1.0, pytest.approx(0.5))
    # It takes two seconds, the one that is lent on top of it six.
    bucket.take(0, 1, -2.0, -3.0, 1, 0.0)
    assert (bucket.maturing, bucket.rate) == (2.0, pytest.approx(4 / (1 * 2 + 1 * 6)))


def test_waiter_that_leaves_early_gives_all_to_those_behind() -> None:
    bucket = leased()
    first, second = bucket.reserve(4, 0.0, None, True), bucket.reserve(1, 0.0, None, True)
    before = bucket.pause(second, 0.0)
    bucket.leave(first, 0.0)
    assert (first.given_back, bucket.level, bucket.booked) == (4.0, -1.0, 1)
    assert bucket.pause(second, 0.0) < before
    bucket.leave(second, 0.0)
    assert (bucket.level, bucket.booked, bucket.queued) == (0.0, 0, 0)


def test_clock_may_be_changed_twice() -> None:
    bucket = leased()
    bucket.move(100.0)
    bucket.move(100.0)
    assert (bucket.last, bucket.since, bucket.demand.at, bucket.demand.last) == (200.0, 200.0, 200.0, 200.0)


def test_reservation_of_zero_does_not_wait() -> None:
    bucket = leased()
    bucket.reserve(2, 0.0, None)
    free = bucket.reserve(0, 0.0, 0.0)
    assert (free.ok, free.at) == (True, 0.0)
