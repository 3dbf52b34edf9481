"""Waits of a retry: ``wait_fixed(3) + wait_random(0, 2)``."""

from __future__ import annotations

import abc
import math

# The whole module: tests replace random.uniform.
import random
import warnings
from collections.abc import Callable
from typing import Any

from ._state import RetryCallState
from ._utils import MAX_WAIT, time_unit_type, to_seconds


class wait_base(abc.ABC):
    """Base of the wait strategies; ``+`` adds them up."""

    @abc.abstractmethod
    def __call__(self, retry_state: RetryCallState) -> float:
        """Return the seconds to wait after this outcome."""

    def __add__(self, other: WaitBaseT) -> wait_combine:
        return wait_combine(self, other)

    def __radd__(self, other: object) -> wait_base:
        if not callable(other):
            # sum() starts at 0.
            return self if other == 0 else NotImplemented
        strategy: Any = other
        return wait_combine(strategy, self)


WaitBaseT = wait_base | Callable[[RetryCallState], float | int]


class wait_fixed(wait_base):
    """Wait ``wait`` every time."""

    def __init__(self, wait: time_unit_type) -> None:
        self.wait_fixed = to_seconds(wait)

    def __call__(self, retry_state: RetryCallState) -> float:
        return self.wait_fixed


class wait_none(wait_fixed):
    """Do not wait."""

    def __init__(self) -> None:
        super().__init__(0)


class wait_random(wait_base):
    """Wait a random time between ``min`` and ``max``."""

    def __init__(self, min: time_unit_type = 0, max: time_unit_type = 1) -> None:
        self.wait_random_min = to_seconds(min)
        self.wait_random_max = to_seconds(max)

    def __call__(self, retry_state: RetryCallState) -> float:
        span = self.wait_random_max - self.wait_random_min
        return self.wait_random_min + random.random() * span


class wait_combine(wait_base):
    """Wait the sum of ``strategies``."""

    def __init__(self, *strategies: WaitBaseT) -> None:
        self.wait_funcs = strategies

    def __call__(self, retry_state: RetryCallState) -> float:
        return sum(strategy(retry_state) for strategy in self.wait_funcs)


class wait_chain(wait_base):
    """Wait by the n-th of ``strategies`` after the n-th attempt, and by the last one from then on."""

    def __init__(self, *strategies: WaitBaseT) -> None:
        if not strategies:
            raise ValueError("wait_chain: strategies must be at least one, got none")
        self.strategies = strategies

    def __call__(self, retry_state: RetryCallState) -> float:
        place = min(max(retry_state.attempt_number, 1), len(self.strategies))
        return self.strategies[place - 1](retry_state)


class wait_exception(wait_base):
    """Wait what ``predicate`` reads from the exception."""

    def __init__(self, predicate: Callable[[BaseException], float]) -> None:
        self.predicate = predicate

    def __call__(self, retry_state: RetryCallState) -> float:
        outcome = retry_state.outcome
        error = None if outcome is None else outcome.exception()
        if error is None:
            raise RuntimeError("wait_exception was asked about an attempt that did not raise")
        return self.predicate(error)


class wait_incrementing(wait_base):
    """Wait ``start``, then ``increment`` longer each time, at most ``max``."""

    def __init__(
        self,
        start: time_unit_type = 0,
        increment: time_unit_type = 100,
        max: time_unit_type = MAX_WAIT,
    ) -> None:
        self.start = to_seconds(start)
        self.increment = to_seconds(increment)
        self.max = to_seconds(max)

    def __call__(self, retry_state: RetryCallState) -> float:
        return max(0.0, min(self.start + self.increment * (retry_state.attempt_number - 1), self.max))


class wait_exponential(wait_base):
    """Wait ``multiplier * exp_base ** (attempt - 1)``, between ``min`` and ``max``. No jitter."""

    def __init__(
        self,
        multiplier: float = 1,
        max: time_unit_type = MAX_WAIT,
        exp_base: float = 2,
        min: time_unit_type = 0,
    ) -> None:
        self.multiplier = multiplier
        self.min = to_seconds(min)
        self.max = to_seconds(max)
        self.exp_base = exp_base

    def __call__(self, retry_state: RetryCallState) -> float:
        seconds = _exponential(self.multiplier, self.exp_base, retry_state.attempt_number - 1, self.max)
        return max(0.0, self.min, seconds)


class wait_random_exponential(wait_exponential):
    """Wait a random time between ``min`` and what `wait_exponential` would wait: full jitter."""

    def __call__(self, retry_state: RetryCallState) -> float:
        return random.uniform(self.min, super().__call__(retry_state=retry_state))


class wait_exponential_jitter(wait_base):
    """Wait ``multiplier * exp_base ** (attempt - 1)`` and up to ``jitter`` more, between ``min`` and ``max``.

    ``initial`` is the former name of ``multiplier``.
    """

    def __init__(
        self,
        initial: float = 1,
        max: time_unit_type = MAX_WAIT,
        exp_base: float = 2,
        jitter: time_unit_type = 1,
        min: time_unit_type = 0,
        multiplier: float = 1,
    ) -> None:
        if initial != 1:
            if multiplier != 1:
                raise ValueError("wait_exponential_jitter: give multiplier or initial, not both")
            warnings.warn("initial is deprecated: use multiplier", DeprecationWarning, stacklevel=2)
            multiplier = initial
        self.multiplier = self.initial = multiplier
        self.max = to_seconds(max)
        self.exp_base = exp_base
        self.jitter = to_seconds(jitter)
        self.min = to_seconds(min)

    def __call__(self, retry_state: RetryCallState) -> float:
        exponential = _exponential(self.multiplier, self.exp_base, retry_state.attempt_number - 1, self.max)
        return max(0.0, self.min, min(exponential + random.uniform(0, self.jitter), self.max))


def _exponential(multiplier: float, base: float, exponent: int, limit: float) -> float:
    """Return ``multiplier * base ** exponent``, at most ``limit``; huge powers are not computed."""
    if multiplier > 0 and base > 1 and limit > 0:
        if exponent * math.log(base) > math.log(limit) - math.log(multiplier) + 1:
            return limit
    try:
        return min(multiplier * base**exponent, limit)
    except OverflowError:
        return limit
