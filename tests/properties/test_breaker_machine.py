"""A breaker lives through anything: calls that end late or never, clocks that jump, hands that interfere.

What must hold whatever happens: no more probes out than allowed, nothing that ended late counts, a
cancelled call is neutral, and no state refuses for ever.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

import stormproof as sp

EIGHTHS = st.integers(0, 80).map(lambda count: count / 8)


class BreakerMachine(RuleBasedStateMachine):
    tickets = Bundle("tickets")

    @initialize(
        probes=st.integers(1, 3),
        open_for=st.integers(1, 4),
        growth=st.sampled_from([1, 2]),
        ramp=st.sampled_from([0, 0, 4]),
        lease=st.integers(1, 4),
        consecutive=st.integers(1, 3),
    )
    def make(self, probes: int, open_for: int, growth: int, ramp: int, lease: int, consecutive: int) -> None:
        self.clock = sp.testing.FakeClock(64)
        self.draw = 0.5
        self.breaker = sp.Breaker(
            consecutive=consecutive,
            min_calls=1000,
            open_for=open_for,
            open_growth=growth,
            open_max=10,
            probes=probes,
            probe_timeout=lease,
            ramp=ramp,
            window=None,
            clock=self.clock,
            rng=lambda: self.draw,
        )
        #: Manual commands to the breaker.
        self.hand: str | None = None
        #: Counts changes of state, as seen from outside: a ticket is current while this is its own.
        self.era = 0
        self.reopened = 0
        self.opened_at = 0.0
        self.closed_at = -1e9
        self.streak = 0
        self.state = "closed"
        #: Probes that are out, with the end of their lease.
        self.probes_out: dict[int, float] = {}
        self.proved = 0
        self.made = 0

    def enter(self, state: str) -> None:
        self.state = state
        self.era += 1
        self.streak = self.proved = 0
        self.probes_out = {}
        if state == "open":
            self.opened_at = self.clock.now()

    @property
    def open_time(self) -> float:
        return max(
            self.breaker.open_for,
            min(self.breaker.open_for * self.breaker.open_growth**self.reopened, self.breaker.open_max),
        )

    def pass_time(self) -> None:
        now = self.clock.now()
        if self.hand is None and self.state == "open" and now > self.opened_at + self.open_time:
            self.enter("half_open")

    def lose_probes(self) -> None:
        """A place is taken back when its lease is over, and a result that comes later changes nothing."""
        now = self.clock.now()
        self.probes_out = {key: lease for key, lease in self.probes_out.items() if lease >= now}

    @rule(target=tickets, draw=st.sampled_from([0.0, 0.5, 0.999]))
    def admit(self, draw: float) -> Any:
        self.draw = draw
        self.pass_time()
        self.lose_probes()
        now = self.clock.now()
        admits = {
            "closed": not self.ramping or draw < (now - self.closed_at) / self.breaker.ramp,
            "open": False,
            "half_open": len(self.probes_out) + self.proved < self.breaker.probes,
        }[self.state]
        if self.hand is not None:
            admits = self.hand != "open"
        try:
            ticket = self.breaker.admit()
        except sp.CircuitOpen:
            ticket = None
        assert (ticket is not None) == admits
        if ticket is None:
            return multiple()
        self.made += 1
        if self.state == "half_open":
            self.probes_out[self.made] = now + self.breaker.probe_timeout
        return (ticket, self.era, self.made)

    @property
    def ramping(self) -> bool:
        return self.hand is None and self.clock.now() - self.closed_at < self.breaker.ramp

    def current(self, era: int, number: int) -> bool:
        """Return True if a result of this ticket still counts."""
        self.pass_time()
        self.lose_probes()
        return era == self.era and (self.state != "half_open" or number in self.probes_out)

    @rule(held=consumes(tickets))
    def success(self, held: Any) -> None:
        ticket, era, number = held
        counts = self.current(era, number)
        ticket.success()
        if not counts:
            return
        if self.state == "closed":
            self.streak = 0
        else:
            del self.probes_out[number]
            self.proved += 1
            if self.proved == self.breaker.probes:
                self.reopened = 0
                self.closed_at = self.clock.now()
                self.enter("closed")

    @rule(held=consumes(tickets))
    def failure(self, held: Any) -> None:
        ticket, era, number = held
        counts = self.current(era, number)
        ticket.failure()
        if not counts:
            return
        if self.state == "half_open":
            self.reopened += 1
            self.enter("open")
        elif self.state == "closed":
            self.streak += 1
            if self.hand is None and self.streak >= self.breaker.consecutive:
                self.enter("open")

    @rule(held=consumes(tickets))
    def cancelled(self, held: Any) -> None:
        ticket, era, number = held
        counts = self.current(era, number)
        before = self.breaker.state
        ticket.cancel()
        assert self.breaker.state == before
        if counts:
            self.probes_out.pop(number, None)

    @rule(seconds=EIGHTHS)
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(hand=st.sampled_from(["open", "closed", "observe", None]))
    def by_hand(self, hand: str | None) -> None:
        methods = {"open": "force_open", "closed": "force_closed", "observe": "observe_only", None: "reset"}
        getattr(self.breaker, methods[hand])()
        self.hand = hand
        self.reopened = 0
        self.enter("closed")

    @rule()
    def nothing_refuses_for_ever(self) -> None:
        """The longest open time, one lease and the ramp: after that a call gets through."""
        if self.hand == "open":
            return
        breaker = self.breaker
        self.clock.advance(breaker.open_max + breaker.probe_timeout + breaker.ramp + 1)
        self.pass_time()
        if self.state == "half_open" and self.proved:
            # What succeeded counts; only the places of the lost are free.
            assert self.proved < breaker.probes
        self.lose_probes()
        ticket = breaker.admit()
        ticket.cancel()

    @invariant()
    def it_is_in_the_state_it_should_be_in(self) -> None:
        self.pass_time()
        assert self.breaker.state == (self.hand if self.hand in ("open", "closed") else self.state)

    @invariant()
    def never_more_probes_than_allowed(self) -> None:
        assert len(self.probes_out) + self.proved <= self.breaker.probes


BreakerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestBreakerMachine = pytest.mark.proves("invariant 11", "invariant 12")(BreakerMachine.TestCase)
