"""Waking what waits inside a scope: a thread's sleep, an asyncio task, a trio task."""

from __future__ import annotations

import os
import sys

from . import clock as _clock
from . import platform as _platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, Protocol

    from .clock import Clock

    class Scope(Protocol):
        """What a scope shows of itself: its clock, and the time it has left."""

        clock: Clock

        def own_remaining(self) -> float | None: ...

    class Arm(Protocol):
        """What interrupts the async code inside one scope."""

        def cancel(self) -> None: ...

        def lift(self) -> bool:
            """Let the time pass without interrupting: False if it has interrupted already."""
            ...

        def disarm(self, kind: Any, error: Any, traceback: Any) -> bool:
            """Leave the scope: True if this arm's own interruption is what ended it."""
            ...


#: The threads that sleep inside a scope, in the order in which they fell asleep. Adding and discarding are
#: atomic; no lock, because a signal handler may cancel a scope while its own thread is in here.
_sleepers: dict[Sleeper, None] = {}


class Sleeper:
    """One thread's wait, which another thread can end."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = _platform.machine.gate()

    def wake(self) -> None:
        """End the wait, or the next one if none is under way."""
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


def _renew() -> None:
    # Threads do not survive a fork.
    _sleepers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def wait(seconds: float, over: Callable[[], object]) -> None:
    """Sleep, but no longer than until ``over()`` is true after a `wake`."""
    Sleeper().wait(seconds, over)


def library() -> ModuleType | None:
    """The async library that runs this code (the asyncio or trio module), or ``None``."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        return trio
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        return asyncio
    return None


def arm(scope: Scope) -> Arm | None:
    """Arrange for ``scope`` to interrupt the async task that enters it; ``None`` in plain threads."""
    running = library()
    if running is None:
        return None
    if running.__name__ == "trio":
        return _TrioArm(running, scope)
    task = running.current_task()
    return None if task is None else _AsyncioArm(running, task, scope)


def anyio_scope(task: Any) -> Any:
    """The innermost of anyio's cancel scopes that ``task`` is in; None without one, or without a task."""
    backend = sys.modules.get("anyio._backends._asyncio")
    state = None if backend is None or task is None else backend._task_states.get(task)
    return None if state is None else state.cancel_scope


def is_shielded(task: Any, outer: Any) -> bool:
    """Whether ``task`` has entered a shielded scope of anyio's since it was in ``outer``."""
    scope = anyio_scope(task)
    while scope is not None and scope is not outer:
        if scope.shield:
            return True
        scope = scope._parent_scope
    return False


def _seconds_left(scope: Scope) -> float | None:
    # A timer of the event loop cannot follow a clock that a test moves by hand.
    return scope.own_remaining() if getattr(scope.clock, "drives_timers", True) else None


#: How soon, at first and at most, to look again whether a task may be interrupted.
_SOON_S, _LATER_S = 0.001, 0.05


class _AsyncioArm:
    """Cancels a task of asyncio's, with the manners of anyio's own scopes.

    Not inside a shielded scope of anyio's, where a worker thread may be at work that goes on in any case: its
    place would be given away while it does. And not between the moment when something is handed over (a lock,
    a place in a pool) and the moment when the task takes it: it would be lost.
    """

    __slots__ = ("_before", "_error", "_fired", "_handle", "_loop", "_outer", "_task", "_wait_s")

    def __init__(self, asyncio: Any, task: Any, scope: Scope) -> None:
        self._task = task
        self._outer = anyio_scope(task)
        self._wait_s = _SOON_S
        self._loop = asyncio.get_running_loop()
        self._error = asyncio.CancelledError
        self._before = task.cancelling()
        self._fired = False
        left = _seconds_left(scope)
        self._handle = None if left is None else self._loop.call_later(left, self._fire)

    def _fire(self) -> None:
        task = self._task
        if self._fired or task is None:
            return
        waiter = getattr(task, "_fut_waiter", None)
        if waiter is not None and waiter.done():
            self._handle = self._loop.call_soon(self._fire)
        elif is_shielded(task, self._outer):
            self._handle = self._loop.call_later(self._wait_s, self._fire)
            self._wait_s = min(2 * self._wait_s, _LATER_S)
        else:
            self._fired = True
            task.cancel()

    def cancel(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._fire)
        except RuntimeError:
            # The loop is closed: nothing runs there any more.
            pass

    def lift(self) -> bool:
        if self._handle is not None:
            self._handle.cancel()
        return not self._fired

    def disarm(self, kind: Any, error: Any, traceback: Any) -> bool:
        if self._handle is not None:
            self._handle.cancel()
        task, self._task = self._task, None
        if not self._fired or task is None:
            return False
        # Somebody else's cancellation, if there is one too, must go on.
        return task.uncancel() <= self._before and kind is not None and issubclass(kind, self._error)


class _TrioArm:
    __slots__ = ("_scope", "_token", "_trio")

    def __init__(self, trio: Any, scope: Scope) -> None:
        left = _seconds_left(scope)
        self._trio = trio
        self._token = trio.lowlevel.current_trio_token()
        self._scope = trio.CancelScope(
            deadline=trio.current_time() + left if left is not None else float("inf")
        )
        self._scope.__enter__()

    def cancel(self) -> None:
        try:
            self._token.run_sync_soon(self._scope.cancel)
        except self._trio.RunFinishedError:
            pass

    def lift(self) -> bool:
        if self._scope.cancel_called:
            return False
        self._scope.deadline = float("inf")
        return True

    def disarm(self, kind: Any, error: Any, traceback: Any) -> bool:
        self._scope.__exit__(kind, error, traceback)
        return bool(self._scope.cancelled_caught)
