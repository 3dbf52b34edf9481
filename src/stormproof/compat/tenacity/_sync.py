"""The retry object for functions, and for blocks: ``for attempt in Retrying(...)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._retrying import BaseRetrying, begin_call, copy_names, run_hooks, state_of
from ._state import DoSleep, RetryCallState


class Retrying(BaseRetrying):
    """Retries a function: ``Retrying(stop=...)(fn, *args)``, or a block: ``for attempt in Retrying(...)``."""

    def __call__(self, fn: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        self._latest[0] = None
        return call(self, fn, args, kwargs, self.statistics)

    def wraps(self, f: Callable[..., Any]) -> Any:
        """Return ``f`` with this retry around it, as its ``retry``; its ``retry_with`` makes another."""
        if type(self).__call__ is not Retrying.__call__:
            return super().wraps(f)
        statistics: dict[str, Any] = {}
        latest = self._latest

        @copy_names(f)
        def wrapped_f(*args: object, **kwargs: object) -> Any:
            latest[0] = statistics
            return call(self, f, args, kwargs, statistics)

        wrapped_f.statistics = statistics
        return self._dress(f, wrapped_f)


def call(
    retrying: BaseRetrying,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    statistics: dict[str, Any],
) -> Any:
    """Call ``fn``; one that returns costs little more than the function itself."""
    if not retrying.enabled:
        return fn(*args, **kwargs)
    begin_call(retrying, statistics)
    if not retrying.is_direct:
        return run(retrying, state_of(retrying, fn, args, kwargs, statistics))
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:
        state = state_of(retrying, fn, args, kwargs, statistics)
        state.set_exception((type(error), error, error.__traceback__))
    else:
        if retrying.budget is not None:
            retrying.budget.success()
        return result
    try:
        # Outside the except block: errors of the next attempts must not have this one as context.
        return run(retrying, state)
    finally:
        del state


def run(retrying: BaseRetrying, state: RetryCallState) -> Any:
    """Run the loop of one call from where ``state`` is."""
    fn = state.fn
    assert fn is not None
    try:
        while True:
            kind, value = run_hooks(retrying.decide(state), state)
            if kind == "attempt":
                try:
                    result = fn(*state.args, **state.kwargs)
                except BaseException as error:
                    state.set_exception((type(error), error, error.__traceback__))
                else:
                    state.set_result(result)
            elif kind == "sleep":
                retrying.pause(state, DoSleep(value))
            elif kind == "return":
                return value
            else:
                raise value
    finally:
        # The error's traceback refers to this frame, and would keep what refers to the error alive.
        del state
        value = None
