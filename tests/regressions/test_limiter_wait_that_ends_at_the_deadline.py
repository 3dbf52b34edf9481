"""A limiter's wait that ended exactly with the deadline was slept in full, and failed then.

Stormproof: it is refused at once, and its place is given back.
"""

from __future__ import annotations

import asyncio

import pytest
import trio

import stormproof as sp


@pytest.fixture
def clock():
    return sp.testing.FakeClock()


@pytest.fixture
def limiter(clock):
    limiter = sp.Limiter(1, 1, clock=clock)
    limiter.wait()
    return limiter


def test_wait_that_ends_at_the_deadline_is_refused_at_once(clock, limiter):
    with pytest.raises(sp.DeadlineExceeded), sp.deadline(1, clock=clock):
        limiter.wait()
    assert clock.sleeps == []
    clock.advance(1)
    assert limiter.allow()


def test_wait_that_ends_before_the_deadline_is_slept(clock, limiter):
    with sp.deadline(1.5, clock=clock):
        limiter.wait()
    assert clock.sleeps == [1]


@pytest.mark.parametrize("run", [asyncio.run, trio.run], ids=["asyncio", "trio"])
def test_async_wait_that_ends_at_the_deadline_is_refused_at_once(run, clock, limiter):
    async def scenario():
        with pytest.raises(sp.DeadlineExceeded):
            with sp.deadline(1, clock=clock):
                await limiter.wait_async()

    run(scenario() if run is asyncio.run else scenario)
    assert clock.sleeps == []
