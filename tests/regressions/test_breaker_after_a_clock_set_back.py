"""The clock was set back by an hour, and a breaker refused for that hour: a lost probe's lease, or the
start of the ramp, lay in the future. And failures of before the jump went on counting for an hour.

Stormproof: no caller waits longer than one more ``probe_timeout``, ``ramp`` or ``window``.
"""

from __future__ import annotations

import pytest

import stormproof as sp

HOUR = 3600.0


def test_lost_probe_gives_its_place_back_after_a_clock_set_back() -> None:
    clock = sp.testing.FakeClock(1e6)
    breaker = sp.Breaker(consecutive=1, open_for=1, probe_timeout=5, clock=clock)
    breaker.admit().failure()
    clock.advance(2)
    breaker.admit()
    clock.advance(-HOUR)
    with pytest.raises(sp.CircuitOpen) as refused:
        breaker.admit()
    assert refused.value.retry_after == 5
    clock.advance(5.001)
    breaker.admit().success()
    assert breaker.state == "closed"


def test_ramp_continues_after_a_clock_set_back() -> None:
    clock = sp.testing.FakeClock(1e6)
    breaker = sp.Breaker(consecutive=1, open_for=1, ramp=10, clock=clock, rng=lambda: 0.5)
    breaker.admit().failure()
    clock.advance(2)
    breaker.admit().success()
    clock.advance(-HOUR)
    with pytest.raises(sp.CircuitOpen):
        breaker.admit()
    clock.advance(6)
    assert breaker.admit()


@pytest.mark.parametrize("bucket", [None, 60], ids=["rolling", "fixed"])
def test_failures_before_the_clock_was_set_back_leave_the_window(bucket: float | None) -> None:
    clock = sp.testing.FakeClock(1e6)
    breaker = sp.Breaker(min_calls=10, window=60, bucket=bucket, clock=clock)
    for _ in range(9):
        breaker.admit().failure()
    clock.advance(-HOUR)
    assert breaker.counts.failures == 9
    clock.advance(61)
    assert breaker.counts.failures == 0
    breaker.admit().failure()
    assert breaker.state == "closed"
