"""Measures what calls leave behind in memory, what one call needs, and what long use adds up to."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from .call_timing import ARGUMENT, expect, functions, small_heap
from .model import Effort, Figures, Ready

_WARM_UP = 200
_PEAKS = 20


class Retained:
    """Per call: bytes and blocks still held after many calls; and the most bytes held during one.

    The bytes come from `tracemalloc`, the blocks from `sys.getallocatedblocks`, each in a pass of
    its own. Garbage in cycles is collected first: what is left is held by somebody. How often memory
    was taken and given back in between is not to be had from the interpreter; the peak is.
    """

    units = ("B retained", "blocks retained", "B at peak")

    def __init__(self, share: float = 1.0) -> None:
        #: Of the calls that the effort asks for; fewer where a call takes long.
        self.share = share

    def check(self, ready: Ready) -> None:
        with ready.case.inside():
            expect(functions(ready.made)[0](ARGUMENT))

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]:
        calls = round(effort.calls * self.share)
        with small_heap():
            return {ready.case.name: self._figures(ready, calls) for ready in cases}

    def _figures(self, ready: Ready, calls: int) -> Figures:
        call = functions(ready.made)[0]
        with ready.case.inside():
            _repeat(call, _WARM_UP)
            blocks = _grown(sys.getallocatedblocks, call, calls)
            tracemalloc.start()
            try:
                _repeat(call, _WARM_UP)
                held = _grown(lambda: tracemalloc.get_traced_memory()[0], call, calls)
                peak = min(_peak(call) for _ in range(_PEAKS))
            finally:
                tracemalloc.stop()
        return {"B retained": held / calls, "blocks retained": blocks / calls, "B at peak": peak}


@dataclass(frozen=True)
class Held:
    """Something with state: ``use(n)`` uses it for the n-th time, ``entries()`` counts what it keeps."""

    use: Callable[[int], object]
    entries: Callable[[], int] = lambda: 1


class Growth:
    """Bytes held after many uses: how many more than after a hundredth of them, and how many in all.

    A case makes a `Held`; it is made once more while memory is traced, so that all it holds is seen.
    """

    units = ("B more", "B held", "entries")
    #: Of the calls that the effort asks for: a million.
    TIMES = 10

    def check(self, ready: Ready) -> None:
        if not isinstance(ready.made, Held):
            raise TypeError(f"a Held was expected, got {ready.made!r}")
        ready.made.use(0)
        ready.made.use(1)

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]:
        uses = effort.calls * self.TIMES
        with small_heap():
            return {ready.case.name: self._figures(ready, uses) for ready in cases}

    def _figures(self, ready: Ready, uses: int) -> Figures:
        early = uses // 100
        with ready.case.inside():
            tracemalloc.start()
            try:
                before = _traced()
                held: Held = ready.case.make()
                first = _use(held, 0, early) - before
                last = _use(held, early, uses) - before
            finally:
                tracemalloc.stop()
        return {"B more": last - first, "B held": last, "entries": held.entries()}


def _use(held: Held, begin: int, end: int) -> int:
    """What is held after the uses from ``begin`` to ``end``."""
    use = held.use
    for number in range(begin, end):
        use(number)
    return _traced()


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _repeat(call: Callable[[int], Any], calls: int) -> None:
    for _ in repeat(None, calls):
        call(ARGUMENT)


def _grown(read: Callable[[], int], call: Callable[[int], Any], calls: int) -> int:
    """By how much ``read()`` has grown after so many calls."""
    gc.collect()
    before = read()
    _repeat(call, calls)
    gc.collect()
    return read() - before


def _peak(call: Callable[[int], Any]) -> int:
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    call(ARGUMENT)
    return tracemalloc.get_traced_memory()[1] - before
