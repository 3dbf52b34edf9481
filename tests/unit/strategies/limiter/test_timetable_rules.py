"""The pacer's timetable and the adaptive rate's tokens by themselves, with the time given."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stormproof as sp
from stormproof._strategies.adaptive.rules.cubic import Cubic, Tokens
from stormproof._strategies.limiter.pacer import Timetable


def make_table(rate: float = 2.0, burst: int = 1, now: float = 0.0) -> Timetable:
    return Timetable(rate, burst, now)


def test_places_are_evenly_apart() -> None:
    table = make_table()
    grants = [table.reserve(1, 0.0, None) for _ in range(3)]
    assert [grant.at for grant in grants] == [0.0, 0.5, 1.0]
    assert [grant.mark for grant in grants] == [1, 2, 3]
    assert all((grant.ok, grant.n, grant.rate) == (True, 1, 2.0) for grant in grants)
    assert table.booked == 3


def test_burst_starts_together() -> None:
    table = make_table(burst=3)
    assert table.tokens(0.0) == 3.0
    assert [table.reserve(1, 0.0, None).at for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert (table.tokens(0.0), table.tokens(1.0), table.tokens(99.0)) == (-2.0, 0.0, 3.0)


def test_cost_of_a_call_delays_the_next_one() -> None:
    table = make_table()
    assert table.reserve(4, 0.0, 0.0).at == 0.0
    assert table.reserve(1, 0.0, None).at == 2.0


def test_place_that_comes_in_time_is_taken_and_a_later_one_is_not() -> None:
    table = make_table()
    table.reserve(1, 0.0, None)
    assert table.reserve(1, 0.0, 0.5).ok
    refused = table.reserve(1, 0.0, 0.999)
    assert (refused.ok, refused.at, refused.mark, table.booked) == (False, 1.0, 2, 2)


def test_zero_tokens_cost_nothing_and_an_unlimited_rate_takes_none() -> None:
    table = make_table()
    table.reserve(1, 0.0, None)
    free = table.reserve(0, 0.0, 0.0)
    assert (free.ok, free.n, free.at, free.mark) == (True, 0, 0.0, 0.0)
    assert table.start(0, 0.0)
    endless = make_table(rate=math.inf)
    assert endless.reserve(5, 1.0, 0.0).at == 1.0
    assert endless.start(5, 1.0)
    endless.charge(5, 1.0)
    assert (endless.booked, endless.tokens(1.0)) == (0, 1.0)


def test_call_starts_at_once_when_its_place_has_come() -> None:
    table = make_table(burst=2)
    assert [table.start(1, 0.0) for _ in range(3)] == [True, True, False]
    assert table.booked == 2
    assert not table.start(1, 0.499)
    assert table.start(1, 0.5)


def test_charge_may_be_given_back() -> None:
    table = make_table()
    table.charge(4, 0.0)
    assert table.reserve(1, 0.0, None).at == 2.0
    table.charge(-3, 0.0)
    assert table.reserve(1, 0.0, None).at == 1.0
    table.charge(-99, 0.25)
    assert table.reserve(1, 0.25, None).at == 0.25


def test_cancelled_place_comes_back_once_and_before_its_time() -> None:
    table = make_table()
    table.reserve(1, 0.0, None)
    grant = table.reserve(2, 0.0, None)
    table.cancel(grant, 0.5)
    assert (grant.returned, grant.given_back, table.booked) == (True, 2.0, 1)
    table.cancel(grant, 0.5)
    assert table.booked == 1
    late = table.reserve(1, 0.5, None)
    table.cancel(late, 0.6)
    assert (late.returned, table.booked) == (False, 2)


def test_places_booked_behind_a_cancelled_one_stay_booked() -> None:
    table = make_table()
    table.reserve(1, 0.0, None)
    first, second = table.reserve(3, 0.0, None), table.reserve(1, 0.0, None)
    table.cancel(first, 0.0)
    assert (first.given_back, table.booked) == (2.0, 3.0)
    assert second.at == 2.0
    third = table.reserve(1, 0.0, None)
    assert third.at == 1.5
    table.leave(third, 0.0)
    assert table.booked == 3.0


def test_new_rate_moves_booked_places() -> None:
    table = make_table()
    table.charge(4, 0.0)
    table.change(4.0, 1, 1.0)
    # Two of the four were still to come, now twice as fast.
    assert (table.rate, table.burst, table.reserve(1, 1.0, None).at) == (4.0, 1, 1.5)
    table.change(math.inf, 2, 1.0)
    assert (table.burst, table.tokens(1.0)) == (2, 2.0)
    table.change(2.0, 1, 1.0)
    assert table.reserve(1, 1.0, None).at == 1.0


def test_steady_time_never_decreases() -> None:
    table = make_table(now=100.0)
    assert table.steady(105.0) == 105.0
    assert table.steady(45.0) == 105.0
    assert table.steady(47.0) == 107.0
    assert table.steady(7.0) == 107.0
    assert table.steady(8.0) == 108.0
    table.move(1000.0)
    assert table.steady(1000.0) == 108.0
    assert table.steady(1001.0) == 109.0


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


def make_cubic(now: float = 0.0) -> Cubic:
    return Cubic(now, beta=0.7, scale=0.4, smoothing=0.8, min_rate=0.5)


def test_cubic_starts_disabled_at_its_floor() -> None:
    cubic = make_cubic()
    assert (cubic.enabled, cubic.fill, cubic.measured) == (False, 0.5, 0.0)


def test_rate_is_measured_in_halves_of_a_second() -> None:
    cubic = make_cubic(10.9)
    # The stretch began with the whole second.
    cubic.settle(False, 10.95)
    assert cubic.measured == pytest.approx(1 / 0.5 * 0.8)
    cubic.settle(False, 10.99)
    before = cubic.measured
    cubic.settle(False, 12.2)
    assert cubic.measured == pytest.approx(2 / 1.5 * 0.8 + before * 0.2)
    cubic.settle(False, 12.3)
    assert cubic.measured == pytest.approx(2 / 1.5 * 0.8 + before * 0.2)


def throttled_cubic() -> Cubic:
    """One that was throttled at 1 s, when 10 answers had come in a second."""
    cubic = make_cubic()
    for _ in range(9):
        cubic.settle(False, 0.2)
    assert cubic.settle(True, 1.0) == pytest.approx(8.0 * 0.7)
    return cubic


def test_throttling_cuts_the_measured_rate() -> None:
    cubic = throttled_cubic()
    assert cubic.enabled
    assert cubic.measured == pytest.approx(8.0)
    assert cubic.fill == pytest.approx(5.6)


def test_cubic_grows_along_the_curve() -> None:
    cubic = throttled_cubic()
    k = (8.0 * 0.3 / 0.4) ** (1 / 3)
    assert cubic.grown(1.0) == pytest.approx(5.6)
    assert cubic.grown(1.0 + k) == pytest.approx(8.0)
    assert cubic.grown(1.0 + 2 * k) == pytest.approx(8.0 + 2.4)


def test_second_throttling_cuts_the_lesser_of_measured_and_allowed() -> None:
    cubic = throttled_cubic()
    assert cubic.settle(True, 1.1) == pytest.approx(5.6 * 0.7)
    for _ in range(4):
        cubic.settle(False, 1.2)
    cubic.fill = 100.0
    assert cubic.settle(True, 1.3) == pytest.approx(8.0 * 0.7)


def test_rate_is_at_most_twice_the_measured_one_and_never_below_the_floor() -> None:
    cubic = throttled_cubic()
    rate = cubic.settle(False, 100.0)
    assert rate == pytest.approx(2 * cubic.measured)
    assert cubic.fill == pytest.approx(2 * cubic.measured)
    slow = make_cubic()
    assert slow.settle(True, 0.1) == 0.0
    assert slow.fill == 0.5


def test_waiter_that_leaves_early_gives_all_to_those_behind() -> None:
    table = make_table()
    table.reserve(1, 0.0, None)
    first, second = table.reserve(4, 0.0, None, True), table.reserve(1, 0.0, None, True)
    assert table.pause(second, 0.0) == second.at
    assert table.leave(first, 0.0) == [second]
    assert first.given_back == 4.0
    assert table.pause(second, 0.0) == pytest.approx(first.at)
    table.leave(second, 0.0)
    assert table.booked == 1.0


def test_leaving_an_endless_rate_books_nothing() -> None:
    table = make_table(rate=math.inf)
    table.change(2.0, 1, 5.0)
    assert table._full == 5.0


# The pacer around it.


def make_pacer(rate: float = 2.0) -> tuple[sp.Pacer, sp.testing.FakeClock]:
    clock = sp.testing.FakeClock()
    return sp.Pacer(rate, clock=clock), clock


def test_pacer_refuses_invalid_arguments() -> None:
    pacer, _ = make_pacer()
    with pytest.raises(ValueError, match=r"^Pacer: n must be .*, got -1$"):
        pacer.allow(-1)
    with pytest.raises(ValueError, match=r"^Pacer: n must be .*, got -1$"):
        pacer.reserve(-1)
    with pytest.raises(ValueError, match=r"^Pacer: max_wait must be .*, got -1$"):
        pacer.reserve(1, -1)
    assert pacer.allow(np.int64(0))  # type: ignore[arg-type]


def test_call_of_any_cost_is_ready_when_its_place_has_come() -> None:
    pacer, _ = make_pacer()
    assert (pacer.ready_in(), pacer.ready_in(5), pacer.ready_in(0)) == (0.0, 0.0, 0.0)
    pacer.reserve(1)
    assert (pacer.ready_in(), pacer.ready_in(5), pacer.ready_in(0)) == (0.5, 0.5, 0.0)


def test_fresh_copy_keeps_the_clock() -> None:
    pacer, clock = make_pacer()
    pacer.reserve(3)
    copy = pacer.fresh()
    assert (copy.rate, copy.burst, copy.clock, copy.tokens()) == (2.0, 1, clock, 1.0)
