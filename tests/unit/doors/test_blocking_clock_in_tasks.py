"""`FakeClock(blocking=True)` in asyncio and trio: a task that sleeps waits until the clock is advanced."""

from __future__ import annotations

import asyncio

import pytest
import trio
from tests.support.scripted import Boom

import stormproof as sp


def policy(clock: sp.testing.FakeClock) -> sp.Policy:
    return sp.retry(on=Boom, backoff=sp.Constant(30), within=None, clock=clock)


class Flaky:
    def __init__(self) -> None:
        self.calls = 0

    async def fetch(self) -> str:
        self.calls += 1
        if self.calls == 1:
            raise Boom
        return "page"


def test_sleeping_task_goes_on_when_the_clock_is_advanced() -> None:
    async def main() -> None:
        clock, flaky = sp.testing.FakeClock(blocking=True), Flaky()
        task = asyncio.create_task(policy(clock).acall(flaky.fetch))
        await clock.wait_for_sleeping_tasks(1)
        clock.advance(29)
        await asyncio.sleep(0)
        assert (clock.sleeping, flaky.calls) == (1, 1)
        clock.advance(1)
        assert await task == "page"
        assert (clock.sleeping, clock.sleeps) == (0, [30.0])

    asyncio.run(main())


def test_cancelled_task_leaves_the_clock() -> None:
    async def main() -> None:
        clock = sp.testing.FakeClock(blocking=True)
        task = asyncio.create_task(policy(clock).acall(Flaky().fetch))
        await clock.wait_for_sleeping_tasks(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert clock.sleeping == 0

    asyncio.run(main())


def test_sleeping_trio_task_goes_on_when_the_clock_is_advanced() -> None:
    async def main() -> None:
        clock, flaky = sp.testing.FakeClock(blocking=True), Flaky()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(policy(clock).acall, flaky.fetch)
            await clock.wait_for_sleeping_tasks(1)
            clock.advance(30)
        assert flaky.calls == 2

    trio.run(main)


def test_waiting_for_sleepers_that_do_not_come_times_out() -> None:
    clock = sp.testing.FakeClock(blocking=True)
    with pytest.raises(TimeoutError, match="0 of 1 tasks sleep"):
        asyncio.run(clock.wait_for_sleeping_tasks(1, timeout=0.01))
