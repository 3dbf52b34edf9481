"""Counters that any thread may tick."""

from __future__ import annotations

import itertools
from _thread import get_ident

from .locks import has_gil

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Tally:
    """Counts events from any thread; ``tick()`` is one atomic C call under the GIL.

    On a free-threaded build, where that call is not atomic, each thread has a count of its own, and
    reading adds them up.
    """

    __slots__ = ("read", "seen", "step", "tick")

    tick: Callable[[], object]
    #: Gives the count, of which ``seen`` were there at the last reading. ``step`` is what the reading adds.
    read: Callable[[], int]
    seen: int
    step: int

    def __init__(self) -> None:
        self.seen = 0
        if has_gil():
            self.tick = self.read = itertools.count().__next__
            self.step = 1
        else:
            counts = _CountPerThread()
            self.tick, self.read = counts.tick, counts.total
            self.step = 0

    def take(self) -> int:
        """Return the ticks since the last ``take``. Callers hold their own lock."""
        value = self.read()
        fresh = value - self.seen
        self.seen = value + self.step
        return fresh

    def peek(self) -> int:
        """Return the ticks since the last ``take``, and leave them to it. Callers hold their own lock."""
        fresh = self.read() - self.seen
        self.seen += self.step
        return fresh


class _CountPerThread:
    """A count per thread, which no other one writes; it outlives its thread."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, list[int]] = {}

    def tick(self) -> None:
        """Count one. No other thread writes this count, and no signal handler runs within the addition."""
        thread = get_ident()
        count = self._counts.get(thread)
        if count is None:
            count = self._counts[thread] = [0]
        count[0] += 1

    def total(self) -> int:
        """Return the sum over all threads."""
        # A copy is one step; other threads may add theirs at any time.
        return sum(count[0] for count in self._counts.copy().values())
