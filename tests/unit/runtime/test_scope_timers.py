"""One timer for all scopes of a limit: exact, compact, and invisible to virtual time."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

import stormproof as sp
from stormproof._context.deadlines import Scope
from stormproof._runtime.clock import SYSTEM
from stormproof._runtime.interrupts import Timers


class Loop(asyncio.BaseEventLoop):
    """A loop that only notes its timers."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[tuple[float, Any]] = []

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        self.timers.append((when, callback))
        return object()


class Task:
    """A task that counts how often it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = 0

    def cancelling(self) -> int:
        return self.cancelled

    def cancel(self) -> None:
        self.cancelled += 1

    def uncancel(self) -> int:
        self.cancelled -= 1
        return self.cancelled


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """(arm a task that begins at a time, the loop, fire its last timer at a time)."""
    loop, timers = Loop(), Timers(5.0)

    def arm(began: float) -> tuple[Any, Task]:
        task = Task()
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "_get_running_loop", lambda: loop)
            patched.setattr(asyncio, "current_task", lambda running: task)
            return timers.arm(Scope(5.0), SYSTEM, began), task

    def due(now: float) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Loop, "time", lambda self: now)
            loop.timers[-1][1]()

    yield arm, loop, due
    loop.close()


def test_scopes_of_one_limit_share_the_timer_of_the_first(world: Any) -> None:
    arm, loop, due = world
    tasks = [arm(began)[1] for began in (0.0, 1.0, 2.0)]
    assert [when for when, _ in loop.timers] == [5.0]
    due(5.0)
    assert [task.cancelled for task in tasks] == [1, 0, 0]
    assert [when for when, _ in loop.timers] == [5.0, 6.0]
    due(7.0)
    assert [task.cancelled for task in tasks] == [1, 1, 1]
    assert len(loop.timers) == 2


def test_scope_left_in_time_is_passed_over(world: Any) -> None:
    arm, loop, due = world
    first, task = arm(0.0)
    assert first.disarm(None, None, None) is False
    _, later = arm(3.0)
    assert [when for when, _ in loop.timers] == [5.0], "the timer of the first is still to come"
    due(5.0)
    assert (task.cancelled, later.cancelled) == (0, 0)
    assert [when for when, _ in loop.timers] == [5.0, 8.0]


def test_lifted_scope_is_never_interrupted(world: Any) -> None:
    arm, _, due = world
    first, task = arm(0.0)
    assert first.hold_fire() is True
    due(5.0)
    assert task.cancelled == 0
    second, other = arm(6.0)
    due(11.0)
    assert other.cancelled == 1
    assert second.hold_fire() is False
    assert second.disarm(asyncio.CancelledError, None, None) is True
    assert other.cancelled == 0


def test_scopes_left_out_of_order_are_forgotten(world: Any) -> None:
    arm, _, _ = world
    oldest, _ = arm(0.0)
    others = [arm(1.0) for _ in range(1000)]
    kept = [weakref.ref(task) for _, task in others]
    for left, _ in others:
        left.disarm(None, None, None)
    del others, left, _
    gc.collect()
    assert sum(ref() is not None for ref in kept) == 0
    queue = oldest.queue
    assert len(queue.arms) < 200
    oldest.disarm(None, None, None)
    assert len(queue.arms) == 0


def test_virtual_loop_has_no_timer_left_of_a_call_that_is_over() -> None:
    @sp.Policy(sp.Deadline(5), sp.Timeout(2))
    async def quick() -> int:
        return 1

    async def main(clock: Any) -> tuple[int, float]:
        began = clock.now()
        assert await quick() == 1
        await asyncio.sleep(0.5)
        loop: Any = asyncio.get_running_loop()
        return len([handle for handle in loop._scheduled if not handle.cancelled()]), clock.now() - began

    assert sp.testing.run(main) == (0, 0.5)


def test_timer_keeps_nothing_of_the_call_that_set_it() -> None:
    class Big:
        pass

    @sp.Policy(sp.Deadline(60))
    async def work(big: Big) -> None:
        await asyncio.sleep(0)

    async def main() -> Any:
        big = Big()
        ref = weakref.ref(big)
        await work(big)
        del big
        await asyncio.sleep(0)
        return ref()

    assert asyncio.run(main()) is None
