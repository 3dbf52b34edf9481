"""Wakes waits inside a scope: a thread's sleep, an asyncio task, a trio task."""

from __future__ import annotations

import weakref
from collections import deque
from contextvars import Context
from sys import modules

from . import clock as _clock
from . import platform as _platform
from .forks import after_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, Protocol

    from .clock import Clock

    class Scope(Protocol):
        """Clock and remaining time of a scope."""

        clock: Clock

        def own_remaining(self) -> float | None: ...

    class Arm(Protocol):
        """Interrupts the async code inside one scope."""

        def interrupt(self) -> None:
            """Interrupt it now, from any thread."""
            ...

        def hold_fire(self) -> bool:
            """Let the time pass without interrupting: False if it has interrupted already."""
            ...

        def disarm(self, kind: object, error: object, traceback: object) -> bool:
            """Leave the scope: True if this arm's own interruption is what ended it."""
            ...


#: The system's clock, which event loops use, too. A simulation may replace it.
_REAL_CLOCK = _clock.SYSTEM

#: The threads that sleep inside a scope, in the order in which they fell asleep. Adding and discarding are
#: atomic; no lock, because a signal handler may cancel a scope while its own thread is in here.
_sleepers: dict[Sleeper, None] = {}


class Sleeper:
    """One thread's wait, which another thread can end."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = _platform.machine.gate()

    def wake(self) -> None:
        """End the wait, or the next one if there is none now."""
        try:
            self._gate.release()
        except RuntimeError:
            # Woken already.
            pass

    def wait(self, seconds: float | None, over: Callable[[], object]) -> None:
        """Sleep until ``over()`` is true after a `wake`, but no longer than ``seconds`` (None: no limit)."""
        nap_s = _platform.machine.nap_s
        end = None if seconds is None else _clock.SYSTEM.now() + seconds
        _sleepers[self] = None
        try:
            while not over():
                left = nap_s if end is None else end - _clock.SYSTEM.now()
                if left <= 0:
                    return
                self._gate.acquire(timeout=min(left, nap_s))
        finally:
            _sleepers.pop(self, None)


def wake() -> None:
    """Let every sleeping thread look at its scope again."""
    # A copy is one step; a tuple is not, because the collector may run on the way, and other threads with it.
    for sleeper in _sleepers.copy():
        sleeper.wake()


@after_fork
def _renew() -> None:
    # Threads do not survive a fork.
    _sleepers.clear()


ANYIO = "anyio._backends._asyncio"


def library() -> ModuleType | None:
    """The async library that runs this code (the asyncio or trio module), or ``None``."""
    trio, asyncio = modules.get("trio"), modules.get("asyncio")
    if trio is not None and trio.lowlevel.in_trio_task():
        return trio
    if asyncio is not None and asyncio._get_running_loop() is not None:
        return asyncio
    return None


def required_library(what: str) -> ModuleType:
    """`library`, or a RuntimeError that ``what`` cannot run without one."""
    running = library()
    if running is None:
        raise RuntimeError(f"{what} runs under asyncio or trio, and neither is running here")
    return running


def arm(scope: Scope) -> Arm | None:
    """Arrange for ``scope`` to interrupt the async task that enters it; ``None`` in plain threads."""
    running = library()
    if running is None:
        return None
    if running.__name__ == "trio":
        return _TrioArm(running, scope)
    task = running.current_task()
    return None if task is None else _AsyncioArm(task, scope)


def anyio_scope(task: object) -> Any:
    """The innermost of anyio's cancel scopes that ``task`` is in; None without one, or without a task."""
    backend = modules.get(ANYIO)
    state = None if backend is None or task is None else backend._task_states.get(task)
    return None if state is None else state.cancel_scope


def is_shielded(task: object, outer: object) -> bool:
    """Return True if ``task`` has entered a shielded scope of anyio's since it was in ``outer``."""
    scope = anyio_scope(task)
    while scope is not None and scope is not outer:
        if scope.shield:
            return True
        scope = scope._parent_scope
    return False


