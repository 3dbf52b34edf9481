"""The retry object for coroutine functions, under asyncio and trio."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ...._drivers.aio import sleep as _portable_async_sleep
from .._attempts import AttemptManager
from .._retrying import BaseRetrying, as_action, begin_call, copy_names, state_of, wrap
from .._state import DoAttempt, DoSleep, RetryCallState
from .._state import RetryError as RetryError
from ..after import after_nothing as after_nothing
from ..before import before_nothing as before_nothing
from .retry import RetryBaseT, retry_all, retry_any, retry_if_exception, retry_if_result

if TYPE_CHECKING:
    from collections.abc import Generator

    from .._retrying import Step

__all__ = [
    "AsyncRetrying",
    "RetryBaseT",
    "WrappedFn",
    "retry_all",
    "retry_any",
    "retry_if_exception",
    "retry_if_result",
]

WrappedFn = Any


class AsyncRetrying(BaseRetrying):
    """Retries a coroutine function, or a block: ``async for attempt in AsyncRetrying(...)``.

    Every hook and strategy may be a coroutine function.
    """

    default_sleep = staticmethod(_portable_async_sleep)

    async def __call__(self, fn: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        self._latest[0] = None
        return await call(self, fn, args, kwargs, self.statistics)

    def wraps(self, f: Callable[..., Any]) -> Any:
        """Return ``f`` with this retry around it: a coroutine function, whatever ``f`` is."""
        if type(self).__call__ is not AsyncRetrying.__call__:
            return self._dress(f, _awaiting(wrap(self, f)))
        statistics: dict[str, Any] = {}
        latest = self._latest

        @copy_names(f)
        async def async_wrapped(*args: object, **kwargs: object) -> Any:
            latest[0] = statistics
            return await call(self, f, args, kwargs, statistics)

        async_wrapped.statistics = statistics
        return self._dress(f, async_wrapped)

    async def iter(self, retry_state: RetryCallState) -> Any:
        """Return what follows from the state: a `DoAttempt`, a `DoSleep`, or the result of the call."""
        return as_action(await run_hooks(self.decide(retry_state), retry_state))

    def __iter__(self) -> Any:
        raise TypeError("AsyncRetrying object is not iterable: use async for")

    def __aiter__(self) -> AsyncIterator[AttemptManager]:
        self.begin()
        return _Attempts(self)


class _Attempts:
    """The attempts of one block. Not a generator: one left early would be closed at some later time."""

    def __init__(self, retrying: AsyncRetrying) -> None:
        self._retrying = retrying
        self._state = RetryCallState(retrying, fn=None, args=(), kwargs={})

    def __aiter__(self) -> _Attempts:
        return self

    async def __anext__(self) -> AttemptManager:
        while True:
            action = await self._retrying.iter(retry_state=self._state)
            if isinstance(action, DoAttempt):
                return AttemptManager(retry_state=self._state)
            if not isinstance(action, DoSleep):
                raise StopAsyncIteration
            await _settled(self._retrying.pause(self._state, action))


async def _settled(answer: object) -> Any:
    """Return ``answer``, awaited if it can be."""
    return await answer if inspect.isawaitable(answer) else answer


async def run_hooks(steps: Generator[Callable[..., Any], Any, Step], state: RetryCallState) -> Step:
    """Call what ``steps`` yields, with ``state``, await what can be, and return what follows."""
    answer: object = None
    while True:
        try:
            hook = steps.send(answer)
        except StopIteration as done:
            step: Step = done.value
            return step
        answer = hook(state)
        if inspect.isawaitable(answer):
            answer = await answer


async def call(
    retrying: BaseRetrying,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    statistics: dict[str, Any],
) -> Any:
    """Await ``fn``; one that returns costs little more than the function itself."""
    if not retrying.enabled:
        return await _settled(fn(*args, **kwargs))
    begin_call(retrying, statistics)
    if not retrying.is_direct:
        return await run(retrying, state_of(retrying, fn, args, kwargs, statistics))
    try:
        result = fn(*args, **kwargs)
        if type(result) is CoroutineType or inspect.isawaitable(result):
            result = await result
    except BaseException as error:
        state = state_of(retrying, fn, args, kwargs, statistics)
        state.set_exception((type(error), error, error.__traceback__))
    else:
        if retrying.budget is not None:
            retrying.budget.success()
        return result
    try:
        # Outside the except block: errors of the next attempts must not have this one as context.
        return await run(retrying, state)
    finally:
        del state


async def run(retrying: BaseRetrying, state: RetryCallState) -> Any:
    """Run the loop of one call from where ``state`` is."""
    fn = state.fn
    assert fn is not None
    try:
        while True:
            kind, value = await run_hooks(retrying.decide(state), state)
            if kind == "attempt":
                try:
                    result = fn(*state.args, **state.kwargs)
                    if inspect.isawaitable(result):
                        result = await result
                except BaseException as error:
                    state.set_exception((type(error), error, error.__traceback__))
                else:
                    state.set_result(result)
            elif kind == "sleep":
                await _settled(retrying.pause(state, DoSleep(value)))
            elif kind == "return":
                return value
            else:
                raise value
    finally:
        # The error's traceback refers to this frame, and would keep what refers to the error alive.
        del state
        value = None


def _awaiting(wrapped: Any) -> Any:
    @copy_names(wrapped)
    async def async_wrapped(*args: object, **kwargs: object) -> Any:
        return await _settled(wrapped(*args, **kwargs))

    return async_wrapped
