"""A trio task cancelled just as a bulkhead's place came still made its call, which trio then cut off.

asyncio lets a cancellation win over a wait that has ended but not yet gone on; trio raises it at the next
checkpoint, which was inside the callee.
"""

from __future__ import annotations

import trio
import trio.testing

import stormproof as sp


class Strike(trio.abc.Instrument):
    """Cancels when the task is about to go on: it has been woken, but has not run yet."""

    def __init__(self, scope: trio.CancelScope, task: trio.lowlevel.Task) -> None:
        self.scope = scope
        self.task = task

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.scope.cancel()


def test_cancelled_waiter_makes_no_call_and_gives_its_place_back() -> None:
    bulkhead = sp.Bulkhead(1, queue=1, max_wait=None)
    calls: list[int] = []

    @sp.Policy(bulkhead)
    async def callee() -> None:
        calls.append(1)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sp.Policy(bulkhead).acall, trio.sleep, 1)
            await trio.testing.wait_all_tasks_blocked()
            with trio.CancelScope() as scope:
                trio.lowlevel.add_instrument(Strike(scope, trio.lowlevel.current_task()))
                await callee()
            assert scope.cancelled_caught

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert calls == []
    assert (bulkhead.in_use, bulkhead.queued) == (0, 0), "the place that came just then was kept"
