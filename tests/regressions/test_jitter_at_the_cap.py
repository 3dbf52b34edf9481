"""Elsewhere jitter was added before the cap was applied, so every wait at the cap was the same and
a fleet that had failed for long came back in step (jitter at all: urllib3#2952).

Stormproof: the ceiling is capped first and spread afterwards, at the cap like anywhere else.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import Boom, every_way, retry

import stormproof as sp

AT_THE_CAP = [
    # schedule, its wait at u = 0, 1/4 and 3/4 once the ceiling is 8
    (sp.Exponential(1, cap=8, jitter="full"), [0, 2, 6]),
    (sp.Exponential(1, cap=8, jitter="equal"), [4, 5, 7]),
    (sp.Exponential(1, cap=8, jitter=sp.Symmetric(0.5)), [4, 6, 10]),
    (sp.Linear(1, cap=8, jitter="full"), [0, 2, 6]),
    (sp.Fibonacci(1, cap=8, jitter="full"), [0, 2, 6]),
    (sp.Schedule([1, 8], jitter="full"), [0, 2, 6]),
    (sp.Constant(8, jitter="full"), [0, 2, 6]),
    (sp.Exponential(1, cap=8, jitter=lambda u, ceiling: u * ceiling), [0, 2, 6]),
    # between the base and min(cap, 3 * prev)
    (sp.Decorrelated(1, cap=8), [1, 2.75, 6.25]),
]


@pytest.mark.parametrize(("schedule", "waits"), AT_THE_CAP, ids=lambda value: type(value).__name__)
def test_wait_depends_on_the_draw(schedule, waits):
    for n in (20, 1000):
        assert [schedule.delay(n, 8.0, u) for u in (0.0, 0.25, 0.75)] == pytest.approx(waits)


@pytest.mark.parametrize(("schedule", "waits"), AT_THE_CAP, ids=lambda value: type(value).__name__)
def test_fleet_does_not_come_back_in_step(schedule, waits):
    fleet = {schedule.delay(20, 8.0, place / 1000) for place in range(1000)}
    assert len(fleet) == 1000


@every_way
def test_waits_at_the_cap_differ(play):
    waits = []
    for seed in range(2):
        policy = retry(attempts=30, backoff=sp.Exponential(1, cap=8), rng=seed)
        waits.append(play(policy, Boom, ...).sleeps[10:])
    assert len({*waits[0], *waits[1]}) == len(waits[0]) * 2


def test_default_backoff_has_full_jitter():
    assert sp.Retry().backoff.jitter == "full"
