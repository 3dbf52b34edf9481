"""Waits before retries: schedules and jitter, as pure formulas.

``n`` is the retry number (0: the wait after the first failed attempt), ``prev`` the wait before
this one (``None``: the base), ``u`` a uniform draw in [0, 1). A wait is a function of these three:
nothing here reads a clock, draws a number or keeps state. Scalars give a float; a NumPy array in
any place gives an array, element by element the same floats. Durations are seconds or ``timedelta``.

    jitter                 wait                            mean            bound
    none                   ceiling                         ceiling         = ceiling
    full                   u * ceiling                     ceiling / 2     [0, ceiling)
    equal                  ceiling / 2 * (1 + u)           3/4 ceiling     [ceiling / 2, ceiling)
    Symmetric(r)           ceiling * (1 - r + 2 * r * u)   ceiling         ceiling * [1 - r, 1 + r)
    Decorrelated           B + u * (min(C, 3 * prev) - B)  half of both    [B, C]
    Decorrelated, sample   min(C, B + u * (3 * prev - B))  piles up at C   [B, C]

``min`` lifts any wait that would be shorter; 0 lifts none.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from ..._primitives.options import Options, choice, count, number, seconds
from .jitter import Symmetric, spread_for
from .rules.waits import LARGEST, general, greater, lesser, mean, multiple, per_n, span, spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from ..._classify.verdict import Verdict
    from ..._primitives.options import Seconds
    from ..._runtime.randomness import Rng
    from .jitter import Jitter

    Array = Any


#: Number of retries whose ceilings are computed once, ahead of time.
_USUAL = 8


class Row(Options):
    """One retry in a preview: its bounds, its mean (``None``: not known) and the worst total so far."""

    def __init__(self, n: int, low: float, mean: float | None, high: float, worst: float) -> None:
        self.n = n
        self.low = low
        self.mean = mean
        self.high = high
        self.worst = worst

    def __iter__(self) -> Iterator[float | None]:
        return iter((self.n, self.low, self.mean, self.high, self.worst))


class Backoff(Options, ABC):
    """A rule for waits. Subclass it with ``delay`` and ``ceiling``; the rest follows from them.

    A subclass whose waits can pass ``ceiling`` overrides ``bounds`` too; one that knows its
    mean overrides ``mean``. Its options are the arguments of its constructor, which assigns each to the
    attribute of that name.
    """

    @abstractmethod
    def delay(self, n: int | Array, prev: float | Array | None, u: float | Array) -> float:
        """The wait before retry ``n``, in seconds; ``prev=None`` stands for the base."""

    @abstractmethod
    def ceiling(self, n: int | Array) -> float:
        """The wait before retry ``n`` ahead of any jitter."""

    def bounds(self, n: int, prev: float | None = None) -> tuple[float, float]:
        """The shortest and the longest possible wait before retry ``n``: [0, ceiling] unless overridden."""
        return 0.0, self.ceiling(n)

    def mean(self, n: int, prev: float | None = None) -> float | None:
        """The mean wait before retry ``n``; ``None``: not known."""
        return None

    def plan(
        self, n: int, prev: float | None, verdict: Verdict, draw: Callable[[], float]
    ) -> tuple[float, float | None, int]:
        """(the wait, the next ``prev``, the next ``n``) after a failure that ``verdict`` describes.

        A server's hint is a floor: max(own wait, hint + up to 10 % spread). Override it for a schedule
        that treats hints or kinds of failure in its own way.
        """
        own = self.delay(n, prev, draw())
        return own if verdict.after is None else spread(own, verdict.after, draw), own, n + 1

    def delays(self, seed: Rng | None = None) -> Iterator[float]:
        """The waits of one call, without end. ``seed=None`` draws from this process's own generator.

        Else ``seed`` is whatever ``rng=`` takes: a whole number, an object with ``random()``, a callable.
        """
        from ..._runtime.randomness import source

        return _chain(self, source(seed))

    def preview(self, retries: int) -> list[Row]:
        """One row for each of the first ``retries`` retries; 0 gives none."""
        rows: list[Row] = []
        total = 0.0
        for n in range(count(type(self).__name__, "retries", retries, least=0)):
            low, high = self.bounds(n)
            total += high
            rows.append(Row(n, low, self.mean(n), high, total))
        return rows

    def worst_case(self, retries: int) -> float:
        """The longest that ``retries`` retries can wait in total: the sum of their upper bounds."""
        total = 0.0
        for n in range(count(type(self).__name__, "retries", retries, least=0)):
            total += self.bounds(n)[1]
        return total


def _chain(rule: Backoff, draw: Callable[[], float]) -> Iterator[float]:
    wait: float | None = None
    n = 0
    while True:
        wait = rule.delay(n, wait, draw())
        yield wait
        n += 1


class Jittered(Backoff):
    """A ceiling that depends on ``n`` alone, spread by ``jitter`` and lifted to ``min``.

    A callable jitter is given two floats and answers with the wait; nothing is known of its
    mean (``None``) or its upper bound (inf).
    """

    def __init__(self, jitter: Jitter, min: Seconds) -> None:
        owner = type(self).__name__
        spread = spread_for(owner, jitter)
        known = isinstance(jitter, str) or type(jitter) is Symmetric
        self.jitter = jitter
        self.min = seconds(owner, "min", min)
        self._spread: Callable[[Any, Any], Any] = spread
        self._known: bool = known

    @abstractmethod
    def _ceiling(self, n: int) -> float:
        """The ceiling for one whole ``n`` >= 0, finite however large ``n`` is."""

    def ceiling(self, n: int | Array) -> float:
        wait: float = per_n(type(self).__name__, self._ceiling, n)
        return wait

    def delay(self, n: int | Array, prev: float | Array | None, u: float | Array) -> float:
        """The ceiling of ``n``, spread by the jitter at ``u``. ``prev`` plays no part."""
        # Types are compared, not isinstance-checked: this line is all that a plain retry pays for arrays.
        if type(n) is int and type(u) is float and (prev is None or type(prev) is float):
            if n >= 0 and 0.0 <= u <= 1.0:
                wait: float = self._spread(u, self._ceiling(n))
                if self.min <= wait <= LARGEST:
                    return wait
                return self.min if wait < self.min else LARGEST
        wait = general(self, n, prev, u)
        return wait

    def quick_delay(self) -> Callable[[int, float | None, float], float]:
        """`delay` for the loop, whose ``n`` and ``prev`` need no check; a draw from a user's ``rng`` does."""
        delay, spread = self.delay, self._spread
        if self.min > 0.0 or not isinstance(self.jitter, str):
            return delay
        # The others keep between 0 and the ceiling by themselves.
        ceilings = tuple(self._ceiling(n) for n in range(_USUAL))

        def fixed(n: int, prev: float | None, u: float) -> float:
            return ceilings[n] if n < _USUAL else delay(n, prev, u)

        def quick(n: int, prev: float | None, u: float) -> float:
            if n < _USUAL and type(u) is float and 0.0 <= u <= 1.0:
                wait: float = spread(u, ceilings[n])
                return wait
            return delay(n, prev, u)

        return fixed if self.jitter == "none" else quick

    def many(self, np: Any, n: Array, prev: Array, u: Array) -> Array:
        ceilings = np.broadcast_to(self.ceiling(n), u.shape)
        if self._known:
            waits = self._spread(u, ceilings)
        else:
            pairs = zip(u.ravel().tolist(), ceilings.ravel().tolist(), strict=True)
            waits = np.array([self._spread(*pair) for pair in pairs], dtype=float).reshape(u.shape)
        return np.clip(waits, self.min, LARGEST)

    def bounds(self, n: int, prev: float | None = None) -> tuple[float, float]:
        """Return the waits at u = 0 and u = 1, lifted to ``min``; (min, inf) for a callable."""
        if not self._known:
            return self.min, math.inf
        return self.delay(n, prev, 0.0), self.delay(n, prev, 1.0)

    def mean(self, n: int, prev: float | None = None) -> float | None:
        """The mean wait before retry ``n``, ``min`` included; ``None`` for a callable jitter."""
        if not self._known:
            return None
        ceiling = self.ceiling(n)
        high = self._spread(1.0, ceiling)
        return mean(self._spread(0.0, ceiling), min(high, LARGEST), self.min, LARGEST)


