"""Waiters in a queue, each until it is granted a place: a thread, an asyncio task or a trio task."""

from __future__ import annotations

from contextlib import contextmanager

from .._context.deadlines import ambient, check
from .._runtime import interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any


@contextmanager
def leaving(leave: Callable[[Waiter], object], waiter: Waiter) -> Iterator[None]:
    """Leave the line by ``leave(waiter)`` if the wait inside is interrupted."""
    try:
        yield
    except BaseException:
        leave(waiter)
        raise


class Waiter:
    """One place in a queue. ``grant()`` may come from any thread."""

    __slots__ = ("_sleeper", "_wake", "granted")

    def __init__(self) -> None:
        self.granted = False
        self._sleeper: interrupts.Sleeper | None = None
        self._wake: Any = None

    def grant(self) -> None:
        """Hand over the place."""
        self.granted = True
        if self._sleeper is not None:
            self._sleeper.wake()
        elif self._wake is not None:
            self._wake()

    def wait(self, seconds: float | None) -> bool:
        """Wait in a thread; return False if no place was granted in time. Raises if the scope ends first."""
        self._sleeper = interrupts.Sleeper()
        scope = ambient()
        left = None if scope is None else scope.real_remaining()
        limit = left if seconds is None else seconds if left is None else min(seconds, left)
        self._sleeper.wait(limit, lambda: self.granted or (scope is not None and scope.ended() is not None))
        if not self.granted:
            check()
            if left is not None and limit == left:
                # The scope's time is over, although rounding may still show a little of it.
                assert scope is not None
                raise scope.tightest().refusal()
        return self.granted

    async def wait_async(self, seconds: float | None) -> bool:
        """Wait in a task; return False if no place was granted in time. A scope cancels it like any await."""
        library = interrupts.required_library("an async policy")
        if library.__name__ == "trio":
            await self._wait_trio(library, seconds)
        else:
            await self._wait_asyncio(library, seconds)
        return self.granted

    async def _wait_asyncio(self, asyncio: ModuleType, seconds: float | None) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def set_result() -> None:
            if not future.done():
                future.set_result(None)

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(set_result)
            except RuntimeError:
                # The loop is closed, and its waiters with it.
                pass

        self._wake = wake
        if self.granted:
            return
        handle = None if seconds is None else loop.call_later(seconds, set_result)
        try:
            await future
        finally:
            if handle is not None:
                handle.cancel()

    async def _wait_trio(self, trio: ModuleType, seconds: float | None) -> None:
        event = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def wake() -> None:
            try:
                token.run_sync_soon(event.set)
            except trio.RunFinishedError:
                pass

        self._wake = wake
        if self.granted:
            return
        with trio.move_on_after(float("inf") if seconds is None else seconds):
            await event.wait()
        if trio.current_effective_deadline() == float("-inf"):
            # Cancelled after it was woken and before it ran, which trio reports only at the next checkpoint.
            await trio.sleep_forever()
