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
    made = leased(credit=3)
    assert (made.level, made.rate, made.maturing, made.kept, made.missed, made.sought) == (0, 0, 0, 0, 0, 0)
    assert (made.fleet_rate, made.fleet_burst, made.instances, made.credit) == (10.0, 100, 2, 3)
    assert (made.tokens(99.0), made.usable(99.0)) == (0.0, 3.0)
    assert (made.patience_s, leased(patience_s=5.0).patience_s) == (0.1, 5.0)
    assert made.sought_at == -math.inf
    assert made.level_seen == 0.0


def test_waiter_may_count_on_its_fair_share_or_the_maturing_rate() -> None:
    made = leased()
    assert made.speed() == 5.0
    made.rate = 7.0
    assert made.speed() == 7.0


def test_reservation_waits_for_the_shortage_and_a_little_longer() -> None:
    made = leased(credit=1)
    first = made.reserve(1, 0.0, None)
    assert (first.ok, first.at, first.mark, first.n) == (True, 0.0, 1, 1)
    assert (made.level, made.booked) == (-1.0, 1)
    second = made.reserve(2, 0.0, None)
    assert (second.ok, second.at, second.mark, second.rate) == (True, pytest.approx(0.4 + 0.1), 3, 5.0)
    assert second.delay(0.0) == pytest.approx(0.4)
    # Tokens that have come meanwhile make it shorter.
    made.level += 1
    assert second.delay(0.0) == pytest.approx(0.2)
    made.level += 1
    assert second.delay(0.0) == 0.0
    free = made.reserve(0, 0.0, 0.0)
    assert (free.ok, free.at) == (True, 0.0)


def test_refusal_takes_nothing_and_is_remembered() -> None:
    made = leased()
    assert not made.reserve(1, 1.0, 0.19).ok
    assert (made.level, made.booked, made.missed, made.sought) == (0.0, 0, 1, 0)
    refused = made.reserve(3, 2.0, 0.0)
    assert (refused.ok, refused.delay(2.0)) == (False, math.inf)
    assert (made.missed, made.sought, made.sought_at) == (4, 3, 2.0)
    made.reserve(2, 3.0, 0.0)
    assert (made.sought, made.sought_at) == (3, 3.0)
    assert not made.reserve(101, 4.0, None).ok
    assert (made.missed, made.sought) == (107, 3)
    assert made.reserve(100, 4.0, None).ok
    assert made.sought == 0
    assert made.reserve(1, 0.0, 1e9).ok


def test_granted_tokens_are_no_longer_sought() -> None:
    made = leased()
    made.reserve(3, 0.0, 0.0)
    made.level = 10.0
    assert made.reserve(2, 0.0, 0.0).ok
    assert made.sought == 3
    assert made.reserve(3, 0.0, 0.0).ok
    assert made.sought == 0


def test_wait_of_exactly_max_wait_is_granted() -> None:
    made = leased()
    assert made.reserve(1, 0.0, 0.2).ok
    assert not leased(rate=0.0).reserve(1, 0.0, None).ok


def test_eta_is_the_time_until_the_tokens_mature() -> None:
    made = leased(credit=1)
    assert made.eta(1, 0.0) == 0.0
    assert made.eta(2, 0.0) == pytest.approx(0.2)
    made.booked = 5
    assert made.eta(7, 0.0) == pytest.approx(0.2)
    assert leased(rate=0.0).eta(1, 0.0) == math.inf


def test_cancelled_reservation_comes_back_once() -> None:
    made = leased()
    first, second = made.reserve(3, 0.0, None), made.reserve(2, 0.0, None)
    made.cancel(second, 0.0)
    assert (second.returned, second.given_back, made.level, made.booked) == (True, 2.0, -3.0, 3)
    made.cancel(second, 0.0)
    assert made.level == -3.0
    made.reserve(1, 0.0, None)
    made.leave(first, 0.0)
    assert (first.given_back, made.level, made.booked) == (2.0, -2.0, 2)


def test_usable_foreign_or_refused_grants_do_not_come_back() -> None:
    made = leased(credit=5)
    had = made.reserve(1, 0.0, None)
    made.cancel(had, 0.0)
    assert (had.returned, made.level) == (False, -1.0)
    other = leased().reserve(1, 0.0, None)
    made.cancel(other, 0.0)
    assert (other.returned, made.level) == (False, -1.0)
    nothing = made.reserve(0, 0.0, None)
    made.cancel(nothing, 0.0)
    refused = made.reserve(999, 0.0, None)
    made.cancel(refused, 0.0)
    assert made.level == -1.0


