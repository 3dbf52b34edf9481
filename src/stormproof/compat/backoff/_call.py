"""The rules of the loop, shared by the sync and the async one: when to stop, how long to wait."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from ._clock import Stopwatch

Handler = Callable[[Any], Any]
Waits = Generator[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """Options of one decorator."""

    wait_gen: Callable[..., Waits]
    wait_gen_kwargs: dict[str, Any]
    max_tries: object
    max_time: object
    jitter: Callable[..., Any] | None
    on_try: tuple[Handler, ...]
    on_success: tuple[Handler, ...]
    on_backoff: tuple[Handler, ...]
    on_giveup: tuple[Handler, ...]


class Call:
    """One call of a decorated function: its tries so far, its clock and its waits."""

    __slots__ = (
        "_common",
        "_jitter",
        "_max_time",
        "_max_tries",
        "_stopwatch",
        "_waits",
        "elapsed",
        "tries",
        "wait",
    )

    def __init__(
        self,
        plan: Plan,
        target: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        maybe_call: Callable[[Any], Any],
        wall: Callable[[], Any],
    ) -> None:
        self._max_tries = maybe_call(plan.max_tries)
        self._max_time = maybe_call(plan.max_time)
        self._stopwatch = Stopwatch(wall)
        self._waits = start_waits(plan)
        self._jitter = plan.jitter
        # A block has no target.
        self._common = {} if target is None else {"target": target, "args": args, "kwargs": kwargs}
        self.tries = 0
        self.elapsed = 0.0
        self.wait: Any = None

    def read_elapsed(self) -> None:
        self.elapsed = self._stopwatch.elapsed()

    def spent(self) -> bool:
        """Return True if this was the last try: tries == max_tries, or elapsed >= max_time at its start."""
        if self.tries == self._max_tries:
            return True
        return self._max_time is not None and self.elapsed >= self._max_time

    def draw_wait(self, next_wait: Callable[..., Any], outcome: object) -> bool:
        """Set ``wait`` to the next one; False if the generator has ended."""
        try:
            self.wait = next_wait(self._waits, outcome, self._jitter, self.elapsed, self._max_time)
        except StopIteration:
            return False
        return True

    def details(self, **extra: object) -> dict[str, Any]:
        """A new dict for the handlers of one event."""
        return {**self._common, "tries": self.tries, "elapsed": self.elapsed, **extra}


def maybe_call(value: object) -> Any:
    """``value``, or what it returns if it is callable."""
    return value() if callable(value) else value


def start_waits(plan: Plan) -> Waits:
    """A wait generator, its keywords resolved, advanced to its first ``yield``."""
    waits = plan.wait_gen(**{key: _resolve(value) for key, value in plan.wait_gen_kwargs.items()})
    waits.send(None)
    return waits


def _resolve(value: object) -> Any:
    # A callable may be a setting to look up now, or (runtime's ``value``) an argument in itself that needs a
    # parameter. Nothing but the attempt distinguishes them, wrapped callables included.
    if not callable(value):
        return value
    try:
        return value()
    except TypeError:
        return value


def next_wait(
    waits: Waits,
    outcome: object,
    jitter: Callable[..., Any] | None,
    elapsed: float,
    max_time: float | None,
) -> Any:
    """``min(jitter(next value), max_time - elapsed)``; StopIteration when the generator has ended."""
    value = waits.send(outcome)
    seconds = value if jitter is None else _jittered(jitter, value)
    if max_time is not None:
        seconds = min(seconds, max_time - elapsed)
    return seconds


def _jittered(jitter: Callable[..., Any], value: object) -> Any:
    try:
        return jitter(value)
    except TypeError as error:
        try:
            extra = jitter()
        except TypeError:
            raise error from None
    warnings.warn(
        "Nullary jitter function signature is deprecated: accept the wait in seconds and return the new one.",
        DeprecationWarning,
        stacklevel=2,
    )
    return value + extra
