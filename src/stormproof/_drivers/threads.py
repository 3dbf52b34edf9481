"""Worker threads for sync calls that may be abandoned: bounded, reused, never joined."""

from __future__ import annotations

import queue
from _thread import get_ident
from contextvars import copy_context

from .._context.deadlines import ambient
from .._primitives.errors import BulkheadFull
from .._runtime import platform as _platform
from .._runtime.forks import after_fork
from .._runtime.interrupts import Sleeper
from .._runtime.strands import handing_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Ends the walk of `attempts.attempt`.
_sp_boundary = True

#: More threads than this means that abandoned calls are piling up.
LIMIT = 256
_IDLE_S = 10.0


class ThreadJob:
    """A call in flight in another thread. ``bell`` is woken when it ends."""

    __slots__ = ("_discard", "bell", "done", "error", "value")

    def __init__(self, bell: Sleeper) -> None:
        self.bell = bell
        self.done = False
        self._discard: Callable[[Any], object] | None = None
        self.value: object = None
        self.error: BaseException | None = None

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        thread = get_ident()
        handing_over.add(thread)
        try:
            self.value = fn(*args, **kwargs)
        except BaseException as error:
            self.error = error
        finally:
            handing_over.discard(thread)
        self.done = True
        self.bell.wake()
        self._throw_away()

    def abandon(self, discard: Callable[[Any], object]) -> None:
        """Stop waiting for this call: its result is passed to ``discard``."""
        self._discard = discard
        if self.done:
            self._throw_away()

    def _throw_away(self) -> None:
        # Both sides may come here at once; only the one that takes the function calls it.
        discard, self._discard = self._discard, None
        if discard is not None and self.error is None:
            discard(self.value)

    def result(self) -> Any:
        """Return the value of the call, or raise its error."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None
        return self.value


class _PoolThread:
    def __init__(self) -> None:
        self.inbox = _platform.machine.mailbox()
        _platform.machine.start(self._serve, "stormproof-worker")

    def _serve(self) -> None:
        while True:
            try:
                task = self.inbox.get(timeout=_IDLE_S)
            except queue.Empty:
                if _pool.retire(self):
                    return
                continue
            try:
                task()
            finally:
                del task
                _pool.idle.append(self)


class _Pool:
    def __init__(self) -> None:
        self._lock = _platform.machine.lock()
        self._size = 0
        self.idle: list[_PoolThread] = []

    def take(self) -> _PoolThread:
        """A worker that is free, or a new one."""
        try:
            return self.idle.pop()
        except IndexError:
            pass
        with self._lock:
            if self._size >= LIMIT:
                raise BulkheadFull(f"all {LIMIT} worker threads are busy with sync calls that did not stop")
            self._size += 1
        try:
            return _PoolThread()
        except BaseException:
            with self._lock:
                self._size -= 1
            raise

    def available(self) -> bool:
        """Return True if `take` would find a worker, or a place for a new one."""
        return bool(self.idle) or self._size < LIMIT

    def retire(self, worker: _PoolThread) -> bool:
        """Return True if ``worker`` may end: not if it has just been taken."""
        try:
            self.idle.remove(worker)
        except ValueError:
            return False
        with self._lock:
            self._size -= 1
        return True


_pool = _Pool()


@after_fork
def _renew() -> None:
    # Threads do not survive a fork.
    global _pool
    _pool = _Pool()


def available() -> bool:
    """Return True if another call can be started now."""
    return _pool.available()


def start(bell: Sleeper, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> ThreadJob:
    """Run ``fn`` in a worker thread, in a copy of this context; ``bell`` is woken when it ends."""
    job = ThreadJob(bell)
    context = copy_context()
    _pool.take().inbox.put(lambda: context.run(job.run, fn, args, kwargs))
    return job


def wait(bell: Sleeper, seconds: float | None, over: Callable[[], object]) -> None:
    """Wait until ``over()``, the enclosing scope's end, or ``seconds`` (None: no limit) have passed."""
    scope = ambient()
    left = None if scope is None else scope.real_remaining()
    limit = left if seconds is None else seconds if left is None else min(left, seconds)
    bell.wait(limit, lambda: over() or (scope is not None and scope.ended() is not None))
