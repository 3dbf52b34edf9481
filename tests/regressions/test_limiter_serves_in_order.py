"""Waiters were woken all at once and the fastest took the token: some starved while newcomers passed.

Stormproof: first come, first served, among tasks, and between waiting tasks and calls of `allow`.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, each_loop

import stormproof as sp


@each_loop
@pytest.mark.parametrize("make", [sp.Limiter, sp.Pacer], ids=["limiter", "pacer"])
def test_tasks_are_served_in_order(loop: Loop, make: type[sp.Limiter]) -> None:
    served: list[int] = []
    times: list[float] = []

    async def scenario() -> None:
        limiter = make(10, 1, clock=LoopClock(loop))
        limiter.allow()
        began = loop.time()

        def waiter(number: int) -> Any:
            async def wait() -> None:
                # They stand in line one after the other, in this order.
                await loop.sleep(number / 1000)
                await limiter.wait_async()
                served.append(number)
                times.append(loop.time() - began)
                assert not limiter.allow(), "a newcomer passed those who wait"

            return wait

        outcomes = await loop.together(*[waiter(number) for number in range(20)])
        assert outcomes == [None] * 20

    loop.run(scenario)
    assert served == list(range(20))
    assert times == pytest.approx([(number + 1) / 10 for number in range(20)])
