"""Waiters that ask for several tokens and leave: the limiter gave back more than they had taken, so that
the next ones got in too early; and a pacer gave back nothing for one that left before those behind it, so
that after some cancelled waits no turn came any more.

Stormproof: in any order of leaving, all tokens taken are back when the last waiter has left, and
never a token more.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import stormproof as sp
from stormproof._strategies.limiter.pacer import Timetable
from stormproof._strategies.limiter.rules.bucket import Bucket
from stormproof._strategies.limiter.rules.leases import LeaseBucket

LINES = {
    "limiter": lambda rate, burst: Bucket(rate, burst, 0.0),
    "pacer": lambda rate, burst: Timetable(rate, burst, 0.0),
    "fleet limiter": lambda rate, burst: LeaseBucket(rate, burst, 1, 0, 0.0),
}


def test_waiters_for_three_tokens_and_one_give_back_all() -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(1, 5, clock=clock)
    assert limiter.allow(5)
    first, second = limiter.enqueue(3, None), limiter.enqueue(1, None)
    first.leave()
    second.leave()
    assert limiter.tokens() == 0


def test_pacers_waiters_leave_from_the_front() -> None:
    clock = sp.testing.FakeClock()
    pacer = sp.Pacer(1, 1, clock=clock)
    assert pacer.allow()
    waiting = [pacer.enqueue(1, None) for _ in range(100)]
    for reservation in waiting:
        reservation.leave()
    assert pacer.tokens() == 0
    assert pacer.reserve().delay == 1


def test_cancelled_reservations_create_no_token() -> None:
    """The fourth of these stands before the third, and is called off first."""
    limiter = sp.Limiter(1, 5, clock=sp.testing.FakeClock())
    assert limiter.allow(5)
    first, second = limiter.reserve(3), limiter.reserve(1)
    first.cancel()
    third = limiter.reserve(1)
    third.cancel()
    second.cancel()
    assert limiter.tokens() <= 0


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("most", [1, 5])
def test_waiters_that_leave_give_back_exactly_their_tokens(name: str, most: int) -> None:
    for seed in range(1000):
        rng = random.Random(seed)
        line: Any = LINES[name](rng.choice([0.1, 1, 3, 7]), 5)
        for _ in range(5):
            line.reserve(1, 0.0, None)
        before = line.tokens(0.0)
        waiting = []
        for _ in range(14):
            if rng.random() < 0.55:
                waiting.append(line.reserve(rng.randint(1, most), 0.0, None, True))
            elif waiting:
                line.leave(waiting.pop(rng.randrange(len(waiting))), 0.0)
            owed = sum(grant.n for grant in waiting)
            assert line.tokens(0.0) <= before - owed + 1e-6, seed
        rng.shuffle(waiting)
        for grant in waiting:
            line.leave(grant, 0.0)
        assert line.tokens(0.0) == pytest.approx(before, abs=1e-6), seed
