"""backoff, httpx-retries and aiohttp-retry compute 2.0**n and die with OverflowError at about n = 1,100.

Stormproof: a long-lived loop goes on at the cap, and every wait is finite for any number of retries.
"""

from __future__ import annotations

import math

import pytest
from tests.support.scripted import Boom, every_way, retry

import stormproof as sp

SCHEDULES = [
    sp.Exponential(0.1, cap=5, jitter="none"),
    sp.Exponential(0.1, factor=10, cap=5, jitter="full"),
    sp.Exponential(1e-300, factor=1e300, cap=1e300, jitter="equal"),
    sp.Exponential(0.1, cap=5, jitter=sp.Symmetric(1)),
    sp.Linear(0.1, cap=5),
    sp.Fibonacci(0.1, cap=5),
    sp.Decorrelated(0.1, cap=5),
    sp.Decorrelated(0.1, cap=5, clip="sample"),
]


@every_way
def test_loop_of_1100_attempts_does_not_overflow(play):
    policy = retry(attempts=1200, backoff=sp.Exponential(0.1, cap=5, jitter="none"))
    played = play(policy, *[Boom] * 1199, "ok").returned("ok").made(1200)
    assert played.sleeps[:3] == pytest.approx([0.1, 0.2, 0.4])
    assert played.sleeps[6:] == [5.0] * (1199 - 6)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize(
    "n", [1023, 1024, 1100, 10**4, 10**6, 10**400], ids=lambda n: f"{n:.0e}" if n < 1e300 else "1e400"
)
def test_every_wait_is_finite(schedule, n):
    for u in (0.0, 0.5, math.nextafter(1.0, 0.0)):
        wait = schedule.delay(n, None, u)
        assert type(wait) is float and math.isfinite(wait) and wait >= 0
