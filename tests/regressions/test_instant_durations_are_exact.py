"""A clock that starts at the raw monotonic time rounds every sum: a user's ``assert elapsed == 7200`` then
fails on one machine in ten.

Stormproof: ``testing.instant()`` starts on a multiple of 2**-10 s, so sums of usual durations are exact.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

import stormproof as sp
from stormproof._runtime import clock

rng = random.Random(7)
RAW_STARTS = [rng.uniform(0, 1_000_000) for _ in range(300)]


class StoppedClock:
    """A clock that always shows ``reading``."""

    def __init__(self, reading: float) -> None:
        self.reading = reading
        self.sleep = time.sleep

    def now(self) -> float:
        return self.reading


@pytest.fixture
def system() -> Iterator[StoppedClock]:
    """The system clock for one test."""
    before, stopped = clock.SYSTEM, StoppedClock(0.0)
    clock.AMBIENT.stand_on(stopped)
    yield stopped
    clock.AMBIENT.stand_on(before)


@pytest.mark.parametrize("scale", [0.001, 1.0], ids=["first 16 minutes", "first 11 days"])
def test_sums_of_durations_are_exact_from_every_raw_start(scale: float, system: StoppedClock) -> None:
    for raw in RAW_STARTS:
        system.reading = raw * scale
        with sp.testing.instant() as instant:
            start = instant.now()
            for seconds in (1, 20, 0.125):
                instant.sleep(seconds)
            assert instant.now() - start == 21.125, raw * scale
            for seconds in (3600, 3600):
                instant.sleep(seconds)
            assert instant.now() == start + 7221.125, raw * scale


def test_start_is_at_most_a_millisecond_after_the_system_time(system: StoppedClock) -> None:
    for raw in [0.0, *RAW_STARTS]:
        system.reading = raw
        with sp.testing.instant() as instant:
            assert 0 <= instant.now() - raw < 0.001
