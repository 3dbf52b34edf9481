"""The probe's place had no lease: the process died in it, and calls were rejected a day later.

Stormproof: the place is free again after ``probe_timeout``.
"""

from __future__ import annotations

import pytest

import stormproof as sp


def test_lost_probe_frees_its_place() -> None:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=1, clock=clock)
    breaker.admit().failure()
    clock.advance(2)
    breaker.admit()
    with pytest.raises(sp.CircuitOpen):
        breaker.admit()
    clock.advance(24 * 3600)
    breaker.admit().success()
    assert breaker.state == "closed"
