"""Waiters in line, those that leave it, and reservations beside it, by the three rules that have a line."""

from __future__ import annotations

import math
from typing import Any

import pytest

import stormproof as sp
from stormproof._strategies.limiter.pacer import Timetable
from stormproof._strategies.limiter.rules.bucket import MOST_NEAR, Bucket, near
from stormproof._strategies.limiter.rules.leases import LeaseBucket


def leased(rate: float = 1.0, burst: int = 20, instances: int = 1, credit: int = 0) -> LeaseBucket:
    return LeaseBucket(rate, burst, instances, credit, 0.0)


EMPTY: dict[str, Any] = {
    "bucket": lambda: _emptied(Bucket(1.0, 2, 0.0)),
    "timetable": lambda: _emptied(Timetable(1.0, 2, 0.0)),
    "leases": leased,
}
each_line = pytest.mark.parametrize("kind", EMPTY)


def _emptied(line: Any) -> Any:
    """Take the burst by two calls, without waiting in line."""
    for _ in range(2):
        line.reserve(1, 0.0, None)
    return line


@each_line
def test_only_who_asks_to_queue_and_must_wait_stands_in_line(kind: str) -> None:
    line = EMPTY[kind]()
    assert line.reserve(1, 0.0, None) not in line.waiting
    assert line.reserve(1, 0.0, None, True) in line.waiting
    full = leased(credit=5) if kind == "leases" else type(line)(1.0, 2, 0.0)
    assert full.reserve(1, 0.0, None, True) not in full.waiting


@each_line
def test_waiter_that_leaves_gives_its_tokens_back_once(kind: str) -> None:
    line = EMPTY[kind]()
    before = line.tokens(0.0)
    waiter = line.reserve(1, 0.0, None, True)
    assert line.tokens(0.0) == before - 1
    for _ in range(2):
        line.leave(waiter, 0.0)
        assert line.tokens(0.0) == before
    assert waiter.returned and waiter not in line.waiting


@each_line
def test_reservation_behind_a_waiter_that_leaves_keeps_its_tokens(kind: str) -> None:
    line = EMPTY[kind]()
    waiter = line.reserve(1, 0.0, None, True)
    line.reserve(1, 0.0, None)
    before = line.tokens(0.0)
    line.leave(waiter, 0.0)
    assert line.tokens(0.0) == before


@each_line
def test_charge_behind_a_waiter_that_leaves_stays_paid(kind: str) -> None:
    line = EMPTY[kind]()
    waiter = line.reserve(1, 0.0, None, True)
    line.charge(1, 0.0)
    before = line.tokens(0.0)
    line.leave(waiter, 0.0)
    assert line.tokens(0.0) == before


@each_line
def test_refund_behind_a_waiter_that_leaves_takes_nothing_of_it(kind: str) -> None:
    line = EMPTY[kind]()
    line.reserve(1, 0.0, None)
    waiter = line.reserve(1, 0.0, None, True)
    line.charge(-1, 0.0)
    before = line.tokens(0.0)
    line.leave(waiter, 0.0)
    assert line.tokens(0.0) == before + 1


@each_line
def test_reservation_that_is_cancelled_leaves_no_trace_in_the_line(kind: str) -> None:
    line = EMPTY[kind]()
    before = line.tokens(0.0)
    waiter = line.reserve(1, 0.0, None, True)
    reservation = line.reserve(1, 0.0, None)
    line.cancel(reservation, 0.0)
    assert line.tokens(0.0) == before - 1
    line.leave(waiter, 0.0)
    assert line.tokens(0.0) == before


