"""Throttling, for any traffic: the formula exactly, and at least the share it promises to let through."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scripted import Boom

import stormproof as sp


@given(
    st.sampled_from([1.0, 1.5, 2.0, 4.0]),
    st.lists(st.tuples(st.booleans(), st.floats(0, 1, exclude_max=True)), max_size=80),
)
def test_each_decision_follows_from_the_counts(k: float, script: list[tuple[bool, float]]) -> None:
    clock = sp.testing.FakeClock()
    current = 0.0
    throttle = sp.Throttle(k=k, on=Boom)
    policy = sp.Policy(throttle, clock=clock, rng=lambda: current)
    accepts = 0

    def backend(fails: bool) -> None:
        if fails:
            raise Boom

    for requests, (fails, current) in enumerate(script):
        share = max(Fraction(0), (requests - Fraction(k) * accepts) / (requests + 1))
        try:
            policy.call(backend, fails)
            seen = "accepted"
        except sp.Throttled:
            seen = "refused"
        except Boom:
            seen = "failed"
        if abs(float(share) - current) > 1e-9:
            assert (seen == "refused") == (current < share)
        accepts += seen == "accepted"
        assert throttle.describe()["requests"] == pytest.approx(requests + 1)
        assert throttle.describe()["accepts"] == pytest.approx(accepts)


@pytest.mark.parametrize("capacity", [0.1, 0.25, 0.5])
def test_backend_receives_about_k_times_its_accepted_calls(capacity: float) -> None:
    """A backend that accepts a fixed number a second is offered more: it sees k = 2 times what it accepts."""
    clock = sp.testing.FakeClock()
    throttle = sp.Throttle(on=Boom, window=20)
    policy = sp.Policy(throttle, clock=clock, rng=random.Random(7))
    seen: list[float] = []
    left = 0.0

    def backend() -> None:
        nonlocal left
        seen.append(clock.now())
        if left < 1:
            raise Boom
        left -= 1

    def offer() -> Any:
        try:
            policy.call(backend)
        except (Boom, sp.Throttled) as error:
            return error
        return None

    for _ in range(60):
        left = 100 * capacity
        for _ in range(100):
            clock.advance(0.01)
            offer()
    settled = [at for at in seen if at > 30]
    sent = len(settled) / 30
    assert sent == pytest.approx(min(100, 2 * 100 * capacity), rel=0.15)