def test_lease_is_charged_moved_and_changed() -> None:
    made = leased()
    made.level, made.rate = 5.0, 2.0
    made.charge(3, 1.0)
    assert (made.level, made.last) == (4.0, 1.0)
    made.sought_at = 1.0
    made.move(100.0)
    assert (made.last, made.since, made.demand.at, made.demand.last, made.sought_at) == (
        101.0,
        100.0,
        100.0,
        100.0,
        101.0,
    )
    made.change(20.0, 7, 102.0)
    assert (made.fleet_rate, made.fleet_burst, made.level, made.rate) == (20.0, 7, 6.0, 2.0)


def test_clock_set_back_takes_the_past_along() -> None:
    made = leased()
    made.level, made.rate, made.maturing, made.last, made.since = 1.0, 2.0, 4.0, 10.0, 9.0
    assert made.held(4.0) == 3
    assert (made.last, made.since, made.level) == (4.0, 3.0, 1.0)


def test_held_tokens_include_usable_and_maturing_ones() -> None:
    made = leased()
    made.level, made.rate, made.maturing = 1.0, 2.0, 4.0
    assert made.held(0.0) == 5
    assert made.held(1.0) == 5
    assert made.level == 3.0
    assert made._maturing(1.0) == 2.0


def test_largest_lease_follows_the_rate_and_the_level() -> None:
    made = leased()
    assert made.most() == pytest.approx(1.5)
    made.level_seen = 40.0
    assert made.most() == 10.0
    assert leased(rate=0.1).most() == 1.0


def test_ask_reports_the_use_and_requests_the_target() -> None:
    made = leased(rate=1000.0, credit=2)
    made.reserve(2, 0.0, 0.0)
    assert made.ask(1.0) == (2, 2)
    assert (made.kept, made.missed, made.demand.rate) == (-2, 0, 2.0)
    made.take(2, 2, 100.0, 96.0, 3, 1.0)
    assert (made.level, made.kept, made.instances, made.level_seen) == (2.0, 2, 3, 96.0)
    assert (made.credit, made.patience_s, made.rate) == (16, 0.1, 0.0)
    # Idle: by halves less is wanted, and what is too much goes back.
    assert made.ask(2.0) == (0, 0)
    made.level = made.kept = 50  # type: ignore[assignment]
    assert made.ask(3.0) == (0, 2 - 50)


def test_refused_tokens_are_sought_for_a_second() -> None:
    made = leased(rate=1.0)
    made.reserve(30, 5.0, 0.0)
    assert made.ask(5.9)[1] == 30
    made.reserve(30, 10.0, 0.0)
    assert made.ask(11.0)[1] < 30


def test_refusals_count_as_demand_up_to_the_largest_lease() -> None:
    made = leased(rate=1.0, instances=1)
    for _ in range(50):
        made.reserve(1, 0.0, 0.0)
    made.ask(1.0)
    assert made.demand.rate == pytest.approx(1.0)


def test_lent_tokens_mature_until_the_store_is_level_again() -> None:
    made = leased(rate=10.0)
    made.take(0, 8, 2.0, -6.0, 2, 1.0)
    # Two were there; six are lent, for the 0.6 s that the store takes to get them back.
    assert (made.level, made.maturing, made.since, made.last) == (2.0, 6.0, 1.0, 1.0)
    assert made.rate == pytest.approx(10.0)
    assert made.tokens(1.3) == pytest.approx(5.0)
    # Half of it is old by then: its time and that of the new are weighed.
    made.take(0, 3, -3.0, -6.0, 2, 1.3)
    assert made.maturing == pytest.approx(6.0)
    assert made.rate == pytest.approx(36 / (3 * 0.3 + 3 * 0.6))
    assert made.level == pytest.approx(5.0)


def test_lent_tokens_mature_at_most_at_the_rate_that_the_next_exchange_can_correct() -> None:
    made = leased(rate=1000.0)
    made.take(0, 10, 0.0, -10.0, 2, 0.0)
    assert made.rate == pytest.approx(10 / 0.1)


