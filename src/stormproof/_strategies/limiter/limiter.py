"""A rate limiter with the semantics of Go's x/time/rate: `rules.bucket` with a clock, a lock and waiting."""

from __future__ import annotations

import math

from ..._context.deadlines import ambient, check
from ..._primitives.errors import RateLimited
from ..._primitives.options import count, flag, label, number, shared_name, shared_store, validate_clock
from ..._primitives.rates import rate_and_burst
from ..._runtime import randomness
from ..._runtime.clock import timer_of
from ..._runtime.locks import guard, has_gil
from .rules.bucket import MOST_NEAR, MOST_TOKENS, Bucket, Grant, Line
from .waiting import Reservation, Waiting, wake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, TypeVar

    from ..._runtime.clock import Clock
    from ..._runtime.randomness import Rng
    from ..protocol import Store

    class LimiterMember(Protocol):
        """The fleet's side of a limiter with a store."""

        rate: float
        burst: int
        bucket: Bucket

        def start(self) -> None: ...
        def kick(self) -> None: ...
        def is_dry(self, now: float) -> bool: ...
        def change(self, owner: Limiter, rate: float, burst: int) -> None: ...

    T = TypeVar("T")


#: A level below this is short of a token, however coarse the clock.
_SURELY_SHORT = 1.0 - MOST_NEAR

#: Small whole numbers are one object each; comparing identities calls no code.
_ONE = 1


