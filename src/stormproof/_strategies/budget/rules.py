"""The rule of the default budget, and the window it looks back on. Pure: time is a parameter."""

from __future__ import annotations

import math
from functools import lru_cache

#: A balance this close below a price still pays it: sums of binary fractions of 0.1 fall short by less.
ROUNDING = 1e-9

_SLICES = 20

#: No slice is shorter than this: it would be shorter than the clock's own noise.
SHORTEST_S = 1e-7


class Slices:
    """A sum over the last ``window`` seconds in O(1) memory: whole slices fall out at the far end."""

    __slots__ = ("at", "end", "sums", "width", "window_s", "known_total")

    def __init__(self, window_s: float, now: float) -> None:
        self.window_s = window_s
        self.width = max(window_s / _SLICES, SHORTEST_S)
        self.sums = [0.0] * _SLICES
        self.at = int(now // self.width)
        #: When the next slice begins.
        self.end = (self.at + 1) * self.width
        #: NaN since something was dropped: it is added up anew when it is read.
        self.known_total = 0.0

    @property
    def total(self) -> float:
        """The sum over the window."""
        if self.known_total != self.known_total:
            self.known_total = sum(self.sums)
        return self.known_total

    def roll(self, now: float) -> None:
        """Drop the slices that ``now`` has left behind. Time that runs backwards drops nothing."""
        if now < self.end:
            return
        at = int(now // self.width)
        self.end = (at + 1) * self.width
        steps = at - self.at
        if steps <= 0:
            return
        self.at = at
        if not self.known_total:
            # Nothing was ever added, or all of it has been dropped: every sum is 0.
            return
        if steps >= _SLICES:
            self.sums = [0.0] * _SLICES
            self.known_total = 0.0
            return
        # Indices below 0 count from the end, which is where the ring goes on.
        sums, place = self.sums, at % _SLICES
        for slot in range(place - steps + 1, place + 1):
            if sums[slot]:
                sums[slot] = 0.0
                self.known_total = math.nan

    def add(self, amount: float, elapsed: float = 0.0) -> None:
        """Add ``amount``, spread evenly over the ``elapsed`` seconds that end now; older parts are lost."""
        if elapsed < self.width:
            self.sums[self.at % _SLICES] += amount
            self.known_total += amount
            return
        if elapsed > self.window_s:
            amount *= self.window_s / elapsed
            elapsed = self.window_s
        # From 1 to all of them, since a slice is at most as long as ``elapsed``, which is at most the window.
        slots = round(elapsed / self.width)
        sums, place, part = self.sums, self.at % _SLICES, amount / slots
        for slot in range(place - slots + 1, place + 1):
            sums[slot] += part
        self.known_total += amount

    def resliced(self, window_s: float, now: float) -> Slices:
        """Return the sums in slices of another window, without what that window does not reach back to."""
        self.roll(now)
        new = Slices(window_s, now)
        if new.width == self.width:
            return self
        for back in range(_SLICES):
            amount = self.sums[(self.at - back) % _SLICES]
            # The slice that is being filled ends now; the others are taken to lie in their middle.
            when = now if back == 0 else (self.at - back + 0.5) * self.width
            age = new.at - int(when // new.width)
            if amount and age < _SLICES:
                new.sums[(new.at - age) % _SLICES] += amount
        new.known_total = sum(new.sums)
        return new

    def copy(self) -> Slices:
        """Return a copy that can be rolled and added to without changing this one."""
        twin = Slices.__new__(Slices)
        twin.window_s, twin.width, twin.at = self.window_s, self.width, self.at
        twin.sums, twin.end, twin.known_total = self.sums[:], self.end, self.known_total
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


#: A larger ratio is not advised: retries of more than half of the calls are a storm of their own.
_MOST_ADVISED = 0.5


@lru_cache(maxsize=64)
def shortage(ratio: float, burst: float, gained: int, paid: int) -> str:
    """Say why a `Budget` is empty that earned ``gained`` successes and paid for ``paid`` retries.

    Kept, because nothing changes from one refusal of an outage to the next.
    """
    earned = f"{gained} success{'' if gained == 1 else 'es'} earned {gained * ratio:.3g}"
    spent = f"{paid} retr{'y' if paid == 1 else 'ies'} spent {paid}"
    # Twice what the burst had to pay for.
    more = f"burst={math.floor(burst) + max(1, math.ceil(paid - gained * ratio - ROUNDING))}"
    if gained:
        # With this ratio the same successes would have paid for one retry more.
        wanted = (paid + 1 - burst) / gained
        more += f" or ratio={math.ceil(wanted * 100) / 100:g}" if ratio < wanted <= _MOST_ADVISED else ""
    return f"retry budget exhausted: burst {burst:g}, {earned}, {spent}; to allow more, set {more}"
