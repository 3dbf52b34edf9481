"""Stormproof's breaker against a second one, written here from the published rules of gobreaker v2.

Time is in whole seconds so that scripts land exactly on the boundaries, where ``expiry < now``
and ``expiry <= now`` differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

import stormproof as sp

NAMES = ("requests", "successes", "failures", "excluded", "consecutive_successes", "consecutive_failures")


class GoBreaker:
    """The model: one fixed interval (``None`` never clears), generations, excluded results."""

    def __init__(
        self, max_requests: int, interval: int | None, timeout: int, ready_to_trip: Callable[[Any], bool]
    ) -> None:
        self.max_requests = max_requests
        self.interval = interval
        self.timeout = timeout
        self.ready_to_trip = ready_to_trip
        self.state = "closed"
        self.generation = 0
        self.new_generation(0)

    def new_generation(self, now: int) -> None:
        self.generation += 1
        for name in NAMES:
            setattr(self, name, 0)
        self.expiry: int | None = None
        if self.state == "closed" and self.interval is not None:
            self.expiry = now + self.interval
        elif self.state == "open":
            self.expiry = now + self.timeout

    def enter(self, state: str, now: int) -> None:
        self.state = state
        self.new_generation(now)

    def roll(self, now: int) -> None:
        if self.expiry is None or not self.expiry < now:
            return
        if self.state == "closed":
            self.new_generation(now)
        elif self.state == "open":
            self.enter("half_open", now)

    def admit(self, now: int) -> int | None:
        """The generation of the admitted call; ``None``: refused."""
        self.roll(now)
        full = self.state == "half_open" and self.requests - self.excluded >= self.max_requests
        if self.state == "open" or full:
            return None
        self.requests += 1
        return self.generation

    def settle(self, generation: int, outcome: str, now: int) -> None:
        self.roll(now)
        if generation != self.generation:
            return
        if outcome == "cancel":
            self.excluded += 1
        elif outcome == "success":
            self.successes += 1
            self.consecutive_successes += 1
            self.consecutive_failures = 0
            if self.state == "half_open" and self.consecutive_successes >= self.max_requests:
                self.enter("closed", now)
        else:
            self.failures += 1
            self.consecutive_failures += 1
            self.consecutive_successes = 0
            if self.state == "half_open" or self.ready_to_trip(self):
                self.enter("open", now)


RULES: dict[str, Callable[[Any], bool]] = {
    "three in a row": lambda counts: counts.consecutive_failures >= 3,
    "two failures": lambda counts: counts.failures >= 2,
    "half of four": lambda counts: counts.requests >= 4 and counts.failures * 2 >= counts.requests,
    "every failure": lambda counts: True,
    "never": lambda counts: False,
}

STEPS = st.one_of(
    st.just("admit"),
    st.tuples(st.sampled_from(["success", "failure", "failure", "cancel"]), st.integers(0, 5)),
    st.integers(0, 7),
)


@settings(max_examples=400)
@given(
    probes=st.integers(1, 3),
    window=st.none() | st.integers(1, 6),
    open_for=st.integers(1, 6),
    rule=st.sampled_from(sorted(RULES)),
    script=st.lists(STEPS, max_size=60),
)
# A window of 2 s: at its very end it still counts, a second later it does not.
@example(
    1, 2, 3, "two failures", ["admit", ("failure", 0), 2, "admit", ("failure", 0), 3, "admit", 1, "admit"]
)
@example(1, 2, 3, "two failures", ["admit", ("failure", 0), 3, "admit", ("failure", 0), "admit"])
# A probe given back makes room for one more, and only one.
@example(
    2, None, 1, "every failure", ["admit", ("failure", 0), 2, "admit", "admit", ("cancel", 0), *["admit"] * 3]
)
# A result of the closed generation comes while half-open.
@example(1, None, 1, "every failure", ["admit", "admit", ("failure", 0), 2, "admit", ("success", 0), "admit"])
def test_state_and_counts_agree_at_every_step(
    probes: int, window: int | None, open_for: int, rule: str, script: list[Any]
) -> None:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(
        trip=RULES[rule],
        window=window,
        bucket=window,
        open_for=open_for,
        probes=probes,
        probe_timeout=None,
        clock=clock,
    )
    model = GoBreaker(probes, window, open_for, RULES[rule])
    out: list[tuple[Any, int]] = []
    now = 0
    for step in script:
        if step == "admit":
            generation = model.admit(now)
            try:
                ticket = breaker.admit()
            except sp.CircuitOpen:
                assert generation is None, "refused what gobreaker admits"
            else:
                assert generation is not None, "admitted what gobreaker refuses"
                out.append((ticket, generation))
        elif isinstance(step, int):
            now += step
            clock.advance(step)
        elif out:
            outcome, place = step
            ticket, generation = out.pop(place % len(out))
            getattr(ticket, outcome)()
            model.settle(generation, outcome, now)
        model.roll(now)
        assert breaker.state == model.state
        seen = breaker.counts
        assert [getattr(seen, name) for name in NAMES] == [getattr(model, name) for name in NAMES]


@settings(max_examples=200)
@given(
    slices=st.integers(2, 4),
    width=st.integers(1, 3),
    script=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["success", "failure", "cancel"])), max_size=40
    ),
)
def test_rolling_window_counts_calls_begun_in_its_slices(
    slices: int, width: int, script: list[tuple[int, str]]
) -> None:
    """Slice ``k`` holds the calls that began in (k * width, (k + 1) * width], and the window is the
    slice of now and those before it. A result belongs to the slice its call began in."""
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(trip=lambda counts: False, window=slices * width, bucket=width, clock=clock)
    now = 0.0
    calls: list[tuple[float, str]] = []
    waiting: list[tuple[Any, float, str]] = []

    def slice_of(time: float) -> int:
        return int(time // width)

    for advance, outcome in script:
        # Half seconds: never on a boundary, which the fixed window's test covers.
        now += advance + (0.5 if now == int(now) else 0)
        clock.advance(now - clock.now())
        if waiting:
            ticket, began, ends = waiting.pop()
            getattr(ticket, ends)()
            calls.append((began, ends))
        waiting.append((breaker.admit(), now, outcome))
        inside = [ends for began, ends in calls if slice_of(began) > slice_of(now) - slices]
        begun = [began for _, began, _ in waiting if slice_of(began) > slice_of(now) - slices]
        counts = breaker.counts
        assert counts.successes == inside.count("success")
        assert counts.failures == inside.count("failure")
        assert counts.excluded == inside.count("cancel")
        assert counts.requests == len(inside) + len(begun)