class Limiter(Waiting):
    """At most ``rate`` per second on average, ``burst`` at once. Starts full.

    ``rate`` inf ignores the burst; 0 gives the burst once. ``Limiter("100/s burst 200")`` reads the
    text. Shared by passing the object; safe between threads, tasks and event loops; no background
    thread.

    With a ``store`` it is the limit of all processes that use one of the same ``name``: this one
    leases from it what it is about to need (a thread of the store does), and decides locally.

    With ``observe`` no call is refused and none waits: `WouldRefuse` is emitted where no token is there.
    """

    _surroundings = ("clock", "rng", "store", "name")

    #: The burst, while `allow` may count without the lock; -1 while another method works on the bucket, at
    #: an infinite rate, and on builds without a GIL, where the steps of `allow` are not atomic.
    _quick: float

    def __init__(
        self,
        rate: float | str,
        burst: int | None = None,
        *,
        clock: Clock | None = None,
        rng: Rng | None = None,
        store: Store | None = None,
        name: str | None = None,
        observe: bool = False,
    ) -> None:
        self.observe = flag("Limiter", "observe", observe)
        rate, burst = self._checked(*rate_and_burst("Limiter", rate, burst))
        self._timer = timer_of(validate_clock("Limiter", clock))
        # Everything that holds state takes a clock and a source of randomness; a limiter draws nothing.
        randomness.source(rng, "Limiter")
        self._bucket = Bucket(rate, burst, self._now())
        self._lock = guard(self)
        self.store = shared_store("Limiter", store)
        self.name = label("Limiter", name)
        self._fleet: LimiterMember | None = None
        self._quick = self._quickest()
        if store is not None:
            self._join(store)

    def _checked(self, rate: float, burst: int) -> tuple[float, int]:
        rate = number("Limiter", "rate", rate, least=0, infinite=True)
        return rate, count("Limiter", "burst", burst, least=0, most=MOST_TOKENS)

    def _join(self, store: Store) -> None:
        _shared(self.rate, self.burst)
        fleet: LimiterMember = store.join("limiter", self, shared_name("Limiter", self.name))
        self.swap_bucket(fleet.bucket)
        self._fleet = fleet
        fleet.start()

    def swap_bucket(self, bucket: Bucket) -> None:
        """Use ``bucket`` from now on."""
        with self._lock:
            self._quick = -1.0
            self._bucket = bucket
            self._quick = self._quickest()

    def clock_time(self) -> float:
        return self._now()

    def _quickest(self) -> float:
        quick = has_gil() and not math.isinf(self._bucket.rate)
        return float(self._bucket.burst) if quick else -1.0

    def run_locked(self, work: Callable[[Bucket, float], T]) -> T:
        """Return ``work(bucket, now)``, run with the bucket to itself: it takes more steps than `allow`."""
        with self._lock:
            before, self._quick = self._quick, -1.0
            try:
                return work(self._bucket, self._now())
            finally:
                self._quick = before

    def use_clock(self, clock: Clock) -> None:
        """Use ``clock`` from now on, unless this limiter was given one of its own."""
        if self.clock is None:
            self.run_locked(lambda bucket, now: bucket.move(clock.now() - now))
            self._timer = clock

    def allow(self, n: int = 1) -> bool:
        """Take ``n`` tokens if they are there now."""
        now = self._timer.now()
        bucket = self._bucket
        elapsed = now - bucket.last
        if n is _ONE and elapsed >= 0.0:
            # Without a call or a loop from here to the last store, no other thread comes between.
            level = bucket.level + elapsed * bucket.rate
            if level > self._quick:
                level = self._quick
            if level >= 1.0:
                bucket.level = level - 1.0
                bucket.last = bucket.last_event = now
                return True
            if self._fleet is not None:
                if self._fleet.is_dry(now):
                    return self.observe and self._passes()
            elif self._quick >= 0.0 and level < _SURELY_SHORT:
                # A refusal takes nothing. Nearer to a token, the bucket itself decides.
                return self.observe and self._passes()
        n = count("Limiter", "n", n, least=0)
        ok = self.run_locked(lambda bucket, now: bucket.reserve(n, now, 0.0).ok)
        self._kick()
        return ok or self._passes()

    def _kick(self) -> None:
        if self._fleet is not None:
            self._fleet.kick()

    def line_step(self, grant: Grant, work: Callable[[Line, float], list[Grant]]) -> None:
        # A store that is lost or found puts another bucket in place; those in line stay where they are.
        wake(self.run_locked(lambda bucket, now: work(grant.line or bucket, now)))

    def _admit(self, n: int) -> Reservation:
        """A reservation that can be waited for, or the error that says why not."""
        n = count("Limiter", "n", n, least=0)
        if n > self.burst and not math.isinf(self.rate):
            raise RateLimited(f"Limiter: n must be <= burst ({self.burst}), got {n}: it would wait for ever")
        check()
        scope = ambient()
        left = None if scope is None else scope.remaining()
        reservation = self.enqueue(n, left)
        if reservation.ok and left is not None and 0 < left <= reservation.delay:
            # The token would be there just as the time ends.
            reservation.leave()
            reservation = self.enqueue(n, 0.0)
        if not reservation.ok:
            if left is None:
                raise RateLimited(f"Limiter: the tokens will never be there (rate {self.rate:g})")
            assert scope is not None
            tightest = scope.tightest()
            raise tightest.late(f"Limiter: the wait would end past {tightest.name!r}, {left:.3g} s away")
        return reservation

    def ready_in(self, n: int = 1) -> float:
        """Seconds until ``n`` tokens would be there; inf: never. Takes no lock, as it takes no token."""
        return self._bucket.wait_for(n, self._now())

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self._bucket.rate if self._fleet is None else self._fleet.rate

    @property
    def burst(self) -> int:
        """Tokens at once."""
        return self._bucket.burst if self._fleet is None else self._fleet.burst

    def _change(self, rate: float, burst: int) -> None:
        if self._fleet is not None:
            self._fleet.change(self, *_shared(rate, burst))
            return
        self.run_locked(lambda bucket, now: bucket.change(rate, burst, now))
        self._quick = self._quickest()

    def reset(self) -> None:
        """Start over: full, nothing reserved, no waiters. For tests."""
        self.swap_bucket(Bucket(self.rate, self.burst, self._now()))

    # For its member of a fleet.

    @property
    def bucket(self) -> Bucket:
        """The bucket in use; read it within `locked`."""
        return self._bucket


def _shared(rate: float, burst: int) -> tuple[float, int]:
    """``rate`` and ``burst`` if a store can count them."""
    from .rules.leases import MOST_SHARED

    number("Limiter", "rate", rate, most=MOST_SHARED)
    return rate, count("Limiter", "burst", burst, least=0, most=MOST_SHARED)
