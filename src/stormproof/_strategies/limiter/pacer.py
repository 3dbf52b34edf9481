"""Pacing: calls evenly apart instead of in bursts (GCRA, virtual scheduling).

`Timetable` is the pure state machine, one number wide: the moment at which everything admitted so
far will have been worked off at the given rate. `Pacer` adds a clock, a lock and waiting.
"""

from __future__ import annotations

import math

from ..._context.deadlines import ambient, check
from ..._primitives.options import count, number, validate_clock
from ..._primitives.rates import rate_and_burst
from ..._runtime.clock import timer_of
from ..._runtime.locks import guard
from .rules.bucket import Grant, Line, near
from .waiting import Reservation, Waiting, wake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ..._runtime.clock import Clock

    T = TypeVar("T")


class Timetable(Line):
    """A call of cost n may start at max(now, full - (burst - 1) / rate) and moves ``full`` on by n / rate.

    ``full`` is the theoretical arrival time of GCRA. A cost is paid after the call, not saved up
    before it, so that n may exceed the burst.
    """

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._full = self._last = now
        self._skew = 0.0
        super().__init__()

    def steady(self, now: float) -> float:
        """Return ``now`` on a clock that never runs backwards: one set back continues from where it was."""
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
        return self.place(grant, queue and at > now)

    def start(self, n: int, now: float) -> bool:
        """Book a call of cost n if it may start now; return False if it may not."""
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
        """Give back, once, the booking of ``slot``, less the part that later bookings count on."""
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
        """Use another rate or burst from ``now`` on: bookings keep their cost and change their time."""
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

    _surroundings = ("clock",)
    observe = False

    def __init__(self, rate: float | str, burst: int | None = None, *, clock: Clock | None = None) -> None:
        rate, burst = self._checked(*rate_and_burst("Pacer", rate, burst))
        self._timer = timer_of(validate_clock("Pacer", clock))
        self._table = Timetable(rate, burst, self._now())
        self._lock = guard(self)

    def _checked(self, rate: float, burst: int) -> tuple[float, int]:
        return number("Pacer", "rate", rate, above=0, infinite=True), count("Pacer", "burst", burst)

    def run_locked(self, work: Callable[[Timetable, float], T]) -> T:
        with self._lock:
            return work(self._table, self._table.steady(self._now()))

    def clock_time(self) -> float:
        return self.run_locked(lambda table, now: now)

    def use_clock(self, clock: Clock) -> None:
        """Use ``clock`` from now on, unless this pacer was given one of its own."""
        if self.clock is None:

            def move(table: Timetable, now: float) -> None:
                table.move(clock.now())
                self._timer = clock

            self.run_locked(move)

    def allow(self, n: int = 1) -> bool:
        """Start a call of cost ``n`` if its place has come."""
        if type(n) is not int or n < 0:
            n = count("Pacer", "n", n, least=0)
        return self.run_locked(lambda table, now: table.start(n, now))

    def ready_in(self, n: int = 1) -> float:
        """Seconds until a call of cost ``n`` could start."""
        return self.run_locked(lambda table, now: max(0.0, (min(n, 1) - table.tokens(now)) / table.rate))

    def line_step(self, grant: Grant, work: Callable[[Line, float], list[Grant]]) -> None:
        wake(self.run_locked(work))

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

    @property
    def rate(self) -> float:
        """Calls per second."""
        return self._table.rate

    @property
    def burst(self) -> int:
        """Calls at once after a quiet time."""
        return self._table.burst

    def _change(self, rate: float, burst: int) -> None:
        self.run_locked(lambda table, now: table.change(rate, burst, now))

    def reset(self) -> None:
        """Start over: nothing booked, no waiters. For tests."""
        with self._lock:
            self._table = Timetable(self.rate, self.burst, self._now())
