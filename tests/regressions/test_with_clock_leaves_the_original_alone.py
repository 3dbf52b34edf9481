"""A copy with a test's clock gave that clock to the original's breaker too, which then stayed open.

Stormproof: with_(clock=...) makes a policy of its own; the original keeps its time and its breaker.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import Boom

import stormproof as sp


def fail():
    raise Boom


def test_original_breaker_keeps_its_clock():
    mine, other = sp.testing.FakeClock(), sp.testing.FakeClock()
    policy = sp.Policy(sp.Breaker(consecutive=1, open_for=30), clock=mine)
    policy.with_(clock=other)
    with pytest.raises(Boom):
        policy.call(fail)
    other.advance(60)
    with pytest.raises(sp.CircuitOpen):
        policy.call(str)
    mine.advance(31)
    assert policy.call(str) == ""


def test_original_breaker_keeps_the_real_clock():
    policy = sp.Policy(sp.Breaker(consecutive=1, open_for=3600))
    clock = sp.testing.FakeClock()
    copy = policy.with_(clock=clock)
    with pytest.raises(Boom):
        policy.call(fail)
    clock.advance(10_000)
    with pytest.raises(sp.CircuitOpen):
        policy.call(str)
    assert copy.call(str) == ""
