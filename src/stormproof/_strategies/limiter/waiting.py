"""Waiting in the line of a limiter or a pacer, in a thread or in a task."""

from __future__ import annotations

import math

from ..._context.deadlines import ambient, check
from ..._drivers import aio as _aio
from ..._drivers import sync as _sync
from ..._drivers.waiter import Waiter
from ..._runtime import clock as _clock
from ..protocol import Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..._runtime.clock import Clock
    from .rules.bucket import Grant, Line
    from .rules.deferred import DeferredPayment


#: How long to sleep before looking whether tokens came sooner: at first, and at most.
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
        """Give back all the tokens of a caller that waited in line and goes without having used them."""
        grant = self._grant
        self._owner.line_step(grant, lambda line, now: line.leave(grant, now))

    def pauses(self) -> Iterator[tuple[float, Waiter]]:
        """Yield the sleeps until its turn, each with what ends it early: one that leaves moves others up."""
        grant = self._grant
        if grant.line is None:
            return
        nap = _FIRST_NAP_S if grant.hopeful else _LONGEST_S
        # Counted down, not looked up: a clock set back makes no caller wait longer than was foreseen.
        left = math.inf
        while True:
            pause, waiter = self._pause()
            left = min(left, grant.at - self._owner.clock_time())
            if pause <= 0.0 or left <= 0.0:
                break
            step = min(pause, left, nap)
            if grant.hopeful:
                # The time for the exchange to bring them may reach past the deadline; a nap must not.
                scope = ambient()
                rest = None if scope is None else scope.remaining()
                step = min(step, rest or step)
                nap = min(2 * nap, _LONGEST_NAP_S)
            yield step, waiter
            if not waiter.granted:
                left -= step
                if step >= pause and not grant.hopeful:
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


def _pause(seconds: float, waiter: Waiter, clock: Clock | None) -> None:
    """Sleep for ``seconds``; ``waiter`` ends that early where time is real."""
    if (_clock.AMBIENT.clock if clock is None else clock) is _clock.SYSTEM:
        waiter.wait(seconds)
    else:
        _sync.sleep(seconds, clock)


async def _pause_async(seconds: float, waiter: Waiter, clock: Clock | None) -> None:
    used: Any = _clock.AMBIENT.clock if clock is None else clock
    if used is _clock.SYSTEM:
        await waiter.wait_async(seconds)
    elif getattr(used, "drives_timers", False):
        used.asked(seconds)
        await waiter.wait_async(seconds)
    else:
        await _aio.sleep(seconds, used)


def await_turn(reservation: Reservation, clock: Clock | None) -> None:
    """Wait in a thread for what was reserved with ``enqueue``; give it back when that is interrupted."""
    try:
        for seconds, waiter in reservation.pauses():
            _pause(seconds, waiter, clock)
            check()
    except BaseException:
        reservation.leave()
        raise


async def await_turn_async(reservation: Reservation, clock: Clock | None) -> None:
    """Wait in a task for what was reserved with ``enqueue``; give it back when that is interrupted."""
    try:
        for seconds, waiter in reservation.pauses():
            await _pause_async(seconds, waiter, clock)
            check()
    except BaseException:
        reservation.leave()
        raise


def sleep_in_line(payment: DeferredPayment, clock: Clock | None) -> None:
    """Sleep in a thread until the retry's own wait is over and its token is there, or the scope ends."""
    if payment.wait <= payment.own_wait:
        return _sync.sleep(payment.own_wait, clock)
    timer = _clock.timer_of(clock)
    began = timer.now()
    for seconds, waiter in payment.turn.pauses():
        _pause(seconds, waiter, clock)
        if _has_ended():
            return
    if (rest := payment.own_wait - (timer.now() - began)) > 0.0:
        _sync.sleep(rest, clock)


async def sleep_in_line_async(payment: DeferredPayment, clock: Clock | None) -> None:
    """`sleep_in_line` for async code."""
    if payment.wait <= payment.own_wait:
        return await _aio.sleep(payment.own_wait, clock)
    timer = _clock.timer_of(clock)
    began = timer.now()
    for seconds, waiter in payment.turn.pauses():
        await _pause_async(seconds, waiter, clock)
        if _has_ended():
            return
    if (rest := payment.own_wait - (timer.now() - began)) > 0.0:
        await _aio.sleep(rest, clock)


def _has_ended() -> bool:
    scope = ambient()
    return scope is not None and scope.ended() is not None


class LineOwner:
    """A limiter, pacer or budget whose callers stand in line for its tokens."""

    __slots__ = ()

    def clock_time(self) -> float:
        """Return the time of its clock."""
        raise NotImplementedError

    def cancel_grant(self, grant: Grant) -> None:
        """Give back what ``grant`` took, as far as no later reservation depends on it."""
        raise NotImplementedError

    def line_step(self, grant: Grant, work: Callable[[Line, float], list[Grant]]) -> None:
        """Do ``work`` on the line of ``grant``, with its bucket to itself; wake the waiters it returns."""
        raise NotImplementedError


class Waiting(LineOwner, Part):
    """Waiting in the line of a limiter or a pacer, as a thread or as a task."""

    __slots__ = ()

    clock: Clock | None
    observe = False

    def _admit(self, n: int) -> Reservation:
        """Return a place in line, or raise the error that says why there is none."""
        raise NotImplementedError

    def wait(self, n: int = 1) -> None:
        """Wait until ``n`` may be used, and use them; fails at once if that is past the deadline."""
        if not self.observe:
            await_turn(self._admit(n), self.clock)
        else:
            self.allow(n)

    def allow(self, n: int = 1) -> bool:
        raise NotImplementedError

    async def wait_async(self, n: int = 1) -> None:
        """`wait` for async code."""
        if not self.observe:
            await await_turn_async(self._admit(n), self.clock)
        else:
            self.allow(n)


def wake(woken: list[Grant]) -> None:
    for grant in woken:
        if grant.waiter is not None:
            grant.waiter.grant()
