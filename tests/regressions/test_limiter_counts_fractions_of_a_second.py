"""limits, on a store with whole seconds: a token bucket of 10/s and burst 1 allowed 200 of 200 calls,
because the clock had not moved, and the key had expired, by the time of the next one.

Stormproof: at 10/s and burst 1, two calls within 0.1 s are one too many, whatever second it is.
"""

from __future__ import annotations

import pytest

import stormproof as sp


@pytest.mark.parametrize("make", [sp.Limiter, sp.Pacer], ids=["limiter", "pacer"])
@pytest.mark.parametrize("start", [0.0, 0.95, 1e9])
def test_burst_of_one_admits_one_call_at_any_clock_start(make: type[sp.Limiter], start: float) -> None:
    clock = sp.testing.FakeClock(start)
    limiter = make(10, 1, clock=clock)
    assert sum(limiter.allow() for _ in range(200)) == 1
    admitted = 0
    for _ in range(400):
        clock.advance(0.005)
        admitted += limiter.allow()
    # 400 tries in 2 s.
    assert 19 <= admitted <= 20
