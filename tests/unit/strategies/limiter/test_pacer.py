"""The pacer: calls evenly apart, costs paid afterwards, places in order."""

from __future__ import annotations

import math
import pickle
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, each_loop

import stormproof as sp


@pytest.fixture
def clock() -> sp.testing.FakeClock:
    return sp.testing.FakeClock(50.0)


def test_calls_are_evenly_apart(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(4, clock=clock)
    clock.advance(3600)
    assert [pacer.reserve().delay for _ in range(5)] == [0, 0.25, 0.5, 0.75, 1]


def test_idle_time_of_a_pacer_is_not_made_up_for(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(4, clock=clock)
    assert pacer.allow()
    clock.advance(10)
    assert pacer.allow() and not pacer.allow()


def test_burst_calls_may_go_at_once(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(4, 3, clock=clock)
    assert [pacer.reserve().delay for _ in range(5)] == [0, 0, 0, 0.25, 0.5]


def test_cost_is_paid_after_the_call(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(10, clock=clock)
    assert pacer.reserve(50).delay == 0
    assert pacer.reserve(1).delay == 5
    assert pacer.ready_in(1) == pytest.approx(5.1)
    clock.advance(5.1)
    assert pacer.allow(100)


def test_cost_of_zero_takes_no_place(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(1, clock=clock)
    pacer.allow()
    assert pacer.allow(0) and pacer.ready_in(0) == 0
    assert not pacer.allow(1)


def test_refusal_changes_nothing(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(1, clock=clock)
    pacer.allow()
    refused = pacer.reserve(1, max_wait=0.999)
    assert (refused.ok, refused.delay) == (False, math.inf)
    refused.cancel()
    assert pacer.tokens() == 0
    assert pacer.reserve(1, max_wait=timedelta(seconds=1)).ok


def test_infinite_rate_paces_nothing(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(math.inf, clock=clock)
    assert all(pacer.allow(1000) for _ in range(100))
    assert (pacer.tokens(), pacer.ready_in()) == (1, 0)
    pacer.reserve().cancel()
    pacer.charge(5)
    assert pacer.tokens() == 1


def test_cancelled_slot_is_returned_unless_later_ones_follow(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(1, clock=clock)
    pacer.allow()
    first, second = pacer.reserve(), pacer.reserve()
    first.cancel()
    assert pacer.tokens() == -2
    second.cancel()
    second.cancel()
    assert pacer.tokens() == -1


def test_cancelling_after_its_time_gives_nothing_back(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(1, clock=clock)
    pacer.allow()
    place = pacer.reserve()
    clock.advance(1.5)
    place.cancel()
    assert pacer.tokens() == 0.5


def test_wrong_cost_is_corrected(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(1, clock=clock)
    pacer.allow(10)
    pacer.charge(-4)
    assert pacer.ready_in() == 6
    pacer.charge(2)
    assert pacer.ready_in() == 8
    pacer.charge(-100)
    assert pacer.tokens() == 1


def test_new_rate_moves_booked_places(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(1, clock=clock)
    pacer.allow(8)
    pacer.set_rate(4)
    assert pacer.ready_in() == 2
    pacer.set_rate(math.inf)
    assert pacer.ready_in() == 0
    pacer.set_rate(1)
    assert pacer.tokens() == 1


def test_slot_cancelled_after_a_rate_change_is_returned_at_the_new_rate(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(1, clock=clock)
    pacer.allow(2)
    place = pacer.reserve(6)
    pacer.set_rate(2)
    place.cancel()
    assert pacer.ready_in() == 1


def test_new_burst_applies_at_once(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(1, clock=clock)
    pacer.allow()
    pacer.set_burst(3)
    assert pacer.tokens() == 2
    assert (pacer.rate, pacer.burst) == (1, 3)


@pytest.mark.parametrize("jump", [-3600, -0.5, 10 * 365 * 86400])
def test_clock_jump_does_not_delay_the_pacer(clock: sp.testing.FakeClock, jump: float) -> None:
    pacer = sp.Pacer(1, clock=clock)
    pacer.allow()
    clock.advance(jump)
    assert pacer.ready_in() <= 1
    assert sum(pacer.allow() for _ in range(5)) <= 1
    clock.advance(1)
    assert pacer.allow()


def test_place_keeps_its_delay_when_the_clock_is_set_back(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(1, clock=clock)
    pacer.allow(3)
    place = pacer.reserve()
    clock.advance(-1000)
    assert place.delay == 3


def test_wait_sleeps_until_its_place(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(4, clock=clock)
    for _ in range(3):
        pacer.wait()
    assert clock.sleeps == [0.25, 0.25]
    with sp.deadline(0.1, clock=clock), pytest.raises(sp.DeadlineExceeded):
        pacer.wait()
    assert pacer.ready_in() == 0.25


def test_interrupted_wait_gives_its_place_back() -> None:
    class Interrupted(sp.testing.FakeClock):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    pacer = sp.Pacer(1, clock=Interrupted())
    pacer.wait()
    with pytest.raises(KeyboardInterrupt):
        pacer.wait()
    assert pacer.ready_in() == 1


@each_loop
def test_tasks_wait_and_may_be_cancelled(loop: Loop) -> None:
    async def scenario() -> None:
        clock = LoopClock(loop)
        pacer = sp.Pacer(4, clock=clock)
        began = loop.time()
        await pacer.wait_async()
        await pacer.wait_async()
        assert loop.time() - began == pytest.approx(0.25)
        assert await loop.cut(0.1, pacer.wait_async)
        await pacer.wait_async()
        assert loop.time() - began == pytest.approx(0.5)
        with pytest.raises(sp.DeadlineExceeded):
            async with sp.deadline(0.1, clock=clock):
                await pacer.wait_async()

    loop.run(scenario)


# Dyadic times and rates: floats are exact, so the two must agree exactly.
EIGHTHS = st.integers(0, 24).map(lambda count: count / 8)


@given(
    st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from(["advance", "allow", "reserve"]), EIGHTHS), max_size=40),
)
def test_pacer_admits_as_a_limiter_does_for_calls_of_cost_1(
    rate: float, burst: int, script: list[Any]
) -> None:
    clock = sp.testing.FakeClock(64.0)
    limiter, pacer = sp.Limiter(rate, burst, clock=clock), sp.Pacer(rate, burst, clock=clock)
    for what, amount in script:
        if what == "advance":
            clock.advance(amount)
        elif what == "allow":
            assert limiter.allow() == pacer.allow()
        else:
            one, other = limiter.reserve(1, amount), pacer.reserve(1, amount)
            assert (one.ok, one.delay) == (other.ok, other.delay)
        assert limiter.tokens() == pacer.tokens()


@given(st.integers(1, 4), EIGHTHS, st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_places_cancelled_in_reverse_order_leave_no_trace(burst: int, gap: float, costs: list[int]) -> None:
    clock = sp.testing.FakeClock(64.0)
    pacer = sp.Pacer(2, burst, clock=clock)
    pacer.allow(3)
    clock.advance(gap)
    before = pacer.tokens()
    places = [pacer.reserve(cost) for cost in costs]
    for place in reversed(places):
        place.cancel()
    assert pacer.tokens() == before


@given(st.integers(1, 5), st.lists(st.tuples(EIGHTHS, st.integers(0, 6)), min_size=1, max_size=40))
def test_no_window_admits_more_than_its_share(burst: int, script: list[Any]) -> None:
    """Calls that start within [t, t + w], less the last (which is paid afterwards), fit burst + rate * w."""
    clock = sp.testing.FakeClock()
    pacer = sp.Pacer(2, burst, clock=clock)
    started: list[tuple[float, int]] = []
    for gap, cost in script:
        clock.advance(gap)
        if pacer.allow(cost) and cost:
            started.append((clock.now(), cost))
    for i, (start, _) in enumerate(started):
        total = 0
        for at, cost in started[i:]:
            assert total <= burst - 1 + 2 * (at - start)
            total += cost


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rate": 0}, "rate must be > 0, got 0"),
        ({"rate": -1}, "rate must be > 0, got -1"),
        ({"rate": math.nan}, "rate must be a number, not NaN"),
        ({"rate": True}, "rate must be a number, got True"),
        ({"rate": 1, "burst": 0}, "burst must be >= 1, got 0"),
        ({"rate": "0/s"}, "rate must be > 0, got 0"),
        ({"rate": 1, "clock": object()}, "clock must have now"),
    ],
)
def test_invalid_option_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"Pacer: {says}"):
        sp.Pacer(**options)


@pytest.mark.parametrize("n", [-1, 1.5, True, "1"])
def test_invalid_cost_is_refused(n: Any) -> None:
    pacer = sp.Pacer(1)
    for method in (pacer.allow, pacer.reserve, pacer.wait):
        with pytest.raises((TypeError, ValueError), match="Pacer: n must be"):
            method(n)


def test_copy_of_a_pacer_has_all_its_tokens(clock: sp.testing.FakeClock) -> None:
    pacer = sp.Pacer(2, 3, clock=clock)
    pacer.allow(9)
    for copy in (pacer.fresh(), pickle.loads(pickle.dumps(pacer)), eval(repr(pacer), {"Pacer": sp.Pacer})):
        assert (copy.rate, copy.burst, copy.tokens()) == (2, 3, 3)
    assert pacer.describe() == {"kind": "Pacer", "rate": 2.0, "burst": 3, "tokens": -6.0}
    pacer.use_clock(sp.testing.FakeClock())
    assert pacer.clock is clock


def test_pacer_takes_the_policys_clock_and_keeps_its_place() -> None:
    pacer = sp.Pacer(0.001)
    pacer.allow()
    clock = sp.testing.FakeClock(7.0)
    sp.Policy(sp.RateLimit(pacer), clock=clock)
    assert pacer.ready_in() == pytest.approx(1000, abs=1)
    clock.advance(400)
    assert pacer.ready_in() == pytest.approx(600, abs=1)
