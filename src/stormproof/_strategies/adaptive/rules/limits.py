"""Pure rules by which a concurrency limit learns from the outcome of each call.

``update(rtt, inflight, dropped, now)``: the call took ``rtt`` seconds and began as one of ``inflight``;
``dropped`` means that the backend did not cope (a timeout, a refusal). Every kind shrinks on a drop,
learns no latency from one (a refusal is fast, and proves nothing), and does not grow while less
than half of the limit is used.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Limit:
    """A rule: ``limit`` is the number of calls allowed at once, rounded down where it is used."""

    def __init__(self, initial: float, least: float, most: float) -> None:
        self.limit = initial
        self._min, self._max = least, most

    def update(self, rtt: float, inflight: int, dropped: bool, now: float) -> None:
        """Learn from the outcome of one call."""
        raise NotImplementedError

    def learn_from(self, former: Limit) -> None:
        """Start with the limit and the measurements of ``former``, the rule that this one replaces."""
        self.limit = self._bounded(former.limit)

    def _bounded(self, limit: float) -> float:
        return min(self._max, max(self._min, limit))


class Aimd(Limit):
    """+1 per call that answers, * ``decrease`` per drop; a call longer than ``timeout_s`` is a drop."""

    def __init__(
        self, initial: float, least: float, most: float, decrease: float = 0.9, timeout_s: float | None = None
    ) -> None:
        super().__init__(initial, least, most)
        self._decrease = decrease
        self._timeout_s = math.inf if timeout_s is None else timeout_s

    def update(self, rtt: float, inflight: int, dropped: bool, now: float) -> None:
        if dropped or rtt > self._timeout_s:
            self.limit = max(self._min, self.limit * self._decrease)
        elif 2 * inflight >= self.limit:
            self.limit = min(self._max, self.limit + 1)


class Vegas(Limit):
    """TCP Vegas. queue = ceil(L * (1 - rtt0 / rtt)), with rtt0 the shortest rtt seen, and with
    log = max(1, floor(log10 L)): queue <= log -> L + 6 log; < 3 log -> L + log; > 6 log -> L - log.

    rtt0 is measured anew about every ``probe`` * L calls, so that a backend that has become slower
    for good is not taken for an overloaded one; ``draw`` spreads those moments by a factor in [0.5, 1).
    """

    def __init__(
        self,
        initial: float,
        least: float,
        most: float,
        smoothing: float = 1.0,
        probe: int = 30,
        draw: Callable[[], float] = lambda: 0.5,
    ) -> None:
        super().__init__(initial, least, most)
        self._smoothing = smoothing
        self._probe = probe
        self._draw = draw
        self.spread = 0.5 + 0.5 * draw()
        self.calls = 0
        self.rtt0 = math.inf

    def learn_from(self, former: Limit) -> None:
        super().learn_from(former)
        if isinstance(former, Vegas):
            self.calls, self.rtt0, self.spread = former.calls, former.rtt0, former.spread

    def update(self, rtt: float, inflight: int, dropped: bool, now: float) -> None:
        log = max(1, math.floor(math.log10(self.limit)))
        if dropped:
            self._move(self.limit - log)
            return
        if rtt <= 0:
            # No clock saw this call; as the shortest latency it would make every other one look queued.
            return
        self.calls += 1
        if self.calls >= self.spread * self._probe * self.limit:
            self.calls, self.spread = 0, 0.5 + 0.5 * self._draw()
            self.rtt0 = rtt
            return
        if rtt < self.rtt0:
            self.rtt0 = rtt
            return
        if 2 * inflight < self.limit:
            return
        queue = math.ceil(self.limit * (1 - self.rtt0 / rtt))
        if queue <= log:
            self._move(self.limit + 6 * log)
        elif queue < 3 * log:
            self._move(self.limit + log)
        elif queue > 6 * log:
            self._move(self.limit - log)

    def _move(self, to: float) -> None:
        self.limit += self._smoothing * (self._bounded(to) - self.limit)


class Gradient2(Limit):
    """gradient = tolerance * long / rtt in [0.5, 1]; L moves by ``smoothing`` to gradient * L + ``queue``.

    ``long`` is the average rtt over about ``long_window`` calls: the plain mean of the first ten, then
    an exponential one; it shrinks by 5 % a call while it is more than twice the present rtt. A drop
    counts as the steepest gradient, and leaves no room for a queue: L * (1 - smoothing / 2).
    """

    def __init__(
        self,
        initial: float,
        least: float,
        most: float,
        smoothing: float = 0.2,
        tolerance: float = 1.5,
        long_window: int = 600,
        queue: int = 4,
    ) -> None:
        super().__init__(initial, least, most)
        self._smoothing = smoothing
        self._tolerance = tolerance
        self._queue = queue
        self._factor = 2 / (long_window + 1)
        self.long = 0.0
        self.count = 0

    def learn_from(self, former: Limit) -> None:
        super().learn_from(former)
        if isinstance(former, Gradient2):
            self.count, self.long = former.count, former.long

    def update(self, rtt: float, inflight: int, dropped: bool, now: float) -> None:
        if dropped:
            self._move(self.limit * 0.5)
            return
        long = self._learn(rtt)
        if 2 * inflight < self.limit:
            return
        gradient = max(0.5, min(1.0, self._tolerance * long / rtt)) if rtt > 0 else 1.0
        self._move(self.limit * gradient + self._queue)

    def _learn(self, rtt: float) -> float:
        """Add ``rtt`` to the long average; return the average with it."""
        if self.count < 10:
            self.count += 1
            self.long += (rtt - self.long) / self.count
        else:
            self.long += self._factor * (rtt - self.long)
        long = self.long
        if long > 2 * rtt:
            self.long *= 0.95
        return long

    def _move(self, to: float) -> None:
        self.limit = self._bounded(self.limit + self._smoothing * (to - self.limit))
