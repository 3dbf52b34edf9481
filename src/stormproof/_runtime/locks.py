"""State held in this process: the only locks, and a counter that needs none."""

from __future__ import annotations

import itertools
import os
import sys
import weakref

from . import machine as _machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_guarded: weakref.WeakSet[Any] = weakref.WeakSet()


def guard(owner: Any) -> None:
    """Give ``owner`` a ``_lock``, and a fresh one in every forked child.

    A lock that another thread held while the process forked stays locked for ever in the child.
    Reentrant, because a signal handler may use what its own thread is just using.
    """
    object.__setattr__(owner, "_lock", _machine.machine.lock())
    _guarded.add(owner)


def _renew_locks() -> None:
    owners = list(_guarded)
    # All of them first: what one does in the child may need another's lock.
    for owner in owners:
        object.__setattr__(owner, "_lock", _machine.machine.lock())
    for owner in owners:
        # What the threads of the parent held, nobody holds here.
        if hasattr(owner, "after_fork"):
            owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def has_gil() -> bool:
    """Whether only one thread runs at a time; not so on a free-threaded build."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


class Tally:
    """Counts events from any thread; ``tick()`` is one atomic C call under the GIL.

    On a free-threaded build, where that call is not atomic, ``tick`` takes a lock instead.
    """

    __slots__ = ("_seen", "tick")

    tick: Callable[[], int]

    def __init__(self) -> None:
        self._seen = 0
        self.tick = itertools.count().__next__ if has_gil() else _LockedCount().tick

    def take(self) -> int:
        """The ticks since the last ``take``. Callers hold their own lock."""
        # Reading the counter is itself a tick; the next reading leaves it out.
        value = self.tick()
        fresh = value - self._seen
        self._seen = value + 1
        return fresh


class _LockedCount:
    __slots__ = ("__weakref__", "_lock", "_step")

    _lock: Any

    def __init__(self) -> None:
        self._step = itertools.count().__next__
        guard(self)

    def tick(self) -> int:
        with self._lock:
            return self._step()


class Shared:
    """Objects by name, alive as long as somebody uses them."""

    __slots__ = ("__weakref__", "_items", "_lock")

    _lock: Any

    def __init__(self) -> None:
        self._items: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
        guard(self)

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """The object of that name, made if there is none."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                found = self._items[key] = make()
            return found
