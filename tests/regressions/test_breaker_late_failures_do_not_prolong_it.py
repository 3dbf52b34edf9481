"""Each worker that failed stamped the opening time anew, and the circuit stayed open as long as they came in.

Stormproof: what ends after the opening changes nothing.
"""

from __future__ import annotations

import pytest

import stormproof as sp


def test_open_time_counts_from_the_first_failure() -> None:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=60, clock=clock)
    workers = [breaker.admit() for _ in range(5)]
    for worker in workers:
        worker.failure()
        clock.advance(10)
    with pytest.raises(sp.CircuitOpen) as caught:
        breaker.admit()
    assert caught.value.retry_after == 10
