"""How long to wait before a retry: schedules and jitter, as pure formulas.

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
from itertools import count as counting

from .options import Options, choice, count, number, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Literal, TypeAlias

    from ._drive.chance import Rng
    from .classify import Verdict
    from .options import Seconds

    Array = Any
    Jitter: TypeAlias = "Literal['none', 'full', 'equal'] | Symmetric | Callable[[float, float], Any]"

#: No wait is longer than this, so that arithmetic at the far end stays finite.
LARGEST = math.nextafter(math.inf, 0.0)


#: A server's hint is spread by up to this share of itself, so that those it told do not return together.
_HINT_SPREAD = 0.1


def spread(own: float, hint: float, draw: Callable[[], float]) -> float:
    """The wait where a server asked for ``hint`` seconds: never shorter than that, nor than ``own``."""
    return max(own, hint * (1.0 + _HINT_SPREAD * draw()))


class Row(Options):
    """One retry in a preview: its bounds, its mean (``None``: not known) and the worst total so far."""

    __slots__ = _fields = ("n", "low", "mean", "high", "worst")
    n: int
    low: float
    mean: float | None
    high: float
    worst: float

    def __init__(self, n: int, low: float, mean: float | None, high: float, worst: float) -> None:
        self._set(n=n, low=low, mean=mean, high=high, worst=worst)

    def __iter__(self) -> Iterator[float | None]:
        return iter((self.n, self.low, self.mean, self.high, self.worst))


class Backoff(Options, ABC):
    """A rule for waits. Subclass it with ``delay`` and ``ceiling``; the rest follows from them.

    A subclass whose waits can pass ``ceiling`` overrides ``bounds`` too; one that knows its
    mean overrides ``mean``. Fields are stored with ``self._set(name=value)`` and listed in ``_fields``.
    """

    __slots__ = ()

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
        from ._drive.chance import source

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
    for n in counting():
        wait = rule.delay(n, wait, draw())
        yield wait


class Symmetric(Options):
    """Jitter of +- ``r`` around the ceiling: ``ceiling * (1 - r + 2 * r * u)``, mean = ceiling.

    0 <= r <= 1. ``r=0`` is no jitter at all; ``r=1`` reaches from 0 to twice the ceiling. The longest
    wait is (1 + r) * cap: the cap holds before the jitter, not after it.
    """

    __slots__ = _fields = ("r",)
    r: float

    def __init__(self, r: float = 0.5) -> None:
        self._set(r=number("Symmetric", "r", r, least=0.0, most=1.0))

    def __call__(self, u: Any, ceiling: Any) -> Any:
        return ceiling * (1 - self.r + 2 * self.r * u)


def _none(u: Any, ceiling: Any) -> Any:
    return ceiling


def _full(u: Any, ceiling: Any) -> Any:
    return u * ceiling


def _equal(u: Any, ceiling: Any) -> Any:
    return ceiling / 2 * (1 + u)


_JITTERS = {"none": _none, "full": _full, "equal": _equal}


def _checked(owner: str, jitter: Callable[[float, float], Any]) -> Callable[[float, float], float]:
    """A caller's own jitter, whose every answer is held to be a finite number >= 0."""

    def spread(u: float, ceiling: float) -> float:
        wait = jitter(u, ceiling)
        try:
            return seconds(owner, "jitter", wait)
        except (TypeError, ValueError):
            raise ValueError(
                f"{owner}: jitter must return a finite number of seconds >= 0, "
                f"got {wait!r} for u={u!r}, ceiling={ceiling!r}"
            ) from None

    return spread


def _spread_for(owner: str, jitter: Jitter) -> Callable[[Any, Any], Any]:
    if isinstance(jitter, str) and jitter in _JITTERS:
        return _JITTERS[jitter]
    if type(jitter) is Symmetric:
        return jitter.__call__
    # A class is callable too, but `jitter=Symmetric` is a forgotten pair of brackets.
    if callable(jitter) and not isinstance(jitter, type):
        return _checked(owner, jitter)
    kind = ValueError if isinstance(jitter, str) else TypeError
    raise kind(
        f"{owner}: jitter must be 'none', 'full', 'equal', a Symmetric(r) "
        f"or a callable (u, ceiling) -> wait, got {jitter!r}"
    )


