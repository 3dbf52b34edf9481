"""Pacing: calls evenly apart instead of in bursts (GCRA, virtual scheduling).

`Timetable` is the pure state machine, one number wide: the moment at which everything admitted so
far will have been worked off at the given rate. `Pacer` adds a clock, a lock and waiting.
"""

from __future__ import annotations

import math

from ..._context.deadlines import ambient, check
from ..._primitives.options import count, number, seconds, validate_clock
from ..._primitives.rates import parse
from ..._runtime import clock as _clock
from ..._runtime.locks import guard
from .rules.bucket import Grant, Line, near
from .waiting import Reservation, Waiting, wake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

    from ..._primitives.options import Seconds
    from ..._runtime.clock import Clock


class Timetable(Line):
    """A call of cost n may start at max(now, full - (burst - 1) / rate) and moves ``full`` on by n / rate.

    ``full`` is the theoretical arrival time of GCRA. A cost is paid after the call, not saved up
    before it, so that n may exceed the burst.
    """

    __slots__ = ("_full", "_last", "_skew", "burst", "rate")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._full = self._last = now
        self._skew = 0.0
        super().__init__()

    def steady(self, now: float) -> float:
        """``now`` on a clock that never runs backwards: one set back goes on from where it was."""
        now += self._skew
        if now < self._last:
            self._skew += self._last - now
            now = self._last
        self._last = now
        return now

    def move(self, now: float) -> None:
        """Go on by another clock, which says ``now`` at this moment."""
        self._skew = self._last - now

    def tokens(self, now: float) -> float:
        """Return how many calls of cost 1 could start at ``now`` (steady time); negative if others wait."""
        booked = max(0.0, self._full - now)
        return self.burst - booked * self.rate if booked else float(self.burst)

    def usable(self, now: float) -> float:
        return self.tokens(now)

    def needed(self, n: int) -> float:
        # A call starts when one of cost 1 could: its cost keeps the next one waiting.
        return 1

    def _next(self, now: float) -> float:
        """Return when the next call may start; ``now`` if the clock cannot distinguish the two."""
        ahead = (self.burst - 1) / self.rate
        at = self._full - ahead
        if at <= now:
            return now
        if (at - now) * self.rate <= near(self.rate, now):
            self._full = now + ahead
            return now
        return at

    def reserve(self, n: int, now: float, max_wait_s: float | None, queue: bool = False) -> Grant:
        """The next place, if it comes within ``max_wait_s`` (None: whenever). A refusal changes nothing."""
        if math.isinf(self.rate) or n == 0:
            return Grant(True, 0, now, self.rate, 0.0)
        at = self._next(now)
        ok = max_wait_s is None or at - now <= max_wait_s
        if ok:
            self._book(n, now)
        grant = Grant(ok, n, at, self.rate, self.booked)
        if ok and queue and at > now:
            self.enter(grant)
        elif ok:
            self.fixed += n
            grant.fixed = self.fixed
        return grant

    def start(self, n: int, now: float) -> bool:
        """Start a call of cost n at once: whether its place has come."""
        if math.isinf(self.rate) or n == 0:
            return True
        if self._next(now) > now:
            return False
        self._book(n, now)
        return True

    def charge(self, n: float, now: float) -> None:
        """Book n more, however late that makes the next place; a negative n gives back."""
        if not math.isinf(self.rate):
            self.fixed += max(0, n)
            self._book(n, now)

    def _book(self, n: float, now: float) -> None:
        self.booked += n
        self._full = max(now, max(now, self._full) + n / self.rate)

    def cancel(self, slot: Grant, now: float) -> None:
        """Give back, once, what ``slot`` booked, less what was booked after it and counts on its time."""
        if slot.ok and slot.n and slot.at >= now and not slot.returned:
            slot.returned = True
            restore = slot.n - self._behind(slot)
            if restore > 0:
                slot.given_back = restore
                self.fixed -= restore
                self._book(-restore, now)

    def _restore(self, n: float, now: float) -> None:
        self._book(-n, now)

    def change(self, rate: float, burst: int, now: float) -> None:
        """Another rate or burst from ``now`` on: what is booked keeps its cost and changes its time."""
        booked = max(0.0, self._full - now)
        self._full = now + (0.0 if math.isinf(rate) or math.isinf(self.rate) else booked * self.rate / rate)
        self.rate, self.burst = rate, burst


