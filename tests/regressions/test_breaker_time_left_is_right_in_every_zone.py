"""Local time and UTC were mixed: 18,060 s left to wait instead of 60.

Stormproof: one monotonic clock; the wall clock is never asked.
"""

from __future__ import annotations

import time

import pytest

import stormproof as sp


def test_open_breaker_reports_at_most_its_open_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        breaker = sp.Breaker(consecutive=1, open_for=60)
        breaker.admit().failure()
        with pytest.raises(sp.CircuitOpen) as caught:
            breaker.admit()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert caught.value.retry_after is not None
    assert 0 < caught.value.retry_after <= 60