class Capped(Jittered):
    """A ceiling that rises from ``base`` to ``cap``: 0 < base <= cap, and ``min`` <= cap."""

    def __init__(
        self, base: Seconds = 0.1, *, cap: Seconds = 5.0, jitter: Jitter = "full", min: Seconds = 0.0
    ) -> None:
        low, high, least = span(type(self).__name__, base, cap, min)
        super().__init__(jitter, least)
        self.base: float = low
        self.cap: float = high


class Exponential(Capped):
    """``ceiling(n) = min(cap, base * factor**n)``. ``factor=1`` stays at the base."""

    def __init__(
        self,
        base: Seconds = 0.1,
        *,
        factor: float = 2.0,
        cap: Seconds = 5.0,
        jitter: Jitter = "full",
        min: Seconds = 0.0,
    ) -> None:
        super().__init__(base, cap=cap, jitter=jitter, min=min)
        self.factor = number(type(self).__name__, "factor", factor, least=1.0)

    def _ceiling(self, n: int) -> float:
        try:
            wait = self.base * self.factor**n
        except OverflowError:
            return self._far(n)
        return wait if wait < self.cap else self.cap

    def _far(self, n: int) -> float:
        # factor**n fits no float, yet a tiny base may hold the product below the cap: add logarithms.
        if self.factor == 1.0:
            return self.base
        try:
            power = math.log(self.base) + n * math.log(self.factor)
        except OverflowError:  # n itself fits no float
            return self.cap
        return min(self.cap, math.exp(power)) if power < math.log(self.cap) else self.cap


