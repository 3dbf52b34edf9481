"""The arithmetic of waits, for one number or an array of them. NumPy is imported when an array comes in."""

from __future__ import annotations

import math

from ...._primitives.options import count, number, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ...._primitives.options import Seconds

    class ArraySchedule(Protocol):
        """A schedule whose formula also takes arrays."""

        def delay(self, n: Any, prev: Any, u: Any) -> Any: ...

        def many(self, np: Any, n: Any, prev: Any, u: Any) -> Any: ...


#: No wait is longer than this, so that arithmetic at the far end stays finite.
LARGEST = math.nextafter(math.inf, 0.0)


#: A server's hint is spread by up to this share of itself, so that its clients do not return together.
_HINT_SPREAD = 0.1


def spread(own: float, hint: float, draw: Callable[[], float]) -> float:
    """The wait where a server asked for ``hint`` seconds: never shorter than that, nor than ``own``."""
    return max(own, hint * (1.0 + _HINT_SPREAD * draw()))


# The scalar twins of numpy.minimum and numpy.maximum; min() and max() take three times as long.
def lesser(a: float, b: float) -> float:
    return a if a < b else b


def greater(a: float, b: float) -> float:
    return a if a > b else b


def span(owner: str, base: Seconds, cap: Seconds, floor: Seconds) -> tuple[float, float, float]:
    """Base, cap and min in seconds, with 0 < base <= cap and 0 <= min <= cap."""
    low, high = seconds(owner, "base", base, above=0.0), seconds(owner, "cap", cap, above=0.0)
    least = seconds(owner, "min", floor)
    for field, value, given in (("base", low, base), ("min", least, floor)):
        if value > high:
            raise ValueError(f"{owner}: {field} must be <= cap ({high!r} seconds), got {given!r}")
    return low, high, least


def multiple(base: float, times: int, cap: float) -> float:
    """``min(cap, base * times)``, rounded once, for whole ``times`` that may fit no float."""
    top, bottom = base.as_integer_ratio()
    limit, unit = cap.as_integer_ratio()
    return top * times / bottom if top * times * unit < limit * bottom else cap


def mean(low: float, high: float, least: float, most: float) -> float:
    """The mean of ``max(least, min(most, x))`` for x uniform on [low, high], where low <= most."""
    if least >= min(high, most):
        return least
    mean = low + (high - low) / 2
    if least > low:
        mean += (least - low) * ((least - low) / (high - low)) / 2
    if most < high:
        mean -= (high - most) * ((high - most) / (high - low)) / 2
    return mean


def per_n(owner: str, rule: Callable[[int], float], n: Any) -> Any:
    """``rule`` of one whole ``n`` >= 0, or of each in an array, worked out once for every distinct one."""
    if not getattr(n, "shape", ()):
        return rule(count(owner, "n", n, least=0))
    import numpy as np

    if n.dtype.kind not in "iu":
        raise TypeError(f"{owner}: n must be whole numbers, got an array of {n.dtype}")
    distinct, where = np.unique(n, return_inverse=True)
    table = [rule(count(owner, "n", value, least=0)) for value in distinct.tolist()]
    return np.array(table, dtype=float)[where].reshape(n.shape)


def general(rule: ArraySchedule, n: Any, prev: Any, u: Any) -> Any:
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
        return rule.many(np, n, before, np.broadcast_to(draws, shape))


def _floats(np: Any, owner: str, field: str, value: Any, most: float) -> Any:
    array = np.asarray(value, dtype=float)
    wrong = array[~((array >= 0.0) & (array <= most))]
    if wrong.size:
        raise ValueError(f"{owner}: {field} must be >= 0 and <= {most:g}, got {float(wrong.flat[0])!r}")
    return array
