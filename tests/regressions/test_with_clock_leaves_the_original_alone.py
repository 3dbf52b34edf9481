"""A copy with a test's clock gave that clock to the original's breaker too, which then stayed open.

Holdfast: with_(clock=...) makes a policy of its own; the original keeps its time and its breaker.
"""

from __future__ import annotations

import pytest
from tests.scripted import Boom

import holdfast as hf


def fail():
    raise Boom


def test_the_originals_breaker_keeps_its_time():
    mine, other = hf.testing.FakeClock(), hf.testing.FakeClock()
    policy = hf.Policy(hf.Breaker(consecutive=1, open_for=30), clock=mine)
    policy.with_(clock=other)
    with pytest.raises(Boom):
        policy.call(fail)
    other.advance(60)
    with pytest.raises(hf.CircuitOpen):
        policy.call(str)
    mine.advance(31)
    assert policy.call(str) == ""


def test_the_originals_breaker_keeps_real_time():
    policy = hf.Policy(hf.Breaker(consecutive=1, open_for=3600))
    clock = hf.testing.FakeClock()
    copy = policy.with_(clock=clock)
    with pytest.raises(Boom):
        policy.call(fail)
    clock.advance(10_000)
    with pytest.raises(hf.CircuitOpen):
        policy.call(str)
    assert copy.call(str) == ""