class Jittered(Backoff):
    """A ceiling that depends on ``n`` alone, spread by ``jitter`` and lifted to ``min``.

    A callable jitter is given two floats and answers with the wait; nothing is known of its
    mean (``None``) or its upper bound (inf).
    """

    __slots__ = ("_known", "_spread", "jitter", "min")
    jitter: Jitter
    min: float
    _known: bool
    _spread: Callable[[Any, Any], Any]

    def __init__(self, jitter: Jitter, min: Seconds) -> None:
        owner = type(self).__name__
        spread = _spread_for(owner, jitter)
        known = isinstance(jitter, str) or type(jitter) is Symmetric
        self._set(jitter=jitter, min=seconds(owner, "min", min), _spread=spread, _known=known)

    @abstractmethod
    def _ceiling(self, n: int) -> float:
        """The ceiling for one whole ``n`` >= 0, finite however large ``n`` is."""

    def ceiling(self, n: int | Array) -> float:
        wait: float = _per_n(type(self).__name__, self._ceiling, n)
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
        general: float = _general(self, n, prev, u)
        return general

    def _many(self, np: Any, n: Array, prev: Array, u: Array) -> Array:
        ceilings = np.broadcast_to(self.ceiling(n), u.shape)
        if self._known:
            waits = self._spread(u, ceilings)
        else:
            pairs = zip(u.ravel().tolist(), ceilings.ravel().tolist(), strict=True)
            waits = np.array([self._spread(*pair) for pair in pairs], dtype=float).reshape(u.shape)
        return np.clip(waits, self.min, LARGEST)

    def bounds(self, n: int, prev: float | None = None) -> tuple[float, float]:
        """What the jitter gives at u = 0 and u = 1, lifted to ``min``; (min, inf) for a callable."""
        if not self._known:
            return self.min, math.inf
        return self.delay(n, prev, 0.0), self.delay(n, prev, 1.0)

    def mean(self, n: int, prev: float | None = None) -> float | None:
        """The mean wait before retry ``n``, ``min`` included; ``None`` for a callable jitter."""
        if not self._known:
            return None
        ceiling = self.ceiling(n)
        high = self._spread(1.0, ceiling)
        return _mean(self._spread(0.0, ceiling), min(high, LARGEST), self.min, LARGEST)


class Capped(Jittered):
    """A ceiling that rises from ``base`` to ``cap``: 0 < base <= cap, and ``min`` <= cap."""

    __slots__ = ("base", "cap")
    _fields: tuple[str, ...] = ("base", "cap", "jitter", "min")
    base: float
    cap: float

    def __init__(
        self, base: Seconds = 0.1, *, cap: Seconds = 5.0, jitter: Jitter = "full", min: Seconds = 0.0
    ) -> None:
        low, high, least = _span(type(self).__name__, base, cap, min)
        super().__init__(jitter, least)
        self._set(base=low, cap=high)


class Exponential(Capped):
    """``ceiling(n) = min(cap, base * factor**n)``. ``factor=1`` stays at the base."""

    __slots__ = ("factor",)
    _fields = ("base", "factor", "cap", "jitter", "min")
    factor: float

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
        self._set(factor=number(type(self).__name__, "factor", factor, least=1.0))

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

    __slots__ = ()

    def _ceiling(self, n: int) -> float:
        try:
            wait = self.base * (n + 1)
        except OverflowError:  # n itself fits no float
            return _multiple(self.base, n + 1, self.cap)
        return wait if wait < self.cap else self.cap


class Constant(Jittered):
    """``ceiling(n) = wait``. ``Constant(0)`` retries without waiting."""

    __slots__ = ("wait",)
    _fields = ("wait", "jitter", "min")
    wait: float

    def __init__(self, wait: Seconds, *, jitter: Jitter = "none", min: Seconds = 0.0) -> None:
        super().__init__(jitter, min)
        self._set(wait=seconds(type(self).__name__, "wait", wait))

    def _ceiling(self, n: int) -> float:
        return self.wait


