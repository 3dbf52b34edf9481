"""A quantile of recent latencies in bounded memory: a histogram whose buckets grow by 5 %."""

from __future__ import annotations

import math

_SMALLEST_S = 1e-4
_GROWTH = 1.05
_BUCKETS = 300
_KEEP = 4096


class Sketch:
    """Counts latencies by size; once ``_KEEP`` are in, the old ones weigh half, again and again.

    A quantile is right to within one bucket (5 %) between 0.1 ms and 3 minutes.
    """

    def __init__(self) -> None:
        self._counts = [0.0] * _BUCKETS
        self.total = 0.0

    def record(self, seconds: float) -> None:
        """Count one latency."""
        place = int(math.log(seconds / _SMALLEST_S) / math.log(_GROWTH)) + 1 if seconds > _SMALLEST_S else 0
        self._counts[min(place, _BUCKETS - 1)] += 1
        self.total += 1
        if self.total >= _KEEP:
            self._counts = [count / 2 for count in self._counts]
            self.total /= 2

    def quantile(self, q: float) -> float:
        """The latency (in seconds) that a share ``q`` of those counted did not exceed."""
        rank = q * self.total
        below = 0.0
        for place, count in enumerate(self._counts):
            below += count
            if below >= rank and below > 0:
                return float(_SMALLEST_S * _GROWTH**place)
        return float(_SMALLEST_S * _GROWTH ** (_BUCKETS - 1))
