"""Wait generators: each yields the seconds to wait after one more failed try.

The decorators prime a generator with ``send(None)`` and then send it the returned value or the raised error
of every failed try. Whatever the first ``yield`` gives is therefore dropped, in these and in a user's own.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Generator, Iterable
from typing import Any

_LARGEST = sys.float_info.max


def expo(base: float = 2, factor: float = 1, max_value: float | None = None) -> Generator[float, Any, None]:
    """``min(max_value, factor * base**n)`` for n = 0, 1, 2, ...

    ``max_value=None`` means no cap; the wait then stops growing at the largest float.
    """
    yield  # type: ignore[misc]
    n = 0
    while True:
        power = _power(base, n)
        value = _times(factor, power)
        if max_value is not None and not value < max_value:
            yield max_value
            continue
        yield value
        if power < _LARGEST:
            n += 1


def decay(
    initial_value: float = 1, decay_factor: float = 1, min_value: float | None = None
) -> Generator[float, Any, None]:
    """``max(min_value, initial_value * e**(-decay_factor * n))`` for n = 0, 1, 2, ...: shorter each time."""
    yield  # type: ignore[misc]
    for n in itertools.count():
        value = initial_value * math.exp(-n * decay_factor)
        yield value if min_value is None or value > min_value else min_value


def fibo(max_value: int | None = None) -> Generator[float, Any, None]:
    """``min(max_value, F(n))`` over the Fibonacci numbers 1, 1, 2, 3, 5, ...

    ``max_value=None`` means no cap; the wait then stops growing at the largest float.
    """
    yield  # type: ignore[misc]
    current, following = 1, 1
    while True:
        value = _finite(current)
        if max_value is not None and not value < max_value:
            yield max_value
            continue
        yield value
        if value < _LARGEST:
            current, following = following, current + following


def constant(interval: float | Iterable[float] = 1) -> Generator[float, Any, None]:
    """``interval`` for ever, or each value of an iterable once: when it ends, the call gives up."""
    yield  # type: ignore[misc]
    waits: Iterable[float]
    try:
        waits = iter(interval)  # type: ignore[arg-type]
    except TypeError:
        waits = itertools.repeat(interval)  # type: ignore[arg-type]
    # Not "yield from": that would pass the sent outcome on to an iterator without send().
    for wait in waits:  # noqa: UP028
        yield wait


def runtime(*, value: Callable[[Any], float]) -> Generator[float, Any, None]:
    """``value(outcome)``: the wait is read from the returned value or the raised error."""
    outcome = yield  # type: ignore[misc]
    while True:
        outcome = yield value(outcome)


def _power(base: float, n: int) -> float:
    try:
        return _finite(base**n)
    except OverflowError:
        return _LARGEST


def _times(factor: float, power: float) -> float:
    try:
        return _finite(factor * power)
    except OverflowError:
        return _LARGEST


def _finite(value: float) -> float:
    """``value``, or the largest float if it is greater than that (an int may be)."""
    try:
        return _LARGEST if math.isinf(value) else value
    except OverflowError:
        return _LARGEST