class Schedule(Jittered):
    """``ceiling(n) = values[n]``; past the end the last value repeats. A value of 0 is no wait."""

    __slots__ = ("values",)
    _fields = ("values", "jitter", "min")
    values: tuple[float, ...]

    def __init__(self, values: Sequence[Seconds], *, jitter: Jitter = "none", min: Seconds = 0.0) -> None:
        owner = type(self).__name__
        # Only what can be indexed: an endless generator would hang here, a set has no order.
        if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__getitem__"):
            raise TypeError(f"{owner}: values must be a list of seconds, got {values!r}")
        steps = tuple(seconds(owner, f"values[{i}]", value) for i, value in enumerate(values))
        if not steps:
            raise ValueError(f"{owner}: values must hold at least one wait, got {values!r}")
        super().__init__(jitter, min)
        self._set(values=steps)

    def _ceiling(self, n: int) -> float:
        return self.values[n] if n < len(self.values) else self.values[-1]


class Fibonacci(Capped):
    """``ceiling(n) = min(cap, base * f(n))`` with f = 1, 1, 2, 3, 5, 8, ..."""

    __slots__ = ("_steps",)
    _steps: tuple[float, ...]

    def __init__(
        self, base: Seconds = 0.1, *, cap: Seconds = 5.0, jitter: Jitter = "full", min: Seconds = 0.0
    ) -> None:
        super().__init__(base, cap=cap, jitter=jitter, min=min)
        steps = [self.base]
        before, here = 1, 1
        while steps[-1] < self.cap:  # 10 steps for the defaults, 3,026 for the widest span of floats
            steps.append(_multiple(self.base, here, self.cap))
            before, here = here, before + here
        self._set(_steps=tuple(steps))

    def _ceiling(self, n: int) -> float:
        return self._steps[n] if n < len(self._steps) else self.cap


class Decorrelated(Backoff):
    """``base + u * (min(cap, 3 * prev) - base)``: each wait is drawn between the base and thrice the last.

    ``clip="sample"`` draws first and clips after, ``min(cap, base + u * (3 * prev - base))``, as AWS
    first published it; its waits pile up at the cap. Either way every wait is in [base, cap].
    """

    __slots__ = _fields = ("base", "cap", "clip", "min")
    base: float
    cap: float
    clip: str
    min: float

    def __init__(
        self, base: Seconds = 0.1, *, cap: Seconds = 5.0, clip: str = "range", min: Seconds = 0.0
    ) -> None:
        owner = type(self).__name__
        low, high, least = _span(owner, base, cap, min)
        self._set(base=low, cap=high, clip=choice(owner, "clip", clip, ("range", "sample")), min=least)

    def ceiling(self, n: int | Array) -> float:
        """The cap, for every ``n``: how far a wait can go depends on ``prev``, not on ``n``."""
        wait: float = _per_n(type(self).__name__, lambda _: self.cap, n)
        return wait

    def delay(self, n: int | Array, prev: float | Array | None, u: float | Array) -> float:
        """The wait after one of ``prev`` seconds (``None``: the base). ``n`` plays no part."""
        if type(n) is int and type(u) is float and n >= 0 and 0.0 <= u <= 1.0:
            if prev is None:
                return self._wait(self.base, u, _lesser, _greater)
            if type(prev) is float and 0.0 <= prev <= LARGEST:
                return self._wait(prev, u, _lesser, _greater)
        general: float = _general(self, n, prev, u)
        return general

    def _many(self, np: Any, n: Array, prev: Array, u: Array) -> Array:
        self.ceiling(n)  # for its check of n
        return self._wait(self.base if prev is None else prev, u, np.minimum, np.maximum)

    def _wait(self, prev: float | Array, u: float | Array, lesser: Any, greater: Any) -> float:
        top, limit = self._reach(prev, lesser, greater)
        # At u = 1 rounding may carry the sum one step past the limit.
        wait: float = greater(self.min, lesser(limit, self.base + u * (top - self.base)))
        return wait

    def _reach(self, prev: float | Array, lesser: Any, greater: Any) -> tuple[Any, Any]:
        """Where the draw ends, and where the wait is clipped."""
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
        top, limit = self._reach(number(owner, "prev", prev, least=0.0), _lesser, _greater)
        return _mean(self.base, top, self.min, limit)