@pytest.mark.parametrize("kind", ["bucket", "timetable"])
def test_second_in_line_waits_for_its_promised_time_the_first_for_its_tokens(kind: str) -> None:
    line = EMPTY[kind]()
    first, second = (line.reserve(1, 0.0, None, True) for _ in range(2))
    assert line.pause(second, 0.5) == second.at - 0.5
    assert line.pause(first, 0.5) == pytest.approx(0.5)
    line.leave(first, 0.5)
    assert line.pause(first, 0.5) == 0
    assert line.pause(second, 0.5) == pytest.approx(0.5)
    assert line.pause(second, second.at - 0.25) <= 0.25


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_first_in_line_moves_up_when_the_one_before_it_leaves(rate: float) -> None:
    line = _emptied(Bucket(rate, 2, 0.0))
    first, second = (line.reserve(1, 0.0, None, True) for _ in range(2))
    assert line.leave(first, 0.0) == [second]
    assert line.pause(second, 0.0) == pytest.approx(1 / rate)


def test_first_in_line_waits_its_time_out_when_nothing_is_refilled() -> None:
    line = EMPTY["bucket"]()
    waiter = line.reserve(1, 0.0, None, True)
    line.change(0.0, 2, 0.0)
    assert line.pause(waiter, 0.0) == waiter.at
    assert line.leave(waiter, 0.0) == []


def test_waiters_behind_a_large_one_pass_when_it_leaves() -> None:
    line = Bucket(1.0, 5, 0.0)
    line.reserve(2, 0.0, None)
    large = line.reserve(5, 0.0, None, True)
    small = line.reserve(1, 0.0, None, True)
    assert line.leave(large, 0.0) == [small]
    assert not line.waiting


def test_waiter_at_the_end_that_leaves_wakes_no_other() -> None:
    line = EMPTY["bucket"]()
    _, last = (line.reserve(1, 0.0, None, True) for _ in range(2))
    assert line.leave(last, 0.0) == []


@pytest.mark.parametrize("kind", ["bucket", "timetable"])
def test_nothing_is_given_back_where_the_limit_was_lifted(kind: str) -> None:
    line = EMPTY[kind]()
    waiter = line.reserve(1, 0.0, None, True)
    line.change(math.inf, 2, 0.0)
    assert line.leave(waiter, 0.0) == [] and not waiter.returned


# Tokens that are all but there.


def test_nearness_of_a_token_grows_with_the_clocks_own_noise() -> None:
    assert near(1.0, 0.0) == 1e-9
    assert near(1e6, 1e6) == pytest.approx(2e6 * math.ulp(1e6))
    assert near(1e12, 1e6) == MOST_NEAR


def test_token_that_is_all_but_there_is_there() -> None:
    line = Bucket(1.0, 2, 0.0)
    line.level = 1.0 - 5e-10
    grant = line.reserve(1, 0.0, None)
    assert grant.delay(0.0) == 0
    assert line.tokens(0.0) == 0


@pytest.mark.parametrize("now", [0.0, 100.0])
def test_place_that_has_all_but_come_has_come(now: float) -> None:
    table = Timetable(1.0, 2, now)
    table.charge(1.0 + 1e-10, now)
    assert table.start(1, now)
    assert table.reserve(1, now, None).at == now + 1.0


def test_place_that_is_a_little_away_has_not_come() -> None:
    table = Timetable(1000.0, 2, 0.0)
    table.charge(1.0 + 5e-7, 0.0)
    assert not table.start(1, 0.0)


def test_reservation_beyond_the_burst_never_comes() -> None:
    for line in (Bucket(1.0, 2, 0.0), leased(burst=2)):
        grant = line.reserve(3, 0.0, None)
        assert (grant.ok, grant.at, grant.delay(0.0)) == (False, math.inf, math.inf)
        assert line.wait_for(3, 0.0) == math.inf


def test_token_that_is_there_needs_no_refill() -> None:
    assert Bucket(0.0, 1, 0.0).wait_for(1, 0.0) == 0
    assert Bucket(0.0, 1, 0.0).wait_for(2, 0.0) == math.inf


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_reservation_before_a_waiter_that_left_is_given_back_whole(rate: float) -> None:
    line = _emptied(Bucket(rate, 2, 0.0))
    reservation = line.reserve(1, 0.0, None)
    waiter = line.reserve(1, 0.0, None, True)
    line.leave(waiter, 0.0)
    line.cancel(reservation, 0.0)
    assert line.tokens(0.0) == 0


