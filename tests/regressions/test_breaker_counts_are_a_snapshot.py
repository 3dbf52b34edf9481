"""Counts read from a half-open breaker were its live object and went on counting in the reader's hands.

Stormproof: counts are those of the moment they were read.
"""

from __future__ import annotations

import stormproof as sp


def test_counts_of_a_half_open_breaker_are_a_snapshot():
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=30, probes=3, clock=clock)
    breaker.admit().failure()
    clock.advance(31)
    assert breaker.state == "half_open"
    before = breaker.counts
    breaker.admit().success()
    assert (before.requests, before.successes) == (0, 0)
    assert (breaker.counts.requests, breaker.counts.successes) == (1, 1)
