"""A scrape changed what a throttle refused next: it settled the counts, and not a copy of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import stormproof as sp

PARTS: dict[str, Callable[[Any], Any]] = {
    "throttle": lambda clock: sp.Throttle(clock=clock),
    "breaker": lambda clock: sp.Breaker(min_calls=5, open_for=20, clock=clock),
    "breaker without a window": lambda clock: sp.Breaker(consecutive=4, window=None, clock=clock),
    "adaptive limit": lambda clock: sp.AdaptiveLimit(clock=clock),
    "adaptive rate": lambda clock: sp.AdaptiveRate(max_wait=0, clock=clock),
    "limiter": lambda clock: sp.RateLimit(sp.Limiter(0.1, 5, clock=clock)),
    "pacer": lambda clock: sp.RateLimit(sp.Pacer(0.1, clock=clock)),
}

LOOKS = ("counts", "state", "rejection", "limit", "rate", "is_open")


def good() -> str:
    return "ok"


def bad() -> str:
    raise ConnectionError


def outcomes(make: Callable[[Any], Any], seed: int, is_watched: bool) -> list[str]:
    """Return how 300 calls end; a watched part is read every 15 s."""
    draw, clock = random.Random(seed), sp.testing.FakeClock()
    part = make(clock)
    policy = sp.Policy(part, clock=clock, rng=random.Random(seed))
    ended: list[str] = []
    share, next_look = 0.0, 0.0
    for call in range(300):
        if call % 40 == 0:
            share = draw.choice([0.0, 0.05, 0.5, 0.9])
        due = clock.now() + draw.expovariate(1) * draw.choice([0.01, 0.5, 5, 60])
        while is_watched and next_look <= due:
            clock.advance(next_look - clock.now())
            part.describe()
            for name in LOOKS:
                getattr(part, name, None)
            next_look += 15
        clock.advance(due - clock.now())
        try:
            ended.append(policy.call(bad if draw.random() < share else good))
        except Exception as error:
            ended.append(type(error).__name__)
    return ended


@pytest.mark.parametrize("kind", PARTS)
def test_scrape_every_15_seconds_changes_no_outcome(kind: str) -> None:
    for seed in range(10):
        assert outcomes(PARTS[kind], seed, True) == outcomes(PARTS[kind], seed, False)
