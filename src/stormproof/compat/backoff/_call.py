"""The rules of the loop, for functions and blocks, sync and async: when to stop, how long to wait.

`TriedCall.begin`, `returned` and `failed` are the one text of them: generators that yield each handler with
its argument and are sent its answer, so that the loops differ only in how they call and sleep.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from typing import Any

from ._clock import Stopwatch
from ._plan import Plan
from ._typing import Handler

Waits = Generator[Any, Any, Any]
Steps = Generator[tuple[Handler, Any], Any, bool]


class TriedCall:
    """One call of a decorated function, or one block: its tries so far, its clock and its waits."""

    def __init__(
        self,
        plan: Plan,
        target: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        maybe_call: Callable[[Any], Any],
        next_wait: Callable[..., Any],
        wall: Callable[[], Any],
    ) -> None:
        self._plan = plan
        self._max_tries = maybe_call(plan.max_tries)
        self._max_time = maybe_call(plan.max_time)
        self._next_wait = next_wait
        self._stopwatch = Stopwatch(wall)
        self._waits = start_waits(plan)
        # A block has no target.
        self._common = {} if target is None else {"target": target, "args": args, "kwargs": kwargs}
        self.tries = 0
        self.elapsed = 0.0
        self.wait: Any = None
        #: True if giving up raises the error of the last try.
        self.raises = True

    def read_elapsed(self) -> None:
        self.elapsed = self._stopwatch.elapsed()

    def begin(self) -> Steps:
        """Count a try that begins."""
        self.tries += 1
        yield from self._notify(self._plan.on_try)
        return True

    def returned(self, value: object) -> Steps:
        """Return True if a try that returned ``value`` is to be followed by another, after ``wait``."""
        predicate = self._plan.predicate
        if predicate is None:
            yield from self._notify(self._plan.on_success)
            return False
        if not (yield predicate, value):
            yield from self._notify(self._plan.on_success, value=value)
            return False
        return (yield from self._try_again(self._is_last(), value, value=value))

    def failed(self, error: BaseException) -> Steps:
        """Return True if a try that raised ``error`` is to be followed by another, after ``wait``."""
        stop = (yield self._plan.giveup, error) or self._is_last()
        self.raises = self._plan.raise_on_giveup or not stop
        return (yield from self._try_again(stop, error, exception=error))

    def _try_again(self, stop: object, outcome: object, **extra: object) -> Steps:
        if stop or not self._draw_wait(outcome):
            yield from self._notify(self._plan.on_giveup, **extra)
            return False
        yield from self._notify(self._plan.on_backoff, **extra, wait=self.wait)
        return True

    def _is_last(self) -> bool:
        """Return True if this was the last try: tries == max_tries, or elapsed >= max_time at its start."""
        if self.tries == self._max_tries:
            return True
        return self._max_time is not None and self.elapsed >= self._max_time

    def _draw_wait(self, outcome: object) -> bool:
        """Set ``wait`` to the next one; False if the generator has ended."""
        try:
            self.wait = self._next_wait(self._waits, outcome, self._plan.jitter, self.elapsed, self._max_time)
        except StopIteration:
            return False
        return True

    def _notify(
        self, handlers: tuple[Handler, ...], **extra: object
    ) -> Generator[tuple[Handler, Any], Any, None]:
        if not handlers:
            return
        details = {**self._common, "tries": self.tries, "elapsed": self.elapsed, **extra}
        for handler in handlers:
            yield handler, details


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
