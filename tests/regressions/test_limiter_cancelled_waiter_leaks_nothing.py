"""A waiter that was cancelled kept its permit: with each one, all later waiters waited longer
(and with a lock or semaphore underneath, the limiter stood still in the end).

Stormproof: a cancelled waiter gives its tokens back, in tasks and in threads.
"""

from __future__ import annotations

import pytest
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, each_loop

import stormproof as sp


@each_loop
def test_after_many_cancelled_tasks_the_next_waits_no_longer(loop: Loop) -> None:
    async def scenario() -> None:
        limiter = sp.Limiter(1, 1, clock=LoopClock(loop))
        await limiter.wait_async()
        for _ in range(1000):
            assert await loop.cut(0, limiter.wait_async)
        assert limiter.reserve().delay == pytest.approx(1)

    loop.run(scenario)


def test_after_many_cancelled_threads_the_next_waits_no_longer() -> None:
    class Cancelling(sp.testing.FakeClock):
        def sleep(self, seconds: float) -> None:
            raise TimeoutError

    limiter = sp.Limiter(1, 1, clock=Cancelling())
    limiter.wait()
    for _ in range(1000):
        with pytest.raises(TimeoutError):
            limiter.wait()
    assert limiter.reserve().delay == 1