class Linear(Capped):
    """``ceiling(n) = min(cap, base * (n + 1))``."""

    def _ceiling(self, n: int) -> float:
        try:
            wait = self.base * (n + 1)
        except OverflowError:  # n itself fits no float
            return multiple(self.base, n + 1, self.cap)
        return wait if wait < self.cap else self.cap


class Constant(Jittered):
    """``ceiling(n) = wait``. ``Constant(0)`` retries without waiting."""

    def __init__(self, wait: Seconds, *, jitter: Jitter = "none", min: Seconds = 0.0) -> None:
        super().__init__(jitter, min)
        self.wait = seconds(type(self).__name__, "wait", wait)

    def _ceiling(self, n: int) -> float:
        return self.wait


class Schedule(Jittered):
    """``ceiling(n) = values[n]``; past the end the last value repeats. A value of 0 means no wait."""

    def __init__(self, values: Sequence[Seconds], *, jitter: Jitter = "none", min: Seconds = 0.0) -> None:
        owner = type(self).__name__
        # Only what can be indexed: an endless generator would hang here, a set has no order.
        if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__getitem__"):
            raise TypeError(f"{owner}: values must be a list of seconds, got {values!r}")
        steps = tuple(seconds(owner, f"values[{i}]", value) for i, value in enumerate(values))
        if not steps:
            raise ValueError(f"{owner}: values must hold at least one wait, got {values!r}")
        super().__init__(jitter, min)
        self.values: tuple[float, ...] = steps

    def _ceiling(self, n: int) -> float:
        return self.values[n] if n < len(self.values) else self.values[-1]


class Fibonacci(Capped):
    """``ceiling(n) = min(cap, base * f(n))`` with f = 1, 1, 2, 3, 5, 8, ..."""

    def __init__(
        self, base: Seconds = 0.1, *, cap: Seconds = 5.0, jitter: Jitter = "full", min: Seconds = 0.0
    ) -> None:
        super().__init__(base, cap=cap, jitter=jitter, min=min)
        steps = [self.base]
        before, current = 1, 1
        while steps[-1] < self.cap:  # 10 steps for the defaults, 3,026 for the widest span of floats
            steps.append(multiple(self.base, current, self.cap))
            before, current = current, before + current
        self._steps: tuple[float, ...] = tuple(steps)

    def _ceiling(self, n: int) -> float:
        return self._steps[n] if n < len(self._steps) else self.cap


