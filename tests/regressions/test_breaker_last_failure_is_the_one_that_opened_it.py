"""A call from before the opening that failed late replaced the breaker's last failure.

Stormproof: an outcome of an older generation changes nothing, last_failure included.
"""

from __future__ import annotations

import stormproof as sp


def test_late_failure_does_not_replace_the_last_failure():
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=30, clock=clock)
    old = breaker.admit()
    real = ValueError("real")
    breaker.admit().failure(real)
    clock.advance(31)
    assert breaker.state == "half_open"
    old.failure(KeyError("late"))
    assert breaker.last_failure is real
    assert breaker.state == "half_open"