def test_tokens_present_or_returned_do_not_mature() -> None:
    made = leased()
    made.take(1, 4, 10.0, 5.0, 2, 0.0)
    assert (made.level, made.maturing, made.rate) == (5.0, 0.0, 0.0)
    made = leased()
    made.take(0, 8, 2.0, -6.0, 2, 0.0)
    made.take(0, -4, -6.0, -2.0, 2, 0.0)
    # Four of the six that matured went back; the rest goes on at the same speed.
    assert (made.maturing, made.rate, made.level) == (2.0, pytest.approx(10.0), 2.0)
    made.take(0, -2, -2.0, -0.5, 2, 0.0)
    assert (made.maturing, made.rate) == (0.0, 0.0)
    fixed = leased(rate=0.0)
    fixed.take(0, 3, 1.0, -2.0, 2, 0.0)
    assert (fixed.maturing, fixed.level) == (0.0, 3.0)


def test_ready_s_is_the_time_until_the_store_can_lend_a_token() -> None:
    made = leased(rate=10.0)
    assert made.ready_s() == 0.0
    made.level_seen = -3.0
    assert made.ready_s() == pytest.approx((1 + 3 - 1.5) / 10)
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
    made = leased(rate=1.0, instances=2)
    grant = made.reserve(1, 0.0, None)
    assert (grant.ok, grant.at) == (True, pytest.approx(2.1))
    assert made.eta(1, 0.0) == pytest.approx(2.0)
    made = leased(rate=0.5, instances=1)
    made.take(0, 1, 0.0, -1.0, 1, 0.0)
    assert (made.level, made.maturing, made.rate) == (0.0, 1.0, pytest.approx(0.5))
    assert made.ready_s() == pytest.approx((2 - 0.075) / 0.5)
    demand = Demand(5.0)
    assert next_visit(5.5, demand, 1, False, 0.0) == (pytest.approx(5.6), pytest.approx(5.505))
    demand.rate = 0.5
    assert next_visit(5.5, demand, 1, False, 0.0) == (pytest.approx(5.55), pytest.approx(5.505))


def test_call_of_the_whole_burst_is_asked_for() -> None:
    made = leased(burst=3)
    assert not made.reserve(3, 0.0, 0.0).ok
    assert made.sought == 3
    # A second later the demand is gone, and nothing is asked for.
    made.demand.rate = 0.0
    made.missed = 0
    assert made.ask(60.0) == (0, 0)


def test_lent_tokens_are_usable_when_the_store_is_level_again() -> None:
    for after in (0.0, 0.5):
        made = leased(rate=10.0)
        made.take(0, 8, 2.0, -6.0, 2, 0.0)
        made.take(0, 0, after, after, 2, 0.0)
        assert (made.maturing, made.rate, made.level) == (0.0, 0.0, 8.0)


def test_single_maturing_token_keeps_maturing() -> None:
    made = leased(rate=0.5, instances=1)
    made.take(0, 2, 0.0, -2.0, 1, 0.0)
    assert (made.maturing, made.rate) == (2.0, pytest.approx(0.5))
    made.take(0, -1, -2.0, -1.0, 1, 0.0)
    assert (made.maturing, made.rate) == (1.0, pytest.approx(0.5))
    # It takes two seconds, the one that is lent on top of it six.
    made.take(0, 1, -2.0, -3.0, 1, 0.0)
    assert (made.maturing, made.rate) == (2.0, pytest.approx(4 / (1 * 2 + 1 * 6)))


def test_waiter_that_leaves_early_gives_all_to_those_behind() -> None:
    made = leased()
    first, second = made.reserve(4, 0.0, None, True), made.reserve(1, 0.0, None, True)
    before = made.pause(second, 0.0)
    made.leave(first, 0.0)
    assert (first.given_back, made.level, made.booked) == (4.0, -1.0, 1)
    assert made.pause(second, 0.0) < before
    made.leave(second, 0.0)
    assert (made.level, made.booked, made.queued) == (0.0, 0, 0)


def test_clock_may_be_changed_twice() -> None:
    made = leased()
    made.move(100.0)
    made.move(100.0)
    assert (made.last, made.since, made.demand.at, made.demand.last) == (200.0, 200.0, 200.0, 200.0)


def test_reservation_of_zero_does_not_wait() -> None:
    made = leased()
    made.reserve(2, 0.0, None)
    free = made.reserve(0, 0.0, 0.0)
    assert (free.ok, free.at) == (True, 0.0)
