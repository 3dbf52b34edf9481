"""Each worker that failed stamped the opening time anew, and the circuit stayed open as long as they came in.

Holdfast: what ends after the opening changes nothing.
"""

from __future__ import annotations

import pytest

import holdfast as hf


def test_it_is_open_from_the_first_stamp() -> None:
    clock = hf.testing.FakeClock()
    breaker = hf.Breaker(consecutive=1, open_for=60, clock=clock)
    workers = [breaker.admit() for _ in range(5)]
    for worker in workers:
        worker.failure()
        clock.advance(10)
    with pytest.raises(hf.CircuitOpen) as caught:
        breaker.admit()
    assert caught.value.retry_after == 10
