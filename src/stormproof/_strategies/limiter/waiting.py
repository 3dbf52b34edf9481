"""Waiting in the line of a limiter or a pacer, in a thread or in a task."""

from __future__ import annotations

import math

from ..._context.deadlines import ambient, check
from ..._drivers import aio as _aio
from ..._drivers import sync as _sync
from ..._drivers.waiter import Waiter
from ..._events import bus
from ..._primitives.options import Seconds, count
from ..._primitives.options import seconds as as_seconds
from ..._runtime import clock as _clock
from ..stateful import Stateful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self, TypeVar

    from ..._runtime.clock import Clock
    from .rules.bucket import Grant, Line
    from .rules.deferred import DeferredPayment

    T = TypeVar("T")


#: First and longest sleep before looking whether tokens came sooner.
_FIRST_NAP_S = 0.005
_LONGEST_NAP_S = 0.1
#: No timer is set for longer.
_LONGEST_S = 86_400.0


class Reservation:
    """Tokens taken from a `Limiter` ahead of time: usable after ``delay`` seconds, if ``ok``."""

    __slots__ = ("_grant", "_owner")

    def __init__(self, owner: LineOwner, grant: Grant) -> None:
        self._owner = owner
        self._grant = grant

    @property
    def ok(self) -> bool:
        """True if the tokens were granted."""
        return self._grant.ok

    @property
    def delay(self) -> float:
        """Seconds from now until the tokens may be used; inf when not ``ok``."""
        return self._grant.delay(self._owner.clock_time())

    def cancel(self) -> None:
        """Give the tokens back, as far as no later reservation depends on them."""
        self._owner.cancel_grant(self._grant)

    def leave(self) -> None:
        """Give back all tokens of a caller that waited in line and leaves without using them."""
        grant = self._grant
        self._owner.line_step(grant, lambda line, now: line.leave(grant, now))

    def pauses(self) -> Iterator[tuple[float, Waiter]]:
        """Yield the sleeps until its turn, each with what ends it early: one that leaves moves others up."""
        grant = self._grant
        if grant.line is None:
            return
        nap = _FIRST_NAP_S if grant.may_come_early else _LONGEST_S
        # Counted down, not looked up: a clock set back makes no caller wait longer than was foreseen.
        left = math.inf
        while True:
            pause, waiter = self._pause()
            left = min(left, grant.at - self._owner.clock_time())
            if pause <= 0.0 or left <= 0.0:
                break
            step = min(pause, left, nap)
            if grant.may_come_early:
                # The time for the exchange to bring them may reach past the deadline; a nap must not.
                scope = ambient()
                rest = None if scope is None else scope.remaining()
                step = min(step, rest or step)
                nap = min(2 * nap, _LONGEST_NAP_S)
            yield step, waiter
            if not waiter.granted:
                left -= step
                if step >= pause and not grant.may_come_early:
                    break
        self._owner.line_step(grant, lambda line, now: line.arrive(grant, now))

    def _pause(self) -> tuple[float, Waiter]:
        """(seconds to wait before looking again, what ends that early); 0 when its turn has come."""
        # A new one first: who wakes it up from now on means this pause.
        grant = self._grant
        waiter = grant.waiter = Waiter()
        pause = 0.0

        def look(line: Line, now: float) -> list[Grant]:
            nonlocal pause
            woken = line.advance(now)
            pause = line.pause(grant, now)
            return woken

        self._owner.line_step(grant, look)
        return pause, waiter

    def __repr__(self) -> str:
        return f"<reservation of {self._grant.n}: {'ok' if self.ok else 'refused'}>"


def _pause(seconds: float, waiter: Waiter | None, clock: Clock | None) -> None:
    """Sleep for ``seconds``; ``waiter``, if there is one, ends that early where time is real."""
    if waiter is not None and (_clock.AMBIENT.clock if clock is None else clock) is _clock.SYSTEM:
        waiter.wait(seconds)
    else:
        _sync.sleep(seconds, clock)


async def _pause_async(seconds: float, waiter: Waiter | None, clock: Clock | None) -> None:
    used: Any = _clock.AMBIENT.clock if clock is None else clock
    if waiter is None:
        await _aio.sleep(seconds, used)
    elif used is _clock.SYSTEM:
        await waiter.wait_async(seconds)
    elif getattr(used, "drives_timers", False):
        used.asked(seconds)
        await waiter.wait_async(seconds)
    else:
        await _aio.sleep(seconds, used)


def await_turn(reservation: Reservation, clock: Clock | None) -> None:
    """Wait in a thread for the tokens reserved with ``enqueue``; give them back if interrupted."""
    try:
        for seconds, waiter in reservation.pauses():
            _pause(seconds, waiter, clock)
            check()
    except BaseException:
        reservation.leave()
        raise


async def await_turn_async(reservation: Reservation, clock: Clock | None) -> None:
    """Wait in a task for the tokens reserved with ``enqueue``; give them back if interrupted."""
    try:
        for seconds, waiter in reservation.pauses():
            await _pause_async(seconds, waiter, clock)
            check()
    except BaseException:
        reservation.leave()
        raise


def sleep_in_line(payment: DeferredPayment, clock: Clock | None) -> None:
    """Sleep in a thread until the retry's own wait has passed and its token is there, or the scope ends."""
    for seconds, waiter in _pauses_of(payment, clock):
        _pause(seconds, waiter, clock)


async def sleep_in_line_async(payment: DeferredPayment, clock: Clock | None) -> None:
    """`sleep_in_line` for async code."""
    for seconds, waiter in _pauses_of(payment, clock):
        await _pause_async(seconds, waiter, clock)


