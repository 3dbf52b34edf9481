"""Pure rules of the adaptive rate: `Cubic` computes the rate to send at, `Tokens` enforces it.

The rate is cut when the server throttles, then grows along a cubic curve: fast towards the rate at
which it was throttled, slowly around it, and fast again beyond.
"""

from __future__ import annotations

import math

#: The sending rate is measured over stretches of this many seconds.
_BUCKET_S = 0.5
#: The rate is never set above this many times the measured one.
_HEADROOM = 2.0


class Cubic:
    """measured: the rate of answers in buckets of 0.5 s, smoothed. Throttled: w = min(measured, fill),
    rate = w * beta. Else rate = scale * (t - k)^3 + w, with t the time since the last throttling and
    k = (w * (1 - beta) / scale)^(1/3). fill = max(min(rate, 2 * measured), min_rate).
    """

    def __init__(self, now: float, beta: float, scale: float, smoothing: float, min_rate: float) -> None:
        self.retune(beta, scale, smoothing, min_rate)
        self._bucket = float(math.floor(now))
        self._count = 0
        self._w = 0.0
        self._throttled_at = now
        self.measured = 0.0
        self.fill = min_rate
        #: Off until the server throttles for the first time.
        self.enabled = False

    def retune(self, beta: float, scale: float, smoothing: float, min_rate: float) -> None:
        """Go on with other constants."""
        self._beta, self._scale, self._smoothing, self._min = beta, scale, smoothing, min_rate

    def settle(self, throttled: bool, now: float) -> float:
        """Update the rate after an answer; return it as it is before the floor applies."""
        self._measure(now)
        if throttled:
            self._w = min(self.measured, self.fill) if self.enabled else self.measured
            self._throttled_at = now
            self.enabled = True
            rate = self._w * self._beta
        else:
            rate = self.grown(now)
        rate = min(rate, _HEADROOM * self.measured)
        self.fill = max(rate, self._min)
        return rate

    def grown(self, now: float) -> float:
        """The rate of the cubic curve at ``now``."""
        k = (self._w * (1 - self._beta) / self._scale) ** (1 / 3)
        return float(self._scale * (now - self._throttled_at - k) ** 3 + self._w)

    def _measure(self, now: float) -> None:
        bucket = math.floor(now / _BUCKET_S) * _BUCKET_S
        self._count += 1
        if bucket > self._bucket:
            rate = self._count / (bucket - self._bucket)
            self.measured = rate * self._smoothing + self.measured * (1 - self._smoothing)
            self._count = 0
            self._bucket = bucket


class Tokens:
    """Tokens that refill at ``fill`` per second up to ``capacity``; those who wait have taken theirs already.

    ``refilled`` only grows: a waiting call may go when it reaches the sum given to that call, so calls
    go in the order they came, and at the rate of the day instead of that of their arrival.
    """

    def __init__(self, fill: float, now: float) -> None:
        self._last = now
        self.fill = fill
        self.capacity = 1.0
        self.held = 0.0
        self.refilled = 0.0

    def refill(self, now: float) -> None:
        """Let time pass."""
        fresh = min((now - self._last) * self.fill, self.capacity - self.held)
        self._last = now
        self.held += fresh
        self.refilled += fresh

    def take(self, now: float) -> float:
        """Take one: the sum that ``refilled`` must reach before it may be used."""
        self.refill(now)
        self.held -= 1
        return self.refilled - min(0.0, self.held)

    def wait(self, due: float, now: float) -> float:
        """Seconds until ``refilled`` reaches ``due`` at the present rate."""
        self.refill(now)
        missing = due - self.refilled
        # A rounding error must not become one more wait, shorter than the resolution of the clock.
        return max(missing / self.fill, 1e-6) if missing > 1e-6 else 0.0

    def give_back(self) -> None:
        """The call that took one will not be made."""
        self.held = min(self.capacity, self.held + 1)

    def change(self, rate: float, fill: float, now: float) -> None:
        """Another rate from ``now`` on: as many tokens can be held as a second brings, one at least."""
        self.refill(now)
        self.fill = fill
        self.capacity = max(rate, 1.0)
        self.held = min(self.held, self.capacity)
