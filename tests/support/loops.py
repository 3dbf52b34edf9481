"""asyncio and trio in virtual time, and a guard against hangs.

A sleep jumps to its end, so a wait of an hour is exact and free. For what happens inside one call
see `tests.support.scripted`; this is for tests whose tasks and timers meet each other.
"""

from __future__ import annotations

import asyncio
import selectors
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
import trio.testing


class _Jumping(selectors.DefaultSelector):
    """Instead of waiting for a timer, moves the loop's time to it."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(timeout if timeout is None else 0)
        if not ready and timeout is not None:
            self.loop.virtual += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose time stands still while code runs and jumps from timer to timer."""

    def __init__(self) -> None:
        self.virtual = 0.0
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.virtual


class Loop:
    """An async library: how to start it, sleep in it, read its time, cancel, and run tasks at once."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Await ``fn(*args)`` in a fresh loop; its time starts at 0."""

        async def main() -> Any:
            return await fn(*args)

        if self.name == "trio":
            return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(main())

    async def sleep(self, seconds: float) -> None:
        await (asyncio.sleep if self.name == "asyncio" else trio.sleep)(seconds)

    def time(self) -> float:
        return asyncio.get_running_loop().time() if self.name == "asyncio" else trio.current_time()

    async def cut(self, seconds: float, fn: Callable[..., Awaitable[Any]], *args: Any) -> bool:
        """Await ``fn(*args)`` and cancel it from outside after ``seconds``: whether that ended it."""
        if self.name == "trio":
            with trio.move_on_after(seconds) as scope:
                await fn(*args)
            return scope.cancelled_caught
        task = asyncio.ensure_future(fn(*args))
        await asyncio.wait([task], timeout=seconds)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
        return False

    async def together(self, *fns: Callable[[], Awaitable[Any]]) -> list[Any]:
        """Run all of ``fns`` at once: what each returned or raised, in order."""
        outcomes: list[Any] = [None] * len(fns)

        async def keep(place: int, fn: Callable[[], Awaitable[Any]]) -> None:
            try:
                outcomes[place] = await fn()
            except Exception as error:
                outcomes[place] = error

        if self.name == "trio":
            async with trio.open_nursery() as nursery:
                for place, fn in enumerate(fns):
                    nursery.start_soon(keep, place, fn)
        else:
            async with asyncio.TaskGroup() as group:
                for place, fn in enumerate(fns):
                    group.create_task(keep(place, fn))
        return outcomes

    def __repr__(self) -> str:
        return self.name


each_loop = pytest.mark.parametrize("loop", [Loop("asyncio"), Loop("trio")], ids=repr)


@pytest.fixture
def watchdog() -> Iterator[None]:
    """Turns a hang of the main thread into a failure; a test that passes never waits for it."""

    def bark(*_: object) -> None:
        raise AssertionError("still running after a minute: this hangs")

    before = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, 60)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
