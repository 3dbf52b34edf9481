"""Waiters that are cancelled in whatever order give back all their tokens, at any rate."""

from __future__ import annotations

import random

import pytest

import stormproof as sp
from stormproof._strategies.limiter.rules.bucket import Bucket

RATES = [3, 4, 7, 10, 0.1, 1000 / 7]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("order", ["oldest first", "newest first", "mixed"])
def test_limiter_owes_no_token_after_all_waiters_left(rate: float, order: str) -> None:
    for seed in range(50):
        bucket = Bucket(rate, 1, 0.0)
        assert bucket.reserve(1, 0.0, 0.0).ok
        waiting = [bucket.reserve(1, 0.0, None, True) for _ in range(8)]
        if order == "newest first":
            waiting.reverse()
        elif order == "mixed":
            random.Random(seed).shuffle(waiting)
        for grant in waiting:
            bucket.leave(grant, 0.0)
        # As without any waiter: the one token that was used is all that is missing.
        assert bucket.tokens(0.0) == pytest.approx(0.0, abs=1e-6)
        assert bucket.reserve(1, 0.0, None).delay(0.0) == pytest.approx(1 / rate, rel=1e-6)


def test_remaining_waiters_move_up() -> None:
    bucket = Bucket(4, 1, 0.0)
    bucket.reserve(1, 0.0, 0.0)
    first, second, third = (bucket.reserve(1, 0.0, None, True) for _ in range(3))
    bucket.leave(first, 0.0)
    assert bucket.leave(second, 0.0) == [third], "its turn comes earlier than it was promised"
    assert bucket.pause(third, 0.0) == pytest.approx(0.25)
    # The next one comes after it.
    assert bucket.reserve(1, 0.0, None).delay(0.0) == pytest.approx(0.5)


def test_reservation_behind_a_waiter_keeps_its_time_and_its_tokens() -> None:
    bucket = Bucket(4, 1, 0.0)
    bucket.reserve(1, 0.0, 0.0)
    waiter, fixed = bucket.reserve(1, 0.0, None, True), bucket.reserve(1, 0.0, None)
    bucket.leave(waiter, 0.0)
    # Else two calls could start at the time of the reservation, in place of one before it and one then.
    assert fixed.delay(0.0) == pytest.approx(0.5)
    assert bucket.reserve(1, 0.0, None).delay(0.0) == pytest.approx(0.75)


def test_waiter_that_leaves_at_its_turn_gives_its_token_back() -> None:
    bucket = Bucket(4, 1, 0.0)
    bucket.reserve(1, 0.0, 0.0)
    first, second = (bucket.reserve(1, 0.0, None, True) for _ in range(2))
    bucket.leave(first, 0.3)
    assert bucket.pause(second, 0.3) == 0.0
    bucket.leave(second, 0.3)
    assert bucket.tokens(0.3) == 1.0


def test_many_tasks_cancelled_in_order_give_back_all() -> None:
    import asyncio

    async def main(clock: object) -> float:
        limiter = sp.Limiter(4, 1)
        assert limiter.allow()
        tasks = [asyncio.ensure_future(limiter.wait_async()) for _ in range(8)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return limiter.tokens()

    assert sp.testing.run(main) == pytest.approx(0.0, abs=1e-6)
