"""The token bucket of a limiter, with the semantics of Go's x/time/rate. Pure: time is a parameter."""

from __future__ import annotations

import math
from heapq import heappop, heappush


class Grant:
    """What `Bucket.reserve` decided: ``n`` tokens usable from ``at`` on, if ``ok``.

    ``mark`` is all that had been booked up to and with it, which is its place in the line.
    """

    __slots__ = ("at", "given_back", "mark", "n", "ok", "rate", "returned")

    #: Whether the tokens may be there sooner than was foreseen.
    hopeful = False

    def __init__(self, ok: bool, n: int, at: float, rate: float, mark: float) -> None:
        self.ok = ok
        self.n = n
        self.at = at
        self.rate = rate
        self.mark = mark
        self.returned = False
        #: How much of ``n`` has come back.
        self.given_back = 0.0

    def delay(self, now: float) -> float:
        """Seconds until the tokens may be used; inf when they were refused."""
        return max(0.0, self.at - now) if self.ok else math.inf


class Line:
    """Those who wait. One who leaves gives its tokens back as far as nobody behind counts on them, and
    the rest when those behind have left as well.
    """

    __slots__ = ("_left", "booked")

    def __init__(self) -> None:
        #: All reservations so far, less what came back.
        self.booked: float = 0
        #: Waiters that have left while later ones stayed, the last one first.
        self._left: list[tuple[float, int, Grant]] = []

    def _release(self, grant: Grant, now: float) -> None:
        """Give back what ``grant`` took, less what those behind it count on; once, and before its time."""
        raise NotImplementedError

    def _behind(self, grant: Grant) -> float:
        """What was booked after it; never so much that more comes back than it took."""
        return max(grant.given_back, self.booked - grant.mark)

    def leave(self, grant: Grant, now: float) -> None:
        """Leave the line, or what is left of it."""
        if not grant.ok or grant.n == 0:
            return
        if self._left and self._left[0][2].delay(now) <= 0:
            # The last of them would have had its turn.
            self._left.clear()
        was_last = grant.mark >= self.booked
        self._release(grant, now)
        if not was_last:
            heappush(self._left, (-grant.mark, id(grant), grant))
            return
        while self._left and self._left[0][2].mark >= self.booked:
            former = heappop(self._left)[2]
            former.returned = False
            self._release(former, now)


class Bucket(Line):
    """Tokens that refill at ``rate`` per second up to ``burst``; reservations may take them below 0."""

    __slots__ = ("last_event", "burst", "last", "level", "rate")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate = rate
        self.burst = burst
        #: What there was at the time ``last``.
        self.level = float(burst)
        self.last = now
        self.last_event = -math.inf
        super().__init__()

    def tokens(self, now: float) -> float:
        """What is there at ``now``: negative while reservations are owed. Time set back refills nothing."""
        elapsed = max(0.0, now - self.last)
        if math.isinf(self.rate):
            return float(self.burst) if elapsed else min(float(self.burst), self.level)
        return min(float(self.burst), self.level + elapsed * self.rate)

    def spendable(self, now: float) -> float:
        """What may be used at ``now``: the tokens, and what a lease adds to them."""
        return self.tokens(now)

    def reserve(self, n: int, now: float, max_wait_s: float | None) -> Grant:
        """Take ``n`` tokens, to be used when they are there. ok iff n <= burst and wait <= max_wait.

        A refusal takes nothing. ``max_wait_s=None`` waits for any finite time.
        """
        if math.isinf(self.rate):
            return Grant(True, n, now, self.rate, self.booked)
        # A clock set back: the time it relives refills again, up to the burst.
        self.last = min(self.last, now)
        tokens = self.tokens(now) - n
        wait = 0.0 if tokens >= 0 else (-tokens / self.rate if self.rate > 0 else math.inf)
        ok = n <= self.burst and wait <= (max_wait_s if max_wait_s is not None else _LONGEST)
        if ok:
            self.last, self.level, self.last_event = now, tokens, now + wait
            self.booked += n
        return Grant(ok, n, now + wait, self.rate, self.booked)

    def cancel(self, grant: Grant, now: float) -> None:
        """Give back what ``grant`` took, less what later reservations already count on."""
        # The last event may be earlier than this one; more than was taken never comes back.
        self._give_back(grant, max(0.0, grant.rate * (self.last_event - grant.at)), now)

    def _release(self, grant: Grant, now: float) -> None:
        self._give_back(grant, self._behind(grant), now)

    def _give_back(self, grant: Grant, less: float, now: float) -> None:
        if not grant.ok or grant.returned or grant.n == 0 or grant.at < now:
            return
        if math.isinf(self.rate) or math.isinf(grant.rate):
            # Nothing was taken, or nothing is missed.
            return
        grant.returned = True
        restore = grant.n - less
        if restore <= 0:
            return
        grant.given_back += restore
        self.booked -= restore
        self.level = min(float(self.burst), self.tokens(now) + restore)
        self.last = now
        if grant.rate > 0 and abs(self.last_event - grant.at) * self.rate < _SAME_TIME:
            before = grant.at - grant.n / grant.rate
            if before >= now:
                self.last_event = before

    def charge(self, n: int, now: float) -> None:
        """Take ``n`` at once, whether they are there or not."""
        self.settle(now)
        self.level = min(float(self.burst), self.level - n)

    def move(self, by: float) -> None:
        """Go on by another clock, which differs from the one so far by ``by`` seconds."""
        self.last += by
        self.last_event += by

    def change(self, rate: float, burst: int, now: float) -> None:
        """Another rate or burst from ``now`` on."""
        self.settle(now)
        self.rate, self.burst = rate, burst

    def settle(self, now: float) -> None:
        """Count what has refilled so far, before the rate or the burst changes."""
        self.level, self.last = self.tokens(now), now


#: Two moments nearer to each other than this share of a token's time are one: sums of floats differ.
_SAME_TIME = 1e-3

#: Longer than this nobody waits: only a rate of 0, or nearly, would ask for it.
_LONGEST = 1e15

#: Beyond this, floats no longer count in ones.
MOST_TOKENS = 10**15
