"""Limits of a retry: ``stop_after_attempt(4) | stop_after_delay(30)``."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING

from ._state import RetryCallState
from ._utils import time_unit_type, to_seconds

if TYPE_CHECKING:
    import threading


class stop_base(abc.ABC):
    """Base of the stop conditions; ``|`` and ``&`` combine them."""

    @abc.abstractmethod
    def __call__(self, retry_state: RetryCallState) -> bool:
        """Return whether to stop after this outcome."""

    def __and__(self, other: stop_base) -> stop_all:
        return stop_all(self, other)

    def __or__(self, other: stop_base) -> stop_any:
        return stop_any(self, other)


StopBaseT = stop_base | Callable[[RetryCallState], bool]


class stop_any(stop_base):
    """Stop when one of ``stops`` says so."""

    def __init__(self, *stops: stop_base) -> None:
        self.stops = stops

    def __call__(self, retry_state: RetryCallState) -> bool:
        return any(stop(retry_state) for stop in self.stops)


class stop_all(stop_base):
    """Stop when all of ``stops`` say so."""

    def __init__(self, *stops: stop_base) -> None:
        self.stops = stops

    def __call__(self, retry_state: RetryCallState) -> bool:
        return all(stop(retry_state) for stop in self.stops)


class _stop_never(stop_base):
    def __call__(self, retry_state: RetryCallState) -> bool:
        return False


stop_never = _stop_never()


class stop_when_event_set(stop_base):
    """Stop when ``event`` is set."""

    def __init__(self, event: threading.Event) -> None:
        self.event = event

    def __call__(self, retry_state: RetryCallState) -> bool:
        return self.event.is_set()


class stop_after_attempt(stop_base):
    """Stop after ``max_attempt_number`` attempts."""

    def __init__(self, max_attempt_number: int) -> None:
        self.max_attempt_number = max_attempt_number

    def __call__(self, retry_state: RetryCallState) -> bool:
        return retry_state.attempt_number >= self.max_attempt_number


class stop_after_delay(stop_base):
    """Stop once ``max_delay`` has passed since the start of the call; the wait before that may end later."""

    def __init__(self, max_delay: time_unit_type) -> None:
        self.max_delay = to_seconds(max_delay)

    def __call__(self, retry_state: RetryCallState) -> bool:
        return _elapsed(retry_state) >= self.max_delay


class stop_before_delay(stop_base):
    """Stop when the next wait would end ``max_delay`` or more after the start of the call."""

    def __init__(self, max_delay: time_unit_type) -> None:
        self.max_delay = to_seconds(max_delay)

    def __call__(self, retry_state: RetryCallState) -> bool:
        return _elapsed(retry_state) + retry_state.upcoming_sleep >= self.max_delay


def _elapsed(retry_state: RetryCallState) -> float:
    seconds = retry_state.seconds_since_start
    if seconds is None:
        raise RuntimeError("stop was asked before there was an outcome: seconds_since_start is None")
    return seconds
