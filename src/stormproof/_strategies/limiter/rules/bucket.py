"""The token bucket of a limiter, with the semantics of Go's x/time/rate. Pure: time is a parameter."""

from __future__ import annotations

import math
from collections import OrderedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def near(rate: float, now: float) -> float:
    """Return how close to a whole token counts as whole: the clock and the sums are only so exact."""
    return min(MOST_NEAR, max(_NEAR_TOKEN, rate * 2 * math.ulp(now)))


class Grant:
    """Decision of `Bucket.reserve`: ``n`` tokens usable from ``at`` on, if ``ok``.

    ``mark`` is all that had been booked up to and with it. ``line`` is set while it may still be given
    back by a waiter, ``fixed`` is what had been reserved without waiting in line when it was booked.
    """

    __slots__ = ("at", "fixed", "given_back", "line", "mark", "n", "ok", "rate", "returned", "waiter")

    #: True where the tokens may be there sooner than was foreseen.
    may_come_early = False

    #: Wakes the caller that waits for it.
    waiter: Any
    line: Line | None

    def __init__(self, ok: bool, n: int, at: float, rate: float, mark: float) -> None:
        self.ok = ok
        self.n = n
        self.at = at
        self.rate = rate
        self.mark = mark
        self.returned = False
        #: Number of the ``n`` tokens that were given back.
        self.given_back = 0.0
        self.fixed = 0.0
        self.line = self.waiter = None

    def delay(self, now: float) -> float:
        """Seconds until the tokens may be used; inf when they were refused."""
        return max(0.0, self.at - now) if self.ok else math.inf


class Line:
    """Waiters in order of arrival. One that leaves gives all its tokens to those behind it.

    Only the first one's time is worked out; the others' follow from it when they become first. What was
    reserved without waiting in line keeps its time, so what such a reservation counts on stays taken.
    """

    rate: float

    def __init__(self) -> None:
        #: All reservations so far, less those given back.
        self.booked: float = 0
        #: Tokens taken without waiting in line.
        self.fixed: float = 0
        self.waiting: OrderedDict[Grant, None] = OrderedDict()
        #: Tokens taken by those in line.
        self.queued: float = 0

    def usable(self, now: float) -> float:
        """Return the tokens that may be used at ``now``, less all that is booked."""
        raise NotImplementedError

    def needed(self, n: int) -> float:
        """Return the tokens that must be there for a call of cost ``n`` to start."""
        return n

    def speed(self) -> float:
        """Return the tokens a second that a waiter may count on."""
        return self.rate

    def _restore(self, n: float, now: float) -> None:
        """Put ``n`` tokens back."""
        raise NotImplementedError

    def enter(self, grant: Grant) -> None:
        """Put ``grant``, booked just now, at the end of the line."""
        grant.line = self
        grant.fixed = self.fixed
        self.waiting[grant] = None
        self.queued += grant.n

    def place(self, grant: Grant, waits: bool) -> Grant:
        """Put ``grant`` in line if it ``waits`` there; else its tokens keep their time. Return it."""
        if grant.ok and waits:
            self.enter(grant)
        elif grant.ok:
            self.fixed += grant.n
            grant.fixed = self.fixed
        return grant

    def _behind(self, grant: Grant) -> float:
        """Return the tokens reserved after ``grant``, at most as many as it took."""
        return max(0.0, self.booked - grant.mark)

    def short(self, grant: Grant, now: float) -> float:
        """Return the tokens that the first in line still lacks."""
        return self.needed(grant.n) - (self.usable(now) + self.queued + (self.fixed - grant.fixed))

    def pause(self, grant: Grant, now: float) -> float:
        """Return the seconds that ``grant`` should wait before looking again; 0 when its turn has come."""
        if grant not in self.waiting:
            return 0.0
        longest = max(0.0, grant.at - now)
        if grant is not next(iter(self.waiting)):
            return longest
        speed = self.speed()
        return min(longest, self.short(grant, now) / speed) if speed > 0 else longest

    def _pop(self, grant: Grant) -> None:
        del self.waiting[grant]
        self.queued -= grant.n

    def advance(self, now: float) -> list[Grant]:
        """Let those pass whose turn has come; return the waiters to wake: these, and the new first one."""
        woken: list[Grant] = []
        while self.waiting:
            first = next(iter(self.waiting))
            if self.short(first, now) > near(self.speed(), now):
                if woken:
                    woken += self.moved_up(now)
                break
            self._pop(first)
            woken.append(first)
        return woken

    def arrive(self, grant: Grant, now: float) -> list[Grant]:
        """Let ``grant`` pass, whose wait has ended by its own count; return the waiters to wake."""
        if grant not in self.waiting:
            return []
        self._pop(grant)
        return self.advance(now) or self.moved_up(now)

    def leave(self, grant: Grant, now: float) -> list[Grant]:
        """Give back all tokens of a waiter that leaves without using them; return the waiters to wake."""
        if not grant.ok or grant.returned or grant.n == 0 or math.isinf(self.rate) or math.isinf(grant.rate):
            return []
        grant.returned = True
        is_first = next(iter(self.waiting), grant) is grant
        if grant in self.waiting:
            self._pop(grant)
        # A reservation behind it keeps its time, and the tokens it counts on stay taken.
        grant.given_back = max(0.0, grant.n - (self.fixed - grant.fixed))
        self._restore(grant.given_back, now)
        woken = self.advance(now)
        return woken if woken or not is_first else self.moved_up(now)

    def moved_up(self, now: float) -> list[Grant]:
        """Return the first in line if its turn comes earlier than it was promised."""
        first = next(iter(self.waiting), None)
        if first is None or self.pause(first, now) >= (first.at - now) * (1 - _NEAR_TOKEN):
            return []
        return [first]

    def clear_line(self) -> None:
        """Forget those who wait: in a forked child they are the parent's."""
        self.waiting.clear()
        self.queued = 0