class Decorrelated(Backoff):
    """``base + u * (min(cap, 3 * prev) - base)``: each wait is drawn between the base and thrice the last.

    ``clip="sample"`` draws first and clips after, ``min(cap, base + u * (3 * prev - base))``, as AWS
    first published it; its waits pile up at the cap. Either way every wait is in [base, cap].
    """

    def __init__(
        self, base: Seconds = 0.1, *, cap: Seconds = 5.0, clip: str = "range", min: Seconds = 0.0
    ) -> None:
        owner = type(self).__name__
        low, high, least = span(owner, base, cap, min)
        self.base: float = low
        self.cap: float = high
        self.clip = choice(owner, "clip", clip, ("range", "sample"))
        self.min: float = least

    def ceiling(self, n: int | Array) -> float:
        """The cap, for every ``n``: how far a wait can go depends on ``prev``, not on ``n``."""
        wait: float = per_n(type(self).__name__, lambda _: self.cap, n)
        return wait

    def delay(self, n: int | Array, prev: float | Array | None, u: float | Array) -> float:
        """The wait after one of ``prev`` seconds (``None``: the base). ``n`` plays no part."""
        if type(n) is int and type(u) is float and n >= 0 and 0.0 <= u <= 1.0:
            if prev is None:
                return self._wait(self.base, u, lesser, greater)
            if type(prev) is float and 0.0 <= prev <= LARGEST:
                return self._wait(prev, u, lesser, greater)
        wait: float = general(self, n, prev, u)
        return wait

    def many(self, np: Any, n: Array, prev: Array, u: Array) -> Array:
        self.ceiling(n)  # for its check of n
        return self._wait(self.base if prev is None else prev, u, np.minimum, np.maximum)

    def _wait(self, prev: float | Array, u: float | Array, lesser: Any, greater: Any) -> float:
        top, limit = self._reach(prev, lesser, greater)
        # At u = 1 rounding may carry the sum one step past the limit.
        wait: float = greater(self.min, lesser(limit, self.base + u * (top - self.base)))
        return wait

    def _reach(self, prev: float | Array, lesser: Any, greater: Any) -> tuple[Any, Any]:
        """Return the end of the range of the draw, and the limit of the wait."""
        top = greater(self.base, lesser(3.0 * prev, LARGEST))
        limit = lesser(self.cap, top)
        return (limit if self.clip == "range" else top), limit

    def bounds(self, n: int, prev: float | None = None) -> tuple[float, float]:
        """After a wait of ``prev`` seconds; ``None``: after the longest that n waits can have led to."""
        owner = type(self).__name__
        times = count(owner, "n", n, least=0)
        if prev is not None:
            return self.delay(n, prev, 0.0), self.delay(n, prev, 1.0)
        high = self.delay(0, None, 1.0)
        while times and high < self.cap:  # tripling meets any cap within 1,326 rounds
            high = self.delay(0, high, 1.0)
            times -= 1
        return self.delay(0, None, 0.0), high

    def mean(self, n: int, prev: float | None = None) -> float | None:
        """After a wait of ``prev`` seconds: half of base + min(cap, 3 * prev); less if samples are clipped.

        ``prev=None``: over all the ways that lead from the base to retry ``n``, which is
        base * (3 * 1.5**n - 1) as long as neither cap nor ``min`` can interfere; then ``None``.
        """
        owner = type(self).__name__
        times = count(owner, "n", n, least=0)
        if prev is None:
            if times and (self.min > self.base or self.bounds(times)[1] >= self.cap):
                return None
            prev = self.base * (2.0 * 1.5**times - 1.0)  # the mean of the wait before
        top, limit = self._reach(number(owner, "prev", prev, least=0.0), lesser, greater)
        return mean(self.base, top, self.min, limit)
