"""Tools for users' own tests: clocks that a test advances, and waits that take no time."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Coroutine, Iterator

from ._context.deadlines import ambient, switch_off, switch_on
from ._drivers import aio as _aio
from ._drivers.waiter import Waiter
from ._primitives.options import Seconds, flag, number
from ._primitives.options import seconds as duration
from ._runtime import clock as _clock
from ._runtime import interrupts
from ._runtime.locks import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from ._runtime.virtual_loop import VirtualLoop

    T = TypeVar("T")


class FakeClock:
    """A clock that stands still until ``advance``; a sleep takes no time and moves it.

    ``sleeps`` lists the waits that were asked for, in order. With ``blocking`` a thread or task that sleeps
    waits, in real time, until the clock has been advanced past its wait; ``sleeping`` counts those.
    Hedges, timeouts and queues in async code need `run`: they wait by the event loop's own timers.
    """

    #: An event loop's timers do not follow this clock.
    drives_timers = False

    def __init__(self, start: float = 0.0, *, blocking: bool = False) -> None:
        self._now = number("FakeClock", "start", start)
        self.sleeps: list[float] = []
        self._moved = threading.Condition() if flag("FakeClock", "blocking", blocking) else None
        #: Time at which each sleeping thread or task resumes, and the waiter that wakes a task.
        self._due: list[tuple[float, Waiter | None]] = []

    def now(self) -> float:
        """Return the current time in seconds."""
        return self._now

    def advance(self, seconds: Seconds) -> None:
        """Move the clock. A negative value sets it back."""
        seconds = duration("FakeClock", "seconds", seconds, least=None)
        if self._moved is None:
            self._now += seconds
            return
        with self._moved:
            self._now += seconds
            woken = [waiter for due, waiter in self._due if waiter is not None and due <= self._now]
        interrupts.wake()
        for waiter in woken:
            waiter.grant()

    @property
    def sleeping(self) -> int:
        """Number of threads and tasks that wait for the clock to be advanced."""
        return len(self._due)

    def wait_for_sleepers(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait, in real time, until ``count`` threads sleep on a ``blocking`` clock."""
        if self._moved is None:
            raise RuntimeError("FakeClock: sleepers wait only with blocking=True")
        with self._moved:
            if not self._moved.wait_for(lambda: len(self._due) >= count, timeout):
                raise TimeoutError(f"{len(self._due)} of {count} threads sleep after {timeout:g} s")

    async def wait_for_sleeping_tasks(self, count: int = 1, timeout: float = 10.0) -> None:  # noqa: ASYNC109
        """`wait_for_sleepers`, in a task: the other tasks run meanwhile."""
        if self._moved is None:
            raise RuntimeError("FakeClock: sleepers wait only with blocking=True")
        library: Any = interrupts.library()
        began = _clock.SYSTEM.now()
        while len(self._due) < count:
            if _clock.SYSTEM.now() - began > timeout:
                raise TimeoutError(f"{len(self._due)} of {count} tasks sleep after {timeout:g} s")
            await library.sleep(0)

    def asked(self, seconds: float) -> None:
        """Record a wait."""
        self.sleeps.append(seconds)

    def sleep(self, seconds: float) -> None:
        """Record the wait and move the clock by it, at once."""
        self.asked(seconds)
        if self._moved is None:
            self._now += seconds
        else:
            self._block(self._moved, seconds)

    async def sleep_async(self, seconds: float) -> None:
        """`sleep`, in a task: with ``blocking`` it waits until the clock has been advanced."""
        if self._moved is None:
            self.sleep(seconds)
            await _aio.sleep(0, _clock.SYSTEM)
            return
        self.asked(seconds)
        waiter = Waiter()
        with self._moved:
            entry = (self._now + seconds, waiter)
            self._due.append(entry)
            if entry[0] <= self._now:
                waiter.grant()
            self._moved.notify_all()
        try:
            await waiter.wait_async(None)
            # A wait of 0 lets a cancellation land, too.
            await _aio.sleep(0, _clock.SYSTEM)
        finally:
            with self._moved:
                self._due.remove(entry)

    def _block(self, moved: threading.Condition, seconds: float) -> None:
        if interrupts.library() is not None:
            raise RuntimeError("FakeClock: blocking=True would block the event loop; use testing.run(main)")
        with moved:
            entry = (self._now + seconds, None)
            self._due.append(entry)
            moved.notify_all()
        scope = ambient()
        try:
            # The end of the scope ends the sleep, as on the system's clock.
            interrupts.Sleeper().wait(
                None, lambda: self._now >= entry[0] or (scope is not None and scope.ended() is not None)
            )
        finally:
            with moved:
                self._due.remove(entry)

    def __repr__(self) -> str:
        return f"<FakeClock at {self._now:g}, {len(self.sleeps)} sleeps>"


