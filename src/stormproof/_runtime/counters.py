"""Counters that any thread may tick."""

from __future__ import annotations

import itertools

from .locks import guard, has_gil

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Tally:
    """Counts events from any thread; ``tick()`` is one atomic C call under the GIL.

    On a free-threaded build, where that call is not atomic, ``tick`` takes a lock instead.
    """

    __slots__ = ("seen", "tick")

    tick: Callable[[], int]
    #: What ``tick()`` gives next if nothing has happened since the last ``take``.
    seen: int

    def __init__(self) -> None:
        self.seen = 0
        self.tick = itertools.count().__next__ if has_gil() else _LockedCount().tick

    def take(self) -> int:
        """Return the ticks since the last ``take``. Callers hold their own lock."""
        # Reading the counter is itself a tick; the next reading leaves it out.
        value = self.tick()
        fresh = value - self.seen
        self.seen = value + 1
        return fresh

    def peek(self) -> int:
        """Return the ticks since the last ``take``, and leave them to it. Callers hold their own lock."""
        fresh = self.tick() - self.seen
        self.seen += 1
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