# The scalar twins of numpy.minimum and numpy.maximum; min() and max() take three times as long.
def _lesser(a: float, b: float) -> float:
    return a if a < b else b


def _greater(a: float, b: float) -> float:
    return a if a > b else b


def _span(owner: str, base: Seconds, cap: Seconds, floor: Seconds) -> tuple[float, float, float]:
    """Base, cap and min in seconds, with 0 < base <= cap and 0 <= min <= cap."""
    low, high = seconds(owner, "base", base, above=0.0), seconds(owner, "cap", cap, above=0.0)
    least = seconds(owner, "min", floor)
    for field, value, given in (("base", low, base), ("min", least, floor)):
        if value > high:
            raise ValueError(f"{owner}: {field} must be <= cap ({high!r} seconds), got {given!r}")
    return low, high, least


def _multiple(base: float, times: int, cap: float) -> float:
    """``min(cap, base * times)``, rounded once, for whole ``times`` that may fit no float."""
    top, bottom = base.as_integer_ratio()
    limit, unit = cap.as_integer_ratio()
    return top * times / bottom if top * times * unit < limit * bottom else cap


def _mean(low: float, high: float, least: float, most: float) -> float:
    """The mean of ``max(least, min(most, x))`` for x uniform on [low, high], where low <= most."""
    if least >= min(high, most):
        return least
    mean = low + (high - low) / 2
    if least > low:
        mean += (least - low) * ((least - low) / (high - low)) / 2
    if most < high:
        mean -= (high - most) * ((high - most) / (high - low)) / 2
    return mean


def _per_n(owner: str, rule: Callable[[int], float], n: Any) -> Any:
    """``rule`` of one whole ``n`` >= 0, or of each in an array, worked out once for every distinct one."""
    if not getattr(n, "shape", ()):
        return rule(count(owner, "n", n, least=0))
    import numpy as np

    if n.dtype.kind not in "iu":
        raise TypeError(f"{owner}: n must be whole numbers, got an array of {n.dtype}")
    distinct, where = np.unique(n, return_inverse=True)
    table = [rule(count(owner, "n", value, least=0)) for value in distinct.tolist()]
    return np.array(table, dtype=float)[where].reshape(n.shape)


def _general(rule: Jittered | Decorrelated, n: Any, prev: Any, u: Any) -> Any:
    """``delay`` for what its short way does not take: arrays, other kinds of number, and errors."""
    owner = type(rule).__name__
    if not any(getattr(value, "shape", ()) for value in (n, prev, u)):
        last = None if prev is None else number(owner, "prev", prev, least=0.0)
        return rule.delay(count(owner, "n", n, least=0), last, number(owner, "u", u, least=0.0, most=1.0))
    import numpy as np

    before: Any = None if prev is None else _floats(np, owner, "prev", prev, LARGEST)
    draws = _floats(np, owner, "u", u, 1.0)
    shape = np.broadcast_shapes(np.shape(n), np.shape(before), draws.shape)
    with np.errstate(over="ignore"):  # as floats do; the clip that follows brings inf back
        return rule._many(np, n, before, np.broadcast_to(draws, shape))


def _floats(np: Any, owner: str, field: str, value: Any, most: float) -> Array:
    array = np.asarray(value, dtype=float)
    wrong = array[~((array >= 0.0) & (array <= most))]
    if wrong.size:
        raise ValueError(f"{owner}: {field} must be >= 0 and <= {most:g}, got {float(wrong.flat[0])!r}")
    return array
