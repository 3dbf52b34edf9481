"""A limiter lives through anything: calls that wait and are cancelled, changed rates, clocks that jump.

What must hold whatever happens: the tokens stay within the burst, what was granted at one moment and
not given back fits the rate, those who wait are served in order, and time alone makes it full again.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from tests.support.go_rate import GoRate

import stormproof as sp

RATES = st.sampled_from([0.5, 1.0, 2.0, 4.0])
EIGHTHS = st.integers(0, 64).map(lambda count: count / 8)


class LimiterMachine(RuleBasedStateMachine):
    waiting = Bundle("waiting")

    @initialize(rate=RATES, burst=st.integers(1, 5))
    def make(self, rate: float, burst: int) -> None:
        self.clock = sp.testing.FakeClock(64.0)
        self.limiter = sp.Limiter(rate, burst, clock=self.clock)
        self.model = GoRate(rate, burst, self.now)
        self.queue: list[Any] = []

    @property
    def now(self) -> Fraction:
        return Fraction(self.clock.now())

    @rule(n=st.integers(0, 6))
    def try_at_once(self, n: int) -> None:
        before = self.limiter.tokens()
        admitted = self.limiter.allow(n)
        assert admitted == (n <= before and n <= self.limiter.burst)
        assert self.limiter.tokens() == (before - n if admitted else before)
        self.model.reserve(n, self.now, Fraction(0))

    @rule(target=waiting, n=st.integers(1, 5), patience=st.none() | EIGHTHS)
    def queue_up(self, n: int, patience: float | None) -> Any:
        reservation = self.limiter.reserve(n, patience)
        reserved = self.model.reserve(n, self.now, None if patience is None else Fraction(patience))
        assert reservation.ok == reserved.ok
        if not reservation.ok:
            return multiple()
        assert patience is None or reservation.delay <= patience
        # First come, first served: no caller gets an earlier time than one that waits already.
        for other in self.queue:
            assert reservation.delay >= other.delay
        self.queue.append(reservation)
        return (reservation, reserved)

    @rule(pair=consumes(waiting))
    def leave_the_queue(self, pair: Any) -> None:
        before = self.limiter.tokens()
        pair[0].cancel()
        self.model.cancel(pair[1], self.now)
        assert before <= self.limiter.tokens() <= self.limiter.burst
        # Its time may go to a newcomer, which then stands before earlier waiters.
        self.queue = []

    @rule(seconds=EIGHTHS)
    def time_passes(self, seconds: float) -> None:
        before = self.limiter.tokens()
        # A clock that was set back, and has not been asked since, refills from where it had been.
        idle = max(0.0, float(self.model.last) - self.clock.now())
        self.clock.advance(seconds)
        gained = max(0.0, seconds - idle) * self.limiter.rate
        assert self.limiter.tokens() == min(self.limiter.burst, before + gained)

    @rule(seconds=EIGHTHS)
    def the_clock_is_set_back(self, seconds: float) -> None:
        before = self.limiter.tokens()
        self.clock.advance(-seconds)
        assert self.limiter.tokens() <= before
        self.queue = []

    @rule(rate=RATES)
    def another_rate(self, rate: float) -> None:
        before = self.limiter.tokens()
        self.limiter.set_rate(rate)
        self.model.set_rate(rate, self.now)
        assert self.limiter.tokens() == before
        self.queue = []

    @rule(burst=st.integers(1, 5))
    def another_burst(self, burst: int) -> None:
        before = self.limiter.tokens()
        self.limiter.set_burst(burst)
        self.model.set_burst(burst, self.now)
        assert self.limiter.tokens() == min(before, burst)
        self.queue = []

    @rule()
    def a_quiet_time_makes_it_full(self) -> None:
        missing = self.limiter.burst - self.limiter.tokens()
        idle = max(0.0, float(self.model.last) - self.clock.now())
        self.clock.advance(idle + missing / self.limiter.rate)
        assert self.limiter.tokens() == self.limiter.burst

    @invariant()
    def it_agrees_with_the_model(self) -> None:
        assert self.limiter.tokens() == self.model.tokens(self.now) <= self.limiter.burst


LimiterMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=30)
TestLimiterMachine = pytest.mark.proves("invariant 14")(LimiterMachine.TestCase)