def test_idle_timetable_starts_at_once_after_a_change() -> None:
    table = Timetable(1.0, 1, 0.0)
    table.change(0.5, 1, 10.0)
    assert table.start(1, 10.0)
    assert table.reserve(1, 10.0, None).at == 12.0


# A pacer.


def test_pacer_waits_for_calls_without_a_cost_and_refuses_negative_ones() -> None:
    clock = sp.testing.FakeClock()
    pacer = sp.Pacer(1.0, clock=clock)
    pacer.wait(0)
    assert clock.sleeps == []
    with pytest.raises(ValueError, match=r"^Pacer: n must"):
        pacer.wait(-1)


def test_pacer_that_is_reset_has_nothing_booked() -> None:
    clock = sp.testing.FakeClock()
    clock.advance(50)
    pacer = sp.Pacer(1.0, 2, clock=clock)
    pacer.allow(10)
    assert not pacer.allow()
    pacer.reset()
    assert (pacer.rate, pacer.burst) == (1.0, 2)
    assert [pacer.allow() for _ in range(3)] == [True, True, False]
    assert pacer.ready_in() == pytest.approx(1.0)


# The share of a process in a fleet.


def test_wait_for_leased_tokens_is_that_of_the_fair_share() -> None:
    line = leased(10.0, 20, instances=2, credit=5)
    assert [line.wait_for(n, 0.0) for n in (4, 5, 7, 20, 21)] == [0, 0, 0.4, 3, math.inf]


def test_lent_tokens_that_mature_sooner_than_the_share_are_counted_on() -> None:
    line = leased(10.0, 20, instances=2)
    line.take(0, 10, 0.0, -10.0, 2, 0.0)
    # Ten mature within a second; the share is five a second.
    assert line.wait_for(4, 0.0) == pytest.approx(0.4)
    assert line.wait_for(12, 0.0) == pytest.approx(1.4)
    # Half a token of them is left to mature.
    assert line.wait_for(10, 0.95) == pytest.approx(0.05)
    assert line.wait_for(11, 0.95) == pytest.approx(0.25)


def test_lent_tokens_that_mature_later_than_the_share_are_not() -> None:
    line = leased(10.0, 20)
    line.take(0, 10, 0.0, -30.0, 1, 0.0)
    assert line.wait_for(4, 0.0) == pytest.approx(0.4)


def test_whole_burst_may_be_reserved() -> None:
    line = leased(10.0, 20, instances=2)
    assert line.reserve(20, 0.0, None).delay(0.0) < math.inf


def test_leased_reservation_gives_back_what_later_ones_do_not_count_on() -> None:
    line = leased()
    one = line.reserve(1, 0.0, None)
    line.cancel(one, 0.0)
    assert line.tokens(0.0) == 0
    two = line.reserve(2, 0.0, None)
    line.reserve(1, 0.0, None)
    line.cancel(two, 0.0)
    assert line.tokens(0.0) == -2


@pytest.mark.parametrize("end", ["cancel", "leave"])
def test_grant_of_another_bucket_is_not_given_back_here(end: str) -> None:
    line = leased()
    for other in (leased(), EMPTY["bucket"]()):
        grant = other.reserve(1, 0.0, None, True)
        assert not getattr(line, end)(grant, 0.0)
        assert line.tokens(0.0) == 0 and not grant.returned


def test_tokens_of_waiters_count_as_held_and_are_asked_for() -> None:
    line = leased(10.0, 20, instances=2)
    line.take(0, 5, 5.0, 0.0, 2, 0.0)
    waiter = line.reserve(7, 0.0, None, True)
    assert line.held(0.0) == 5
    assert line.ask(0.1) == (0, 2)
    assert line.demand.rate > 0
    line.take(0, 2, 2.0, 0.0, 2, 0.1)
    assert line.tokens(0.1) == 0
    assert line.advance(0.1) == [waiter]
