"""Counters that any thread may tick."""

from __future__ import annotations

import itertools
import sys
from _thread import get_ident

from .locks import has_gil

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Tally:
    """Counts events from any thread; ``tick()`` is one atomic C call under the GIL.

    On a free-threaded build, where that call is not atomic, each thread has a count of its own, and
    reading adds them up.
    """

    __slots__ = ("left", "seen", "tick")

    tick: Callable[[], object]
    #: Returns a number that each tick lowers by one; it was ``seen`` at the last reading.
    left: Callable[[], int]
    seen: int

    def __init__(self) -> None:
        if has_gil():
            # It makes no number when it is ticked, and says how many ticks are left.
            ticks: Any = itertools.repeat(None, sys.maxsize)
            self.tick, self.left = ticks.__next__, ticks.__length_hint__
        else:
            counts = _CountPerThread()
            self.tick, self.left = counts.tick, counts.left
        self.seen = self.left()

    def take(self) -> int:
        """Return the ticks since the last ``take``. The caller holds a lock."""
        left = self.left()
        fresh, self.seen = self.seen - left, left
        return fresh

    def peek(self) -> int:
        """Return the ticks since the last ``take``, and leave them to it."""
        return self.seen - self.left()


class _CountPerThread:
    """A count per thread, which no other one writes; it outlives its thread."""

    def __init__(self) -> None:
        self._counts: dict[int, list[int]] = {}

    def tick(self) -> None:
        """Count one. No other thread writes this count, and no signal handler runs within the addition."""
        thread = get_ident()
        count = self._counts.get(thread)
        if count is None:
            count = self._counts[thread] = [0]
        count[0] += 1

    def left(self) -> int:
        """Return the sum over all threads, as a number below zero."""
        # A copy is one step; other threads may add theirs at any time.
        return -sum(count[0] for count in self._counts.copy().values())
