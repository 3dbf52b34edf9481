"""The pacer's timetable and the adaptive rate's tokens by themselves, with the time given."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stormproof as sp
from stormproof._strategies.adaptive.rules.cubic import Cubic, Tokens
from stormproof._strategies.limiter.pacer import Timetable


def table(rate: float = 2.0, burst: int = 1, now: float = 0.0) -> Timetable:
    return Timetable(rate, burst, now)


def test_places_are_evenly_apart() -> None:
    made = table()
    grants = [made.reserve(1, 0.0, None) for _ in range(3)]
    assert [grant.at for grant in grants] == [0.0, 0.5, 1.0]
    assert [grant.mark for grant in grants] == [1, 2, 3]
    assert all((grant.ok, grant.n, grant.rate) == (True, 1, 2.0) for grant in grants)
    assert made.booked == 3


def test_burst_starts_together() -> None:
    made = table(burst=3)
    assert made.tokens(0.0) == 3.0
    assert [made.reserve(1, 0.0, None).at for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert (made.tokens(0.0), made.tokens(1.0), made.tokens(99.0)) == (-2.0, 0.0, 3.0)


def test_cost_of_a_call_delays_the_next_one() -> None:
    made = table()
    assert made.reserve(4, 0.0, 0.0).at == 0.0
    assert made.reserve(1, 0.0, None).at == 2.0


def test_place_that_comes_in_time_is_taken_and_a_later_one_is_not() -> None:
    made = table()
    made.reserve(1, 0.0, None)
    assert made.reserve(1, 0.0, 0.5).ok
    refused = made.reserve(1, 0.0, 0.999)
    assert (refused.ok, refused.at, refused.mark, made.booked) == (False, 1.0, 2, 2)


def test_zero_tokens_cost_nothing_and_an_unlimited_rate_takes_none() -> None:
    made = table()
    made.reserve(1, 0.0, None)
    free = made.reserve(0, 0.0, 0.0)
    assert (free.ok, free.n, free.at, free.mark) == (True, 0, 0.0, 0.0)
    assert made.start(0, 0.0)
    endless = table(rate=math.inf)
    assert endless.reserve(5, 1.0, 0.0).at == 1.0
    assert endless.start(5, 1.0)
    endless.charge(5, 1.0)
    assert (endless.booked, endless.tokens(1.0)) == (0, 1.0)


def test_call_starts_at_once_when_its_place_has_come() -> None:
    made = table(burst=2)
    assert [made.start(1, 0.0) for _ in range(3)] == [True, True, False]
    assert made.booked == 2
    assert not made.start(1, 0.499)
    assert made.start(1, 0.5)


def test_charge_may_be_given_back() -> None:
    made = table()
    made.charge(4, 0.0)
    assert made.reserve(1, 0.0, None).at == 2.0
    made.charge(-3, 0.0)
    assert made.reserve(1, 0.0, None).at == 1.0
    made.charge(-99, 0.25)
    assert made.reserve(1, 0.25, None).at == 0.25


def test_cancelled_place_comes_back_once_and_before_its_time() -> None:
    made = table()
    made.reserve(1, 0.0, None)
    grant = made.reserve(2, 0.0, None)
    made.cancel(grant, 0.5)
    assert (grant.returned, grant.given_back, made.booked) == (True, 2.0, 1)
    made.cancel(grant, 0.5)
    assert made.booked == 1
    late = made.reserve(1, 0.5, None)
    made.cancel(late, 0.6)
    assert (late.returned, made.booked) == (False, 2)


def test_places_booked_behind_a_cancelled_one_stay_booked() -> None:
    made = table()
    made.reserve(1, 0.0, None)
    first, second = made.reserve(3, 0.0, None), made.reserve(1, 0.0, None)
    made.cancel(first, 0.0)
    assert (first.given_back, made.booked) == (2.0, 3.0)
    assert second.at == 2.0
    third = made.reserve(1, 0.0, None)
    assert third.at == 1.5
    made.leave(third, 0.0)
    assert made.booked == 3.0


def test_new_rate_moves_booked_places() -> None:
    made = table()
    made.charge(4, 0.0)
    made.change(4.0, 1, 1.0)
    # Two of the four were still to come, now twice as fast.
    assert (made.rate, made.burst, made.reserve(1, 1.0, None).at) == (4.0, 1, 1.5)
    made.change(math.inf, 2, 1.0)
    assert (made.burst, made.tokens(1.0)) == (2, 2.0)
    made.change(2.0, 1, 1.0)
    assert made.reserve(1, 1.0, None).at == 1.0


def test_steady_time_never_decreases() -> None:
    made = table(now=100.0)
    assert made.steady(105.0) == 105.0
    assert made.steady(45.0) == 105.0
    assert made.steady(47.0) == 107.0
    assert made.steady(7.0) == 107.0
    assert made.steady(8.0) == 108.0
    made.move(1000.0)
    assert made.steady(1000.0) == 108.0
    assert made.steady(1001.0) == 109.0


# The tokens of the adaptive rate.


def test_tokens_refill_up_to_their_capacity() -> None:
    tokens = Tokens(0.5, 10.0)
    assert (tokens.held, tokens.capacity, tokens.refilled) == (0.0, 1.0, 0.0)
    tokens.refill(11.0)
    assert (tokens.held, tokens.refilled) == (0.5, 0.5)
    tokens.refill(20.0)
    assert (tokens.held, tokens.refilled) == (1.0, 1.0)
    tokens.refill(21.0)
    assert (tokens.held, tokens.refilled) == (1.0, 1.0)


def test_take_returns_the_sum_to_wait_for() -> None:
    tokens = Tokens(0.5, 0.0)
    assert tokens.take(2.0) == 1.0
    assert tokens.take(2.0) == 2.0
    assert tokens.take(2.0) == 3.0
    assert tokens.wait(2.0, 2.0) == 2.0
    assert tokens.wait(3.0, 3.0) == 3.0
    assert tokens.wait(2.0, 4.0) == 0.0
    tokens.give_back()
    assert tokens.held == 0.0
    tokens.give_back()
    tokens.give_back()
    assert tokens.held == 1.0


def test_rest_within_rounding_needs_no_wait() -> None:
    tokens = Tokens(1e9, 0.0)
    assert tokens.wait(1e-6, 0.0) == 0.0
    assert tokens.wait(2e-6, 0.0) == 1e-6
    assert tokens.wait(1e6, 0.0) == 1e-3


def test_new_rate_holds_one_second_of_tokens() -> None:
    tokens = Tokens(10.0, 0.0)
    tokens.change(5.0, 4.0, 1.0)
    assert (tokens.capacity, tokens.fill, tokens.held) == (5.0, 4.0, 1.0)
    tokens.refill(10.0)
    assert tokens.held == 5.0
    assert tokens.take(10.0) == tokens.refilled == 5.0
    tokens.change(0.25, 0.25, 10.0)
    assert (tokens.capacity, tokens.held) == (1.0, 1.0)


# The cubic curve.


def cubic(now: float = 0.0) -> Cubic:
    return Cubic(now, beta=0.7, scale=0.4, smoothing=0.8, min_rate=0.5)


def test_cubic_starts_disabled_at_its_floor() -> None:
    made = cubic()
    assert (made.enabled, made.fill, made.measured) == (False, 0.5, 0.0)


def test_rate_is_measured_in_halves_of_a_second() -> None:
    made = cubic(10.9)
    # The stretch began with the whole second.
    made.settle(False, 10.95)
    assert made.measured == pytest.approx(1 / 0.5 * 0.8)
    made.settle(False, 10.99)
    before = made.measured
    made.settle(False, 12.2)
    assert made.measured == pytest.approx(2 / 1.5 * 0.8 + before * 0.2)
    made.settle(False, 12.3)
    assert made.measured == pytest.approx(2 / 1.5 * 0.8 + before * 0.2)


def throttled() -> Cubic:
    """One that was throttled at 1 s, when 10 answers had come in a second."""
    made = cubic()
    for _ in range(9):
        made.settle(False, 0.2)
    assert made.settle(True, 1.0) == pytest.approx(8.0 * 0.7)
    return made


def test_throttling_cuts_the_measured_rate() -> None:
    made = throttled()
    assert made.enabled
    assert made.measured == pytest.approx(8.0)
    assert made.fill == pytest.approx(5.6)


def test_cubic_grows_along_the_curve() -> None:
    made = throttled()
    k = (8.0 * 0.3 / 0.4) ** (1 / 3)
    assert made.grown(1.0) == pytest.approx(5.6)
    assert made.grown(1.0 + k) == pytest.approx(8.0)
    assert made.grown(1.0 + 2 * k) == pytest.approx(8.0 + 2.4)


def test_second_throttling_cuts_the_lesser_of_measured_and_allowed() -> None:
    made = throttled()
    assert made.settle(True, 1.1) == pytest.approx(5.6 * 0.7)
    for _ in range(4):
        made.settle(False, 1.2)
    made.fill = 100.0
    assert made.settle(True, 1.3) == pytest.approx(8.0 * 0.7)


def test_rate_is_at_most_twice_the_measured_one_and_never_below_the_floor() -> None:
    made = throttled()
    rate = made.settle(False, 100.0)
    assert rate == pytest.approx(2 * made.measured)
    assert made.fill == pytest.approx(2 * made.measured)
    slow = cubic()
    assert slow.settle(True, 0.1) == 0.0
    assert slow.fill == 0.5


def test_waiter_that_leaves_early_gives_all_to_those_behind() -> None:
    made = table()
    made.reserve(1, 0.0, None)
    first, second = made.reserve(4, 0.0, None, True), made.reserve(1, 0.0, None, True)
    assert made.pause(second, 0.0) == second.at
    assert made.leave(first, 0.0) == [second]
    assert first.given_back == 4.0
    assert made.pause(second, 0.0) == pytest.approx(first.at)
    made.leave(second, 0.0)
    assert made.booked == 1.0


def test_leaving_an_endless_rate_books_nothing() -> None:
    made = table(rate=math.inf)
    made.change(2.0, 1, 5.0)
    assert made._full == 5.0


# The pacer around it.


def pacer(rate: float = 2.0) -> tuple[sp.Pacer, sp.testing.FakeClock]:
    clock = sp.testing.FakeClock()
    return sp.Pacer(rate, clock=clock), clock


def test_pacer_refuses_invalid_arguments() -> None:
    made, _ = pacer()
    with pytest.raises(ValueError, match=r"^Pacer: n must be .*, got -1$"):
        made.allow(-1)
    with pytest.raises(ValueError, match=r"^Pacer: n must be .*, got -1$"):
        made.reserve(-1)
    with pytest.raises(ValueError, match=r"^Pacer: max_wait must be .*, got -1$"):
        made.reserve(1, -1)
    assert made.allow(np.int64(0))  # type: ignore[arg-type]


def test_call_of_any_cost_is_ready_when_its_place_has_come() -> None:
    made, _ = pacer()
    assert (made.ready_in(), made.ready_in(5), made.ready_in(0)) == (0.0, 0.0, 0.0)
    made.reserve(1)
    assert (made.ready_in(), made.ready_in(5), made.ready_in(0)) == (0.5, 0.5, 0.0)


def test_fresh_copy_keeps_the_clock() -> None:
    made, clock = pacer()
    made.reserve(3)
    copy = made.fresh()
    assert (copy.rate, copy.burst, copy.clock, copy.tokens()) == (2.0, 1, clock, 1.0)
