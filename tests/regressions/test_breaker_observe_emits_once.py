"""A breaker that only observes said with every further failure that it would have opened.

Stormproof: it emits the event once per generation.
"""

from __future__ import annotations

import stormproof as sp


def test_observing_breaker_emits_once_per_generation():
    breaker = sp.Breaker(consecutive=3, clock=sp.testing.FakeClock())
    events = []

    def fail(times):
        events.clear()
        stop = sp.subscribe(events.append)
        try:
            for _ in range(times):
                breaker.admit().failure()
        finally:
            stop()
        return [event.observed for event in events]

    breaker.observe_only()
    assert fail(20) == [True]
    assert breaker.state == "closed"
    breaker.reset()
    breaker.observe_only()
    assert fail(2) == []
    assert fail(20) == [True]
