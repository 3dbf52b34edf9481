"""A waiter polled: it woke up again and again, and burnt a core, until its token was there.

Stormproof: one sleep per wait, of exactly the right length, however many wait.
"""

from __future__ import annotations

import pytest
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, each_loop

import stormproof as sp


def test_waiting_thread_sleeps_once() -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(10, 1, clock=clock)
    for _ in range(51):
        limiter.wait()
    assert clock.sleeps == pytest.approx([0.1] * 50)


@each_loop
def test_waiting_task_sleeps_once(loop: Loop) -> None:
    clock = LoopClock(loop)

    async def scenario() -> None:
        limiter = sp.Limiter(10, 1, clock=clock)
        await loop.together(*[limiter.wait_async for _ in range(21)])

    loop.run(scenario)
    assert sorted(clock.sleeps) == pytest.approx([n / 10 for n in range(1, 21)])
