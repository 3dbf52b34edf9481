"""aiolimiter#63 #90 #200, limits#358: "10 per second" let ten calls through in the first millisecond,
and up to twenty within the first second; the server saw a burst and throttled.

Stormproof: a rate written without a burst has a burst of 1, a `Pacer` spaces calls evenly, and a
larger burst is only had on request.
"""

from __future__ import annotations

import pytest

import stormproof as sp


def times(limiter: sp.Limiter | sp.Pacer, clock: sp.testing.FakeClock, calls: int) -> list[float]:
    began = clock.now()
    out = []
    for _ in range(calls):
        limiter.wait()
        out.append(clock.now() - began)
    return out


def test_pacer_spaces_calls_evenly_after_a_quiet_time() -> None:
    clock = sp.testing.FakeClock()
    pacer = sp.Pacer("10/s", clock=clock)
    clock.advance(3600)
    assert times(pacer, clock, 6) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])


def test_rate_without_a_burst_is_paced() -> None:
    clock = sp.testing.FakeClock()
    policy = sp.Policy(sp.RateLimit("10/s", max_wait=None), clock=clock)
    began = [policy.call(clock.now) for _ in range(20)]
    assert began == pytest.approx([n / 10 for n in range(20)])


def test_burst_is_available_when_asked_for() -> None:
    clock = sp.testing.FakeClock()
    policy = sp.Policy(sp.RateLimit("10/s burst 3", max_wait=None), clock=clock)
    began = [policy.call(clock.now) for _ in range(5)]
    assert began == pytest.approx([0, 0, 0, 0.1, 0.2])
