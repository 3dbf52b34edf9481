"""Calls spaced 1 / rate apart were refused every other time: a token short by a rounding error did not count.

Stormproof: a token due within the clock's own exactness is there, and the level never falls below 0 by it.
"""

from __future__ import annotations

from typing import Any

import pytest

import stormproof as sp

KINDS: dict[str, Any] = {
    "Limiter": lambda rate, clock: sp.Limiter(rate, 1, clock=clock).allow,
    "Limiter with a burst": lambda rate, clock: _emptied(sp.Limiter(rate, 5, clock=clock)).allow,
    "Pacer": lambda rate, clock: sp.Pacer(rate, clock=clock).allow,
    "Pacer with a burst": lambda rate, clock: _emptied(sp.Pacer(rate, 5, clock=clock)).allow,
    "RateBudget": lambda rate, clock: sp.RateBudget(rate, 1, clock=clock).withdraw,
}


def _emptied(limiter: Any) -> Any:
    for _ in range(4):
        limiter.allow()
    return limiter


class Steps:
    """A clock that a test sets."""

    def __init__(self, time: float) -> None:
        self.time = time

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing sleeps here")


def admitted(kind: str, rate: float, start: float, calls: int, added: bool) -> int:
    clock = Steps(start)
    ask = KINDS[kind](rate, clock)
    passed = 0
    for index in range(calls):
        if not added:
            clock.time = start + index / rate
        passed += bool(ask())
        if added:
            clock.time += 1 / rate
    return passed


@pytest.mark.parametrize("added", [False, True], ids=["k / rate", "added up"])
@pytest.mark.parametrize("start", [0.0, 1e6])
@pytest.mark.parametrize("rate", [0.1, 0.3, 1, 3, 7, 10, 100, 1000 / 7, 3000, 10_000])
@pytest.mark.parametrize("kind", KINDS)
def test_limiter_at_exact_pace_admits_every_call(kind: str, rate: float, start: float, added: bool) -> None:
    assert admitted(kind, rate, start, 2000, added) == 2000


@pytest.mark.long
@pytest.mark.parametrize("start", [0.0, 1e6])
@pytest.mark.parametrize("rate", [0.1, 10_000])
@pytest.mark.parametrize("kind", ["Limiter", "Pacer", "RateBudget"])
def test_limiter_at_exact_pace_admits_a_million_calls(kind: str, rate: float, start: float) -> None:
    assert admitted(kind, rate, start, 10**6, False) == 10**6


@pytest.mark.parametrize("kind", ["Limiter", "Pacer"])
def test_limiter_a_little_over_its_pace_admits_no_more_than_its_rate(kind: str) -> None:
    """Each call comes a ten-millionth too early: that is more than a rounding error."""
    rate, calls = 100, 200_000
    clock = Steps(1e6)
    ask = KINDS[kind](rate, clock)
    passed = 0
    for index in range(calls):
        clock.time = 1e6 + index / rate * (1 - 1e-7)
        passed += ask()
    assert passed <= 1 + rate * (clock.time - 1e6) + calls / 1e6


def test_limiter_admits_a_call_of_cost_nothing_after_one_at_its_pace() -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(10, 1, clock=clock)
    for _ in range(10):
        assert limiter.allow()
        assert limiter.allow(0)
        assert limiter.tokens() >= 0
        clock.advance(0.1)
