"""Any sequence of operations gives the answers that Go's limiter would give.

Rates are powers of two and times are multiples of 1/8 s, so that floats are exact and the model in
fractions can be compared with ``==``: a wrong answer is never excused by rounding.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.go_rate import GoRate

import stormproof as sp

RATES = st.sampled_from([1.0, 2.0, 0.5, 4.0, 0.25, 8.0, 0.0, math.inf])
BURSTS = st.integers(0, 6)
COUNTS = st.integers(0, 5)
STEPS = st.integers(0, 24).map(lambda eighths: eighths / 8)
WAITS = st.none() | st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0])
RESERVE = st.tuples(st.just("reserve"), COUNTS, WAITS)
CANCEL = st.tuples(st.just("cancel"), st.integers(0, 7))

#: Those that make the interesting states come up more often than the others.
OPERATIONS = st.one_of(
    RESERVE,
    RESERVE,
    CANCEL,
    CANCEL,
    st.tuples(st.just("advance"), STEPS),
    st.tuples(st.just("advance"), STEPS),
    st.tuples(st.just("allow"), COUNTS),
    st.tuples(st.just("back"), STEPS),
    st.tuples(st.just("set_rate"), RATES),
    st.tuples(st.just("set_burst"), BURSTS),
)


class Twins:
    """The limiter and its model, given the same operations."""

    def __init__(self, rate: float, burst: int) -> None:
        self.clock = sp.testing.FakeClock(1000.0)
        self.limiter = sp.Limiter(rate, burst, clock=self.clock)
        self.model = GoRate(rate, burst, self.now)
        self.pairs: list[tuple[Any, Any]] = []

    @property
    def now(self) -> Fraction:
        return Fraction(self.clock.now())

    def do(self, name: str, *values: Any) -> None:
        getattr(self, name)(*values)
        assert self.limiter.tokens() == self.model.tokens(self.now)
        assert (self.limiter.rate, self.limiter.burst) == (self.model.rate, self.model.burst)
        for reservation, reserved in self.pairs:
            assert reservation.delay == reserved.delay(self.now)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def back(self, seconds: float) -> None:
        self.clock.advance(-seconds)

    def allow(self, n: int) -> None:
        assert self.limiter.allow(n) == self.model.reserve(n, self.now, Fraction(0)).ok

    def reserve(self, n: int, longest: float | None) -> None:
        reservation = self.limiter.reserve(n, longest)
        reserved = self.model.reserve(n, self.now, None if longest is None else Fraction(longest))
        assert reservation.ok == reserved.ok
        self.pairs.append((reservation, reserved))

    def cancel(self, which: int) -> None:
        if self.pairs:
            reservation, reserved = self.pairs[which % len(self.pairs)]
            reservation.cancel()
            self.model.cancel(reserved, self.now)

    def set_rate(self, rate: float) -> None:
        self.limiter.set_rate(rate)
        self.model.set_rate(rate, self.now)

    def set_burst(self, burst: int) -> None:
        self.limiter.set_burst(burst)
        self.model.set_burst(burst, self.now)


@given(RATES, BURSTS, st.lists(OPERATIONS, max_size=40))
@settings(max_examples=300)
# What stood before the cancelled one has had its time already: it stays the last event.
@example(
    1.0,
    2,
    [
        ("allow", 2),
        ("advance", 1.5),
        ("reserve", 1, None),
        ("reserve", 1, None),
        ("cancel", 1),
        ("cancel", 0),
    ],
)
# Of what is cancelled, those behind it keep what they count on.
@example(1.0, 3, [("allow", 3), ("reserve", 3, None), ("reserve", 1, None), ("cancel", 0)])
# Half of the wait is over: the one before it is not the last event.
@example(
    1.0,
    1,
    [
        ("allow", 1),
        ("reserve", 1, None),
        ("advance", 0.5),
        ("reserve", 1, None),
        ("cancel", 1),
        ("cancel", 0),
    ],
)
@example(
    1.0,
    2,
    [("allow", 1), ("reserve", 2, 1.0), ("advance", 0.5), ("cancel", 0), ("reserve", 2, None), ("cancel", 1)],
)
# A reservation cancelled after the rate has changed goes back by the rate at which it was made.
@example(
    1.0, 2, [("reserve", 2, None), ("reserve", 2, None), ("set_rate", 4.0), ("cancel", 1), ("cancel", 0)]
)
@example(
    1.0,
    2,
    [
        ("reserve", 2, None),
        ("reserve", 1, None),
        ("reserve", 2, None),
        ("set_rate", 8.0),
        ("cancel", 2),
        ("cancel", 1),
    ],
)
# Nothing was taken at an infinite rate, so nothing comes back.
@example(
    1.0, 3, [("allow", 3), ("set_rate", math.inf), ("reserve", 2, None), ("set_rate", 1.0), ("cancel", 0)]
)
# Passing through an infinite rate in no time refills nothing.
@example(1.0, 3, [("allow", 3), ("set_rate", math.inf), ("set_rate", 1.0), ("allow", 1)])
# Time that is lived again refills, as in Go; the burst is never exceeded.
@example(
    1.0, 3, [("advance", 10.0), ("allow", 3), ("back", 10.0), ("allow", 1), ("allow", 0), ("advance", 10.0)]
)
@example(
    1.0, 1, [("advance", 9.0), ("allow", 1), ("back", 9.0), ("allow", 1), ("advance", 1.0), ("allow", 1)]
)
# Cancelled too late, then in time after all: the clock was set back.
@example(
    1.0,
    1,
    [("allow", 1), ("reserve", 1, None), ("advance", 2.0), ("cancel", 0), ("back", 2.0), ("cancel", 0)],
)
@example(0.0, 2, [("reserve", 2, None), ("reserve", 1, None), ("cancel", 0), ("allow", 2)])
@example(math.inf, 0, [("allow", 7), ("reserve", 7, 0.0), ("cancel", 0)])
def test_every_answer_equals_that_of_the_go_limiter(rate: float, burst: int, operations: list[Any]) -> None:
    twins = Twins(rate, burst)
    for operation in operations:
        twins.do(*operation)


@pytest.mark.proves("invariant 14")
@given(
    st.sampled_from([0.5, 1.0, 3.0, 10.0, 1000.0]),
    st.integers(1, 20),
    st.lists(st.floats(0, 5, allow_nan=False), min_size=1, max_size=200),
)
def test_no_window_admits_more_than_its_share(rate: float, burst: int, gaps: list[float]) -> None:
    """In every window [t, t + w]: admitted <= burst + rate * w + 1."""
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(rate, burst, clock=clock)
    admitted: list[float] = []
    for gap in gaps:
        clock.advance(gap)
        if limiter.allow():
            admitted.append(clock.now())
    for i, start in enumerate(admitted):
        for j in range(i, len(admitted)):
            assert j - i + 1 <= burst + rate * (admitted[j] - start) + 1


@pytest.mark.proves("invariant 15")
@given(
    st.sampled_from([0.5, 2.0, 8.0]),
    st.integers(1, 10),
    st.lists(st.tuples(st.floats(-3600, 3600), st.integers(0, 12)), max_size=30),
)
def test_jumping_clock_admits_at_most_the_burst_more(rate: float, burst: int, jumps: list[Any]) -> None:
    """A jump, either way, gives at most a full bucket; and no caller waits longer for it."""
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(rate, burst, clock=clock)
    for seconds, tries in jumps:
        clock.advance(seconds)
        assert sum(limiter.allow() for _ in range(tries)) <= burst
        waiting = limiter.reserve()
        assert waiting.ok and waiting.delay <= 1 / rate + 1e-6
        waiting.cancel()


@pytest.mark.parametrize("jump", [-3600.0, -0.5, 10 * 365 * 86400.0])
def test_clock_jump_does_not_delay_allow(jump: float) -> None:
    clock = sp.testing.FakeClock(5000.0)
    limiter = sp.Limiter(2, 1, clock=clock)
    limiter.allow()
    clock.advance(jump)
    admitted = 0
    for _ in range(20):
        admitted += limiter.allow()
        clock.advance(0.25)
    assert 9 <= admitted <= 11
