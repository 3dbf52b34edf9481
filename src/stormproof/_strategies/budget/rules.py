"""The rule of the default budget, and the window it looks back on. Pure: time is a parameter."""

from __future__ import annotations

import math

#: A balance this close below a price still pays it: sums of binary fractions of 0.1 fall short by less.
ROUNDING = 1e-9

_SLICES = 20

#: No slice is shorter than this: it would be shorter than the clock's own noise.
SHORTEST_S = 1e-7


class Slices:
    """A sum over the last ``window`` seconds in O(1) memory: whole slices fall out at the far end."""

    __slots__ = ("_at", "_sums", "_total", "_width", "_window_s", "end")

    def __init__(self, window_s: float, now: float) -> None:
        self._window_s = window_s
        self._width = max(window_s / _SLICES, SHORTEST_S)
        self._sums = [0.0] * _SLICES
        self._at = int(now // self._width)
        #: When the next slice begins.
        self.end = (self._at + 1) * self._width
        #: NaN since something was dropped: it is added up anew when it is read.
        self._total = 0.0

    @property
    def total(self) -> float:
        """The sum over the window."""
        if self._total != self._total:
            self._total = sum(self._sums)
        return self._total

    def roll(self, now: float) -> None:
        """Drop the slices that ``now`` has left behind. Time that runs backwards drops nothing."""
        if now < self.end:
            return
        at = int(now // self._width)
        self.end = (at + 1) * self._width
        steps = at - self._at
        if steps <= 0:
            return
        begun, self._at = self._at, at
        if not self._total:
            # Nothing was ever added, or all of it has been dropped: every sum is 0.
            return
        if steps >= _SLICES:
            self._sums = [0.0] * _SLICES
            self._total = 0.0
            return
        sums = self._sums
        for slot in range(begun + 1, at + 1):
            if sums[slot % _SLICES]:
                sums[slot % _SLICES] = 0.0
                self._total = math.nan

    def add(self, amount: float, elapsed: float = 0.0) -> None:
        """Add ``amount``, spread evenly over the ``elapsed`` seconds that end now; older parts are lost."""
        if elapsed < self._width:
            self._sums[self._at % _SLICES] += amount
            self._total += amount
            return
        if elapsed > self._window_s:
            amount *= self._window_s / elapsed
            elapsed = self._window_s
        # From 1 to all of them, since a slice is at most as long as ``elapsed``, which is at most the window.
        slots = round(elapsed / self._width)
        for back in range(slots):
            self._sums[(self._at - back) % _SLICES] += amount / slots
        self._total += amount

    def resliced(self, window_s: float, now: float) -> Slices:
        """Return the sums in slices of another window, without what that window does not reach back to."""
        self.roll(now)
        new = Slices(window_s, now)
        if new._width == self._width:
            return self
        for back in range(_SLICES):
            amount = self._sums[(self._at - back) % _SLICES]
            # The slice that is being filled ends now; the others are taken to lie in their middle.
            when = now if back == 0 else (self._at - back + 0.5) * self._width
            age = new._at - int(when // new._width)
            if amount and age < _SLICES:
                new._sums[(new._at - age) % _SLICES] += amount
        new._total = sum(new._sums)
        return new

    def copy(self) -> Slices:
        """Return a copy that can be rolled and added to without changing this one."""
        twin = Slices.__new__(Slices)
        twin._window_s, twin._width, twin._at = self._window_s, self._width, self._at
        twin._sums, twin.end, twin._total = self._sums[:], self.end, self._total
        return twin


def settle(tokens: float, earned: Slices, amount: float, elapsed: float, now: float, burst: float) -> float:
    """Return what a `Budget` holds at ``now``, after ``amount`` was earned in the last ``elapsed`` seconds.

    All of ``amount`` counts. The bound is ``burst`` and what the window earned, so only what stands above
    ``burst`` ends with the window: a caller that earns slowly still saves up to ``burst``.
    """
    if now >= earned.end:
        earned.roll(now)
    if amount:
        earned.add(amount, elapsed)
        tokens += amount
    if tokens <= burst:
        return tokens
    bound = burst + earned.total
    return tokens if tokens < bound else bound