class Bucket(Line):
    """Tokens that refill at ``rate`` per second up to ``burst``; reservations may take them below 0."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate = rate
        self.burst = burst
        #: Tokens at the time ``last``.
        self.level = float(burst)
        self.last = now
        self.last_event = -math.inf
        super().__init__()

    def tokens(self, now: float) -> float:
        """Return the tokens at ``now``: negative while reservations are owed. Time set back adds none."""
        elapsed = max(0.0, now - self.last)
        if math.isinf(self.rate):
            return float(self.burst) if elapsed else min(float(self.burst), self.level)
        return min(float(self.burst), self.level + elapsed * self.rate)

    usable = tokens

    def wait_for(self, n: int, now: float) -> float:
        """Seconds until ``n`` more tokens would be there; inf: never."""
        short = n - self.usable(now)
        if short <= 0.0:
            return 0.0
        speed = self.speed()
        return short / speed if speed > 0.0 and n <= self.burst else math.inf

    def reserve(self, n: int, now: float, max_wait_s: float | None, queue: bool = False) -> Grant:
        """Take ``n`` tokens, to be used when they are there. ok iff n <= burst and wait <= max_wait.

        A refusal takes nothing. ``max_wait_s=None`` waits for any finite time. With ``queue`` a caller
        waits in line for them; else they keep the time they were promised for.
        """
        if math.isinf(self.rate):
            return Grant(True, n, now, self.rate, self.booked)
        # A clock set back: the time it relives refills again, up to the burst.
        self.last = min(self.last, now)
        tokens = self.tokens(now) - n
        if -near(self.rate, now) <= tokens < 0.0:
            tokens = 0.0
        wait = 0.0 if tokens >= 0 else (-tokens / self.rate if self.rate > 0 else math.inf)
        ok = n <= self.burst and wait <= (max_wait_s if max_wait_s is not None else _LONGEST)
        if ok:
            self.last, self.level, self.last_event = now, tokens, now + wait
            self.booked += n
        grant = Grant(ok, n, now + wait if n <= self.burst else math.inf, self.rate, self.booked)
        return self.place(grant, queue and wait > 0.0)

    def cancel(self, grant: Grant, now: float) -> None:
        """Give back the tokens of ``grant``, less those that later reservations count on."""
        if not grant.ok or grant.returned or grant.n == 0 or grant.at < now:
            return
        if math.isinf(self.rate) or math.isinf(grant.rate):
            # Nothing was taken, or nothing is missed.
            return
        grant.returned = True
        # The last event may be earlier than this one; more than was taken never comes back.
        restore = grant.n - max(0.0, grant.rate * (self.last_event - grant.at))
        if restore <= 0:
            return
        grant.given_back = restore
        self.fixed -= restore
        self.booked -= restore
        self.level = min(float(self.burst), self.tokens(now) + restore)
        self.last = now
        if grant.rate > 0 and abs(self.last_event - grant.at) * self.rate < _SAME_TIME:
            before = grant.at - grant.n / grant.rate
            if before >= now:
                self.last_event = before

    def _restore(self, n: float, now: float) -> None:
        self.booked -= n
        self.level = min(float(self.burst), self.tokens(now) + n)
        self.last = now
        if self.rate > 0 and self.last_event - n / self.rate >= now:
            self.last_event -= n / self.rate

    def charge(self, n: int, now: float) -> None:
        """Take ``n`` at once, whether they are there or not."""
        self.settle(now)
        # Tokens given back are for those who wait.
        self.fixed += max(0, n)
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
        """Add the refill so far, before the rate or the burst changes."""
        self.level, self.last = self.tokens(now), now


#: A token this nearly there is there: sums of binary fractions of 0.1 fall short by less.
_NEAR_TOKEN = 1e-9
#: However coarse the clock, this much of a token is missed.
MOST_NEAR = 0.01

#: Two moments nearer to each other than this share of a token's time are one: sums of floats differ.
_SAME_TIME = 1e-3

#: The longest wait: only a rate of 0, or nearly, leads to one.
_LONGEST = 1e15

#: Beyond this, floats no longer count in ones.
MOST_TOKENS = 10**15
