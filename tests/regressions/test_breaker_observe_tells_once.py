"""A breaker that only observes said with every further failure that it would have opened.

Holdfast: it tells once per generation.
"""

from __future__ import annotations

import holdfast as hf


def test_once_per_generation():
    breaker = hf.Breaker(consecutive=3, clock=hf.testing.FakeClock())
    events = []

    def fail(times):
        events.clear()
        stop = hf.subscribe(events.append)
        try:
            for _ in range(times):
                breaker.admit().failure()
        finally:
            stop()
        return [event.observed for event in events]

    breaker.observe()
    assert fail(20) == [True]
    assert breaker.state == "closed"
    breaker.reset()
    breaker.observe()
    assert fail(2) == []
    assert fail(20) == [True]
