"""Go's x/time/rate in exact arithmetic: what `Limiter` is held to, written apart from it.

Times and token counts are fractions, so nothing is lost to rounding. Five deliberate differences,
all where Go goes wrong: a refusal notices a clock set back (in Go only a grant does, and a refused caller
stays refused until the old time comes again), at rate 0 a reservation beyond the burst is refused (Go
grants it, to be used after 292 years), cancelling what was reserved at an infinite rate gives nothing
back (nothing was taken), cancelling twice gives back once (in Go the second time gives twice as much
again), and cancelling never gives back more than was taken (in Go it may, once a caller has got an
earlier time than one that waits already).
"""

from __future__ import annotations

import math
from fractions import Fraction


class Reserved:
    def __init__(self, ok: bool, n: int = 0, act: Fraction = Fraction(0), rate: float = 0.0) -> None:
        self.ok = ok
        self.n = n
        self.act = act
        self.rate = rate
        self.cancelled = False

    def delay(self, now: Fraction) -> Fraction | float:
        return max(Fraction(0), self.act - now) if self.ok else math.inf


class GoRate:
    def __init__(self, rate: float, burst: int, now: Fraction) -> None:
        self.rate = rate
        self.burst = burst
        self.level = Fraction(burst)
        self.last = now
        self.last_event: Fraction | None = None

    def tokens(self, now: Fraction) -> Fraction:
        elapsed = now - self.last if now > self.last else Fraction(0)
        if math.isinf(self.rate):
            level = Fraction(self.burst) if elapsed else self.level
        else:
            level = self.level + elapsed * Fraction(self.rate)
        return min(Fraction(self.burst), level)

    def reserve(self, n: int, now: Fraction, longest: Fraction | None) -> Reserved:
        if math.isinf(self.rate):
            return Reserved(True, n, now, self.rate)
        self.last = min(self.last, now)
        level = self.tokens(now) - n
        if level >= 0:
            wait = Fraction(0)
        elif self.rate == 0:
            return Reserved(False)
        else:
            wait = -level / Fraction(self.rate)
        if n > self.burst or (longest is not None and wait > longest):
            return Reserved(False)
        self.last, self.level, self.last_event = now, level, now + wait
        return Reserved(True, n, now + wait, self.rate)

    def cancel(self, reserved: Reserved, now: Fraction) -> None:
        if not reserved.ok or reserved.n == 0 or reserved.act < now or reserved.cancelled:
            return
        if math.isinf(self.rate) or math.isinf(reserved.rate):
            return
        reserved.cancelled = True
        assert self.last_event is not None
        rate = Fraction(reserved.rate)
        restore = min(reserved.n - rate * (self.last_event - reserved.act), Fraction(reserved.n))
        if restore <= 0:
            return
        self.level = min(Fraction(self.burst), self.tokens(now) + restore)
        self.last = now
        if reserved.act == self.last_event and rate > 0:
            before = reserved.act - reserved.n / rate
            if before >= now:
                self.last_event = before

    def set_rate(self, rate: float, now: Fraction) -> None:
        self.level, self.last = self.tokens(now), now
        self.rate = rate

    def set_burst(self, burst: int, now: Fraction) -> None:
        self.level, self.last = self.tokens(now), now
        self.burst = burst