def _pauses_of(payment: DeferredPayment, clock: Clock | None) -> Iterator[tuple[float, Waiter | None]]:
    """Yield the sleeps until the token is there and the retry's own wait has passed."""
    if payment.wait <= payment.own_wait:
        yield payment.own_wait, None
        return
    timer = _clock.timer_of(clock)
    began = timer.now()
    for pause in payment.turn.pauses():
        yield pause
        if (scope := ambient()) is not None and scope.ended() is not None:
            return
    if (rest := payment.own_wait - (timer.now() - began)) > 0.0:
        yield rest, None


class LineOwner:
    """A limiter, pacer or budget whose callers stand in line for its tokens."""

    def clock_time(self) -> float:
        """Return the time of its clock."""
        raise NotImplementedError

    def cancel_grant(self, grant: Grant) -> None:
        """Give back the tokens of ``grant``, as far as no later reservation counts on them."""
        raise NotImplementedError

    def line_step(self, grant: Grant, work: Callable[[Line, float], list[Grant]]) -> None:
        """Do ``work`` on the line of ``grant``, with its bucket to itself; wake the waiters it returns."""
        raise NotImplementedError


class Waiting(LineOwner, Stateful):
    """A limiter or a pacer: its tokens can be reserved, or waited for in line by a thread or a task."""

    observe: bool

    @property
    def rate(self) -> float:
        """Tokens per second."""
        raise NotImplementedError

    @property
    def burst(self) -> int:
        """Tokens at once."""
        raise NotImplementedError

    def run_locked(self, work: Callable[[Any, float], T]) -> T:
        """Return ``work(line, now)``, run with the line to itself."""
        raise NotImplementedError

    def _checked(self, rate: float, burst: int) -> tuple[float, int]:
        """Return ``rate`` and ``burst`` if they are valid."""
        raise NotImplementedError

    def _change(self, rate: float, burst: int) -> None:
        raise NotImplementedError

    def _admit(self, n: int) -> Reservation:
        """Return a place in line, or raise the error that says why there is none."""
        raise NotImplementedError

    def allow(self, n: int = 1) -> bool:
        raise NotImplementedError

    def _passes(self) -> bool:
        """Emit `WouldRefuse` and return True if this limiter only observes, so that the call proceeds."""
        if self.observe:
            bus.publish("WouldRefuse", operation=self.name or "limiter", by="rate_limit")
        return self.observe

    def reserve(self, n: int = 1, max_wait: Seconds | None = None) -> Reservation:
        """Take ``n`` tokens, to be used after the reservation's ``delay``."""
        owner = type(self).__name__
        n = count(owner, "n", n, least=0)
        limit = None if max_wait is None else as_seconds(owner, "max_wait", max_wait)
        granted = self._reserve(n, 0.0 if self.observe else limit, False)
        # A call that only would be refused takes no token.
        return granted if granted.ok or not self._passes() else self._reserve(0, None, False)

    def enqueue(self, n: int, max_wait_s: float | None) -> Reservation:
        """Take ``n`` tokens for a caller that waits for them in line, with `await_turn`."""
        return self._reserve(n, max_wait_s, True)

    def _reserve(self, n: int, limit: float | None, queue: bool) -> Reservation:
        grant = self.run_locked(lambda line, now: line.reserve(n, now, limit, queue))
        self._kick()
        return Reservation(self, grant)

    def _kick(self) -> None:
        """Settle soon with the fleet, if there is one."""

    def cancel_grant(self, grant: Grant) -> None:
        self.run_locked(lambda line, now: line.cancel(grant, now))

    def charge(self, n: int) -> None:
        """Charge ``n`` more, even below 0, for a call that cost more than its ``cost``; < 0 gives back."""

        def step(line: Any, now: float) -> list[Grant]:
            line.charge(n, now)
            woken: list[Grant] = line.advance(now) or line.moved_up(now)
            return woken

        wake(self.run_locked(step))

    def wait(self, n: int = 1) -> None:
        """Wait until ``n`` may be used, and use them; fails at once if that is past the deadline."""
        if not self.observe:
            await_turn(self._admit(n), self.clock)
        else:
            self.allow(n)

    async def wait_async(self, n: int = 1) -> None:
        """`wait` for async code."""
        if not self.observe:
            await await_turn_async(self._admit(n), self.clock)
        else:
            self.allow(n)

    def tokens(self) -> float:
        """Tokens available now to this process; negative while reservations are owed."""
        return self.run_locked(lambda line, now: float(line.usable(now)))

    def set_rate(self, rate: float) -> None:
        """Change the rate from now on."""
        self._change(*self._checked(rate, self.burst))

    def set_burst(self, burst: int) -> None:
        """Change the burst from now on."""
        self._change(*self._checked(self.rate, burst))

    def retune(self, wanted: Self) -> bool:
        """Take over the rate and the burst of ``wanted``, and keep the reservations."""
        self._change(wanted.rate, wanted.burst)
        object.__setattr__(self, "observe", wanted.observe)
        return True

    def after_fork(self) -> None:
        """Forget those who wait, in a forked child: they are the parent's."""
        self.run_locked(lambda line, now: line.clear_line())

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with the tokens of this moment."""
        shared = {} if self.store is None else {"store": self.store.prefix, "name": self.name}
        kind = type(self).__name__
        return {"kind": kind, "rate": self.rate, "burst": self.burst, "tokens": self.tokens(), **shared}


def wake(woken: list[Grant]) -> None:
    for grant in woken:
        if grant.waiter is not None:
            grant.waiter.grant()
