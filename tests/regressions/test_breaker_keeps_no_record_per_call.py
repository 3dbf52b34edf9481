"""One record per call in the window: 88 MB for a million calls.

Stormproof: counts in a few buckets.
"""

from __future__ import annotations

import tracemalloc

import stormproof as sp


def test_memory_does_not_grow_with_the_calls() -> None:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(trip=lambda counts: False, window=60, clock=clock)

    def calls(times: int) -> None:
        for place in range(times):
            ticket = breaker.admit()
            if place % 2:
                ticket.success()
            else:
                ticket.failure()
            clock.advance(0.001)

    calls(100)
    tracemalloc.start()
    try:
        calls(10_000)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A record per call would be 800 kB at the peers' 88 bytes.
    assert grown < 50_000