class Pacer(Waiting):
    """Calls 1 / ``rate`` seconds apart; ``burst`` of them at once after a quiet time (1: never two).

    It has the methods of a `Limiter` and may stand wherever one does. With ``burst`` = b and calls
    of cost 1 it admits what ``Limiter(rate, b)`` admits. A call of cost n starts like any other and
    keeps the next one waiting n times as long, so its cost may exceed the burst; a limiter would
    save up for it first. ``rate`` is > 0; inf paces nothing. ``Pacer("90/min")`` reads the text.
    """

    __slots__ = ("__weakref__", "_lock", "_table", "clock")

    _lock: AbstractContextManager[object]

    def __init__(self, rate: float | str, burst: int | None = None, *, clock: Clock | None = None) -> None:
        if isinstance(rate, str):
            if burst is not None:
                raise ValueError(
                    f"Pacer: burst must be part of the text {rate!r}, got burst={burst!r} as well"
                )
            rate, burst = parse(rate, "Pacer")
        self.clock = validate_clock("Pacer", clock)
        self._table = Timetable(_rate(rate), _burst(1 if burst is None else burst), self._read())
        guard(self)

    def _read(self) -> float:
        return _clock.AMBIENT.now() if self.clock is None else self.clock.now()

    def _steady(self) -> float:
        return self._table.steady(self._read())

    def clock_time(self) -> float:
        with self._lock:
            return self._steady()

    def use_clock(self, clock: Clock) -> None:
        """Use ``clock`` from now on, unless this pacer was given one of its own."""
        if self.clock is None:
            with self._lock:
                self._steady()
                self._table.move(clock.now())
                self.clock = clock

    def allow(self, n: int = 1) -> bool:
        """Start a call of cost ``n`` if its place has come."""
        if type(n) is not int or n < 0:
            n = count("Pacer", "n", n, least=0)
        with self._lock:
            return self._table.start(n, self._steady())

    def reserve(self, n: int = 1, max_wait: Seconds | None = None) -> Reservation:
        """The next place for a call of cost ``n``, to be used after the reservation's ``delay``."""
        n = count("Pacer", "n", n, least=0)
        limit = None if max_wait is None else seconds("Pacer", "max_wait", max_wait)
        return self._reserve(n, limit, False)

    def enqueue(self, n: int, max_wait_s: float | None) -> Reservation:
        """Take the next place for a caller that waits for it in line, with `await_turn`."""
        return self._reserve(n, max_wait_s, True)

    def _reserve(self, n: int, limit: float | None, queue: bool) -> Reservation:
        with self._lock:
            return Reservation(self, self._table.reserve(n, self._steady(), limit, queue))

    def charge(self, n: int) -> None:
        """Book ``n`` more for a call that cost more than it said; a negative ``n`` gives back."""
        with self._lock:
            now = self._steady()
            self._table.charge(n, now)
            woken = self._table.advance(now) or self._table.moved_up(now)
        wake(woken)

    def ready_in(self, n: int = 1) -> float:
        """Seconds until a call of cost ``n`` could start."""
        with self._lock:
            now = self._steady()
            return max(0.0, (min(n, 1) - self._table.tokens(now)) / self.rate)

    def cancel_grant(self, grant: Grant) -> None:
        with self._lock:
            self._table.cancel(grant, self._steady())

    def line_step(self, grant: Grant, work: Callable[[Line, float], list[Grant]]) -> None:
        with self._lock:
            woken = work(self._table, self._steady())
        wake(woken)

    def after_fork(self) -> None:
        """Forget those who wait, in a forked child: they are the parent's."""
        self._table.clear_line()

    def _admit(self, n: int) -> Reservation:
        check()
        scope = ambient()
        left = None if scope is None else scope.remaining()
        reservation = self.enqueue(count("Pacer", "n", n, least=0), left)
        if not reservation.ok:
            assert scope is not None
            tightest = scope.tightest()
            raise tightest.late(f"Pacer: the wait would end past {tightest.name!r}, {left:.3g} s away")
        return reservation

    def tokens(self) -> float:
        """Return the number of calls that could start now; negative while others wait."""
        with self._lock:
            return self._table.tokens(self._steady())

    @property
    def rate(self) -> float:
        """Calls per second."""
        return self._table.rate

    @property
    def burst(self) -> int:
        """Calls at once after a quiet time."""
        return self._table.burst

    def set_rate(self, rate: float) -> None:
        """Change the rate from now on."""
        rate = _rate(rate)
        with self._lock:
            self._table.change(rate, self.burst, self._steady())

    def set_burst(self, burst: int) -> None:
        """Change the burst from now on."""
        burst = _burst(burst)
        with self._lock:
            self._table.change(self.rate, burst, self._steady())

    def retune(self, wanted: Pacer) -> bool:
        """Take over the rate and the burst of ``wanted``, and keep what was booked."""
        self.set_rate(wanted.rate)
        self.set_burst(wanted.burst)
        return True

    def reset(self) -> None:
        """Begin anew: nothing booked, an empty line. For tests."""
        with self._lock:
            self._table = Timetable(self.rate, self.burst, self._read())

    def fresh(self, key: str | None = "") -> Pacer:
        """A new pacer with these options, nothing booked."""
        return Pacer(self.rate, self.burst, clock=self.clock)

    def __repr__(self) -> str:
        return f"Pacer(rate={self.rate!r}, burst={self.burst!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Pacer, (self.rate, self.burst)

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with the tokens of this moment."""
        return {"kind": "Pacer", "rate": self.rate, "burst": self.burst, "tokens": self.tokens()}


def _rate(rate: float) -> float:
    return number("Pacer", "rate", rate, above=0, infinite=True)


def _burst(burst: int) -> int:
    return count("Pacer", "burst", burst)