class VirtualClock(FakeClock):
    """The clock of `run`: the event loop's own time, which jumps to the next timer."""

    drives_timers = True

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def now(self) -> float:
        return self._loop.time()

    def advance(self, seconds: Seconds) -> None:
        self._loop.jump(duration("VirtualClock", "seconds", seconds, least=None))

    def sleep(self, seconds: float) -> None:
        self.asked(seconds)
        self._loop.jump(seconds)


def run(main: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
    """Run ``main(clock)`` in an asyncio loop in which waiting takes no time.

    Whenever every task waits, time jumps to the next timer, so hedges, timeouts, queues and
    deadlines behave as they would and a minute passes in a millisecond. Policies without a clock
    of their own follow it. Not for real sockets, or threads that take their time.
    """
    import asyncio

    from ._runtime.virtual_loop import VirtualLoop

    loop = VirtualLoop()
    clock = VirtualClock(loop)
    _clock.AMBIENT.override(clock)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(main(clock))
    finally:
        _clock.AMBIENT.restore(clock)


def reset() -> None:
    """Give every budget, and every strategy that counts or learns, the state it was made with.

    In this process: breakers, limiters, pacers, throttles, adaptive limits and rates, hedges. Those with a
    store are left alone: their state is the fleet's.
    """
    for owner in guarded():
        begin_anew = getattr(owner, "reset", None)
        if begin_anew is not None and getattr(owner, "store", None) is None:
            begin_anew()


class off:  # noqa: N801 - used as a function is
    """Make every policy of this process a plain call: no retry, no refusal, no wait.

    From ``off()`` on, in all threads and tasks, until the block of ``with off():`` ends, or ``restore()``.
    The environment variable ``STORMPROOF_OFF=1`` does it for a whole run.
    """

    def __init__(self) -> None:
        switch_off(self)

    def restore(self) -> None:
        """Switch policies on again, unless another switch keeps them off."""
        switch_on(self)

    def __enter__(self) -> off:
        return self

    def __exit__(self, *exc: object) -> None:
        self.restore()


@contextlib.contextmanager
def instant(fresh: bool = False) -> Iterator[FakeClock]:
    """Make every wait of every policy without a clock of its own instant inside the block, in all threads.

    Gives the clock that counts them: ``with instant() as clock: ...; assert clock.sleeps == [...]``.
    It starts at the system clock's time, rounded up to a multiple of 2**-10 s. With ``fresh`` what
    other tests spent, opened or filled is forgotten before it begins (`reset`), and again after it.
    """
    if not isinstance(fresh, bool):
        raise TypeError(f"instant: fresh must be True or False, got {fresh!r}")
    # A multiple of 2**-10 s leaves the low bits free: the sum of usual durations is exact, on every machine.
    clock = FakeClock(start=math.ceil(_clock.SYSTEM.now() * 1024) / 1024)
    _clock.AMBIENT.override(clock)
    try:
        if fresh:
            reset()
        yield clock
    finally:
        _clock.AMBIENT.restore(clock)
        if fresh:
            reset()