def _seconds_left(scope: Scope) -> float | None:
    # A timer of the event loop cannot follow a clock that a test moves by hand.
    return scope.own_remaining() if getattr(scope.clock, "drives_timers", True) else None


def _call_soon(loop: AbstractEventLoop, callback: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        # The loop is closed: nothing runs there any more.
        pass


#: First and longest interval of the check whether a task may be interrupted.
_SOON_S, _LATER_S = 0.001, 0.05


class _TaskArm:
    """Cancels a task of asyncio's, with the manners of anyio's own scopes.

    Not inside a shielded scope of anyio's, where a worker thread may be at work that goes on in any case: its
    place would be given away while it does. And not between the moment when something is handed over (a lock,
    a place in a pool) and the moment when the task takes it: it would be lost.
    """

    __slots__ = ("fired", "handle", "before", "outer", "task")
    task: Any
    #: The number of its cancellations, and anyio's innermost scope, as the scope was entered.
    before: int
    outer: object
    fired: bool
    #: The timer of its own, or of the next look.
    handle: Any

    def begin(self, task: Any, outer: object) -> None:
        """Begin to guard ``task``, in a scope of anyio's or none."""
        self.task, self.before, self.outer = task, task.cancelling(), outer
        self.fired, self.handle = False, None

    def fire(self, wait_s: float = _SOON_S) -> None:
        """Interrupt the task, once, as soon as nothing is lost by it."""
        task = self.task
        if self.fired or task is None:
            return
        waiter = getattr(task, "_fut_waiter", None)
        if waiter is not None and waiter.done():
            self.handle = task.get_loop().call_soon(self.fire)
        elif is_shielded(task, self.outer):
            self.handle = task.get_loop().call_later(wait_s, self.fire, min(2 * wait_s, _LATER_S))
        else:
            self.fired = True
            task.cancel()

    def interrupt(self) -> None:
        if (task := self.task) is not None:
            _call_soon(task.get_loop(), self.fire)

    def hold_fire(self) -> bool:
        if self.handle is not None:
            self.handle.cancel()
        return not self.fired

    def disarm(self, kind: Any, error: object, traceback: object) -> bool:
        self.hold_fire()
        task, self.task = self.task, None
        if not self.fired or task is None:
            return False
        # Our cancellation is taken back: that of another must go on.
        is_alone = task.uncancel() <= self.before
        return is_alone and kind is not None and issubclass(kind, modules["asyncio"].CancelledError)


class _AsyncioArm(_TaskArm):
    """Has a timer of its own."""

    def __init__(self, task: Task[Any], scope: Scope) -> None:
        self.begin(task, anyio_scope(task))
        left = _seconds_left(scope)
        if left is not None:
            self.handle = task.get_loop().call_later(left, self.fire)


class Timers:
    """Interrupts the asyncio tasks of scopes with one and the same limit.

    They end in the order in which they began, so a loop needs one timer: that of the first. It stays when
    its scope is left in time, and looks for the next one when it is due.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._queues: dict[int, _TimerQueue] = {}
        #: The queue of the loop that was met last.
        self._last: _TimerQueue | None = None

    def arm(self, scope: Scope, clock: Clock, began: float) -> Arm | None:
        """Do what `arm` does, where the loop's time is the scope's ``clock``; else leave it to that."""
        asyncio = modules.get("asyncio")
        loop = None if asyncio is None else asyncio._get_running_loop()
        if (
            loop is None
            or clock is not _REAL_CLOCK
            or ("trio" in modules and modules["trio"].lowlevel.in_trio_task())
        ):
            return arm(scope)
        queue = self._last
        if queue is None or queue.loop() is not loop:
            queue = self._queue_of(loop)
            if queue is None:
                return arm(scope)
        task = asyncio.current_task(loop)  # type: ignore[union-attr]
        if task is None:
            return None
        queued: _QueuedArm = _QueuedArm()
        # `_TaskArm.begin`, written out: there is an arm for every call.
        queued.task, queued.before, queued.outer = task, task.cancelling(), None
        queued.fired, queued.handle = False, None
        if ANYIO in modules:
            queued.outer = anyio_scope(task)
        queued.queue, queued.end = queue, began + self._limit_s
        queue.arms.append(queued)
        if queue.timer is None:
            queue.wait_for(queued, loop)
        return queued

    def _queue_of(self, loop: AbstractEventLoop) -> _TimerQueue | None:
        # A loop with a time of its own, such as a virtual one, must see no timer without a scope.
        if type(loop).time is not modules["asyncio"].BaseEventLoop.time:
            return None
        queue = self._queues.get(id(loop))
        if queue is None or queue.loop() is not loop:
            for key, other in list(self._queues.items()):
                if (known := other.loop()) is None or known.is_closed():
                    self._queues.pop(key, None)
            queue = self._queues[id(loop)] = _TimerQueue(loop)
        self._last = queue
        return queue


class _TimerQueue:
    """The arms of one loop, in the order of their ends, and the timer of the first."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = weakref.ref(loop)
        self.arms: deque[_QueuedArm] = deque()
        self.timer: object = None
        #: Arms that were left in time and still stand between others.
        self._left = 0
        # An empty context: the timer outlives the call that set it, and must keep nothing of it alive.
        self._context = Context()

    def wait_for(self, arm: _QueuedArm, loop: Any) -> None:
        """Set the timer for the end of ``arm``."""
        self.timer = loop.call_at(arm.end, self._due, context=self._context)

    def leave(self, arm: _QueuedArm) -> None:
        """Forget ``arm``: at once if it is the first, else with those before it, or when there are many."""
        arms = self.arms
        arm.queue = None
        if arms[0] is not arm:
            self._left += 1
            if self._left > 64 and self._left > len(arms) // 2:
                self.arms = deque(other for other in arms if other.queue)
                self._left = 0
            return
        arms.popleft()
        while arms and not arms[0].queue:
            arms.popleft()
            self._left -= 1

    def _due(self) -> None:
        self.timer = None
        loop = self.loop()
        while self.arms and loop is not None:
            arm = self.arms[0]
            if arm.end > loop.time():
                self.wait_for(arm, loop)
                return
            self.leave(arm)
            arm.fire()


class _QueuedArm(_TaskArm):
    """Is fired at ``end`` by the timer of its ``queue``; ``None``: it no longer waits for that."""

    __slots__ = ("end", "queue")
    end: float
    queue: _TimerQueue | None

    def hold_fire(self) -> bool:
        if self.queue is not None:
            self.queue.leave(self)
        return super().hold_fire()

    def disarm(self, kind: object, error: object, traceback: object) -> bool:
        queue = self.queue
        if queue is not None:
            if len(queue.arms) == 1:
                # As a rule no other call of this limit is in flight.
                queue.arms.clear()
                self.queue = None
            else:
                queue.leave(self)
        if self.fired or self.handle is not None:
            return super().disarm(kind, error, traceback)
        self.task = None
        return False


class _TrioArm:
    __slots__ = ("_scope", "_token", "_trio")

    def __init__(self, trio: ModuleType, scope: Scope) -> None:
        left = _seconds_left(scope)
        self._trio = trio
        self._token = trio.lowlevel.current_trio_token()
        self._scope = trio.CancelScope(
            deadline=trio.current_time() + left if left is not None else float("inf")
        )
        self._scope.__enter__()

    def interrupt(self) -> None:
        try:
            self._token.run_sync_soon(self._scope.cancel)
        except self._trio.RunFinishedError:
            pass

    def hold_fire(self) -> bool:
        if self._scope.cancel_called:
            return False
        self._scope.deadline = float("inf")
        return True

    def disarm(self, kind: object, error: object, traceback: object) -> bool:
        self._scope.__exit__(kind, error, traceback)
        return bool(self._scope.cancelled_caught)
