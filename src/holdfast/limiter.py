"""A rate limiter with the semantics of Go's x/time/rate.

`Bucket` is the pure state machine: time is a parameter. `Limiter` adds a clock, a lock and waiting.
"""

from __future__ import annotations

import math

from ._drive import aio as _aio
from ._drive import chance
from ._drive import clock as _clock
from ._drive import sync as _sync
from ._drive.memory import guard
from .deadlines import ambient, check
from .errors import DeadlineExceeded, RateLimited
from .options import count, number, seconds, timepiece
from .rates import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._drive.chance import Rng
    from ._drive.clock import Clock
    from .options import Seconds


class Grant:
    """What `Bucket.reserve` decided: ``n`` tokens usable from ``at`` on, if ``ok``."""

    __slots__ = ("at", "n", "ok", "rate", "returned")

    def __init__(self, ok: bool, n: int, at: float, rate: float) -> None:
        self.ok = ok
        self.n = n
        self.at = at
        self.rate = rate
        self.returned = False

    def delay(self, now: float) -> float:
        """Seconds until the tokens may be used; inf when they were refused."""
        return max(0.0, self.at - now) if self.ok else math.inf


class Bucket:
    """Tokens that refill at ``rate`` per second up to ``burst``; reservations may take them below 0."""

    __slots__ = ("_last", "_last_event", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = float(burst)
        self._last = now
        self._last_event = -math.inf

    def tokens(self, now: float) -> float:
        """What is there at ``now``: negative while reservations are owed. Time set back refills nothing."""
        elapsed = max(0.0, now - self._last)
        if math.isinf(self.rate):
            return float(self.burst) if elapsed else min(float(self.burst), self._tokens)
        return min(float(self.burst), self._tokens + elapsed * self.rate)

    def take(self, n: int, now: float) -> bool:
        """``reserve(n, now, 0.0).ok``, without making a grant."""
        if math.isinf(self.rate):
            return True
        self._last = min(self._last, now)
        tokens = self.tokens(now) - n
        if tokens < 0 or n > self.burst:
            return False
        self._last, self._tokens, self._last_event = now, tokens, now
        return True

    def reserve(self, n: int, now: float, max_wait_s: float | None) -> Grant:
        """Take ``n`` tokens, to be used when they are there. ok iff n <= burst and wait <= max_wait.

        A refusal takes nothing. ``max_wait_s=None`` waits for any finite time.
        """
        if math.isinf(self.rate):
            return Grant(True, n, now, self.rate)
        # A clock set back: the time it relives refills again, up to the burst.
        self._last = min(self._last, now)
        tokens = self.tokens(now) - n
        wait = 0.0 if tokens >= 0 else (-tokens / self.rate if self.rate > 0 else math.inf)
        ok = n <= self.burst and wait <= (max_wait_s if max_wait_s is not None else _LONGEST)
        if ok:
            self._last, self._tokens, self._last_event = now, tokens, now + wait
        return Grant(ok, n, now + wait, self.rate)

    def cancel(self, grant: Grant, now: float) -> None:
        """Give back what ``grant`` took, less what later reservations already count on."""
        if not grant.ok or grant.returned or grant.n == 0 or grant.at < now:
            return
        if math.isinf(self.rate) or math.isinf(grant.rate):
            # Nothing was taken, or nothing is missed.
            return
        grant.returned = True
        restore = grant.n - grant.rate * (self._last_event - grant.at)
        if restore <= 0:
            return
        self._tokens = min(float(self.burst), self.tokens(now) + restore)
        self._last = now
        if grant.at == self._last_event and grant.rate > 0:
            before = grant.at - grant.n / grant.rate
            if before >= now:
                self._last_event = before

    def move(self, by: float) -> None:
        """Go on by another clock, which differs from the one so far by ``by`` seconds."""
        self._last += by
        self._last_event += by

    def settle(self, now: float) -> None:
        """Count what has refilled so far, before the rate or the burst changes."""
        self._tokens, self._last = self.tokens(now), now


#: Beyond this, floats no longer count in ones.
MOST_TOKENS = 10**15

#: Longer than this nobody waits: only a rate of 0, or nearly, would ask for it.
_LONGEST = 1e15


class Reservation:
    """Tokens taken from a `Limiter` ahead of time: usable after ``delay`` seconds, if ``ok``."""

    __slots__ = ("_grant", "_limiter")

    def __init__(self, limiter: Limiter, grant: Grant) -> None:
        self._limiter = limiter
        self._grant = grant

    @property
    def ok(self) -> bool:
        """Whether the tokens were granted."""
        return self._grant.ok

    @property
    def delay(self) -> float:
        """Seconds from now until the tokens may be used; inf when not ``ok``."""
        return self._grant.delay(self._limiter._now())

    def cancel(self) -> None:
        """Give the tokens back, as far as no later reservation depends on them."""
        self._limiter._cancel(self._grant)

    def __repr__(self) -> str:
        return f"<reservation of {self._grant.n}: {'ok' if self.ok else 'refused'}>"


class Waiting:
    """Waiting for what ``_admit`` reserved, as a thread or as a task; giving it back when cancelled."""

    __slots__ = ()

    clock: Clock | None

    def _admit(self, n: int) -> Reservation:
        """A reservation that can be waited for, or the error that says why not."""
        raise NotImplementedError

    def wait(self, n: int = 1) -> None:
        """Wait until ``n`` may be used, and use them; fails at once if that is past the deadline."""
        reservation = self._admit(n)
        try:
            if (delay := reservation.delay) > 0:
                _sync.sleep(delay, self.clock)
            check()
        except BaseException:
            reservation.cancel()
            raise

    async def wait_async(self, n: int = 1) -> None:
        """`wait` for async code."""
        reservation = self._admit(n)
        try:
            if (delay := reservation.delay) > 0:
                await _aio.sleep(delay, self.clock)
            check()
        except BaseException:
            reservation.cancel()
            raise


class Limiter(Waiting):
    """At most ``rate`` per second on average, ``burst`` at once. Starts full.

    ``rate`` inf ignores the burst; 0 gives the burst once. ``Limiter("100/s burst 200")`` reads the
    text. Shared by passing the object; safe between threads, tasks and event loops; no background
    thread.
    """

    __slots__ = ("__weakref__", "_bucket", "_lock", "clock")

    _lock: Any

    def __init__(
        self,
        rate: float | str,
        burst: int | None = None,
        *,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        if isinstance(rate, str):
            if burst is not None:
                raise ValueError(
                    f"Limiter: burst must be part of the text {rate!r}, got burst={burst!r} as well"
                )
            rate, burst = parse(rate)
        burst = 1 if burst is None else burst
        self.clock = timepiece("Limiter", clock)
        # Everything that holds state takes a clock and a source of randomness; a limiter draws nothing.
        chance.source(rng, "Limiter")
        self._bucket = Bucket(
            number("Limiter", "rate", rate, least=0, infinite=True),
            count("Limiter", "burst", burst, least=0, most=MOST_TOKENS),
            self._now(),
        )
        guard(self)

    def _now(self) -> float:
        return _clock.AMBIENT.now() if self.clock is None else self.clock.now()

    def keep_time(self, clock: Clock) -> None:
        """Go by ``clock`` from now on, unless this limiter was given one of its own."""
        if self.clock is None:
            with self._lock:
                self._bucket.move(clock.now() - self._now())
                self.clock = clock

    def allow(self, n: int = 1) -> bool:
        """Take ``n`` tokens if they are there now."""
        if type(n) is not int or n < 0:
            n = count("Limiter", "n", n, least=0)
        with self._lock:
            return self._bucket.take(n, (_clock.AMBIENT if self.clock is None else self.clock).now())

    def reserve(self, n: int = 1, max_wait: Seconds | None = None) -> Reservation:
        """Take ``n`` tokens, to be used after the reservation's ``delay``."""
        n = count("Limiter", "n", n, least=0)
        limit = None if max_wait is None else seconds("Limiter", "max_wait", max_wait)
        with self._lock:
            return Reservation(self, self._bucket.reserve(n, self._now(), limit))

    def _cancel(self, grant: Grant) -> None:
        with self._lock:
            self._bucket.cancel(grant, self._now())

    def _admit(self, n: int) -> Reservation:
        """A reservation that can be waited for, or the error that says why not."""
        n = count("Limiter", "n", n, least=0)
        if n > self.burst and not math.isinf(self.rate):
            raise RateLimited(f"Limiter: n must be <= burst ({self.burst}), got {n}: it would wait for ever")
        check()
        scope = ambient()
        left = None if scope is None else scope.remaining()
        reservation = self.reserve(n, left)
        if not reservation.ok:
            if left is None:
                raise RateLimited(f"Limiter: the tokens will never be there (rate {self.rate:g})")
            raise DeadlineExceeded(f"Limiter: the wait would end past the deadline, {left:.3g} s away")
        return reservation

    def tokens(self) -> float:
        """What is there now; negative while reservations are owed."""
        with self._lock:
            return self._bucket.tokens(self._now())

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self._bucket.rate

    @property
    def burst(self) -> int:
        """Tokens at once."""
        return self._bucket.burst

    def set_rate(self, rate: float) -> None:
        """Change the rate from now on."""
        rate = number("Limiter", "rate", rate, least=0, infinite=True)
        with self._lock:
            self._bucket.settle(self._now())
            self._bucket.rate = rate

    def set_burst(self, burst: int) -> None:
        """Change the burst from now on."""
        burst = count("Limiter", "burst", burst, least=0, most=MOST_TOKENS)
        with self._lock:
            self._bucket.settle(self._now())
            self._bucket.burst = burst

    def fresh(self) -> Limiter:
        """A new limiter with these options, full."""
        return Limiter(self.rate, self.burst, clock=self.clock)

    def __repr__(self) -> str:
        return f"Limiter(rate={self.rate!r}, burst={self.burst!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Limiter, (self.rate, self.burst)

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with the tokens of this moment."""
        return {"kind": "Limiter", "rate": self.rate, "burst": self.burst, "tokens": self.tokens()}
