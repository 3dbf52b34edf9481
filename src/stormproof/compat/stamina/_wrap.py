"""The decorator: one wrapper for each kind of function."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any

from ...presets.policy_of import make_readable
from ..tenacity._sync import call as call_sync
from ..tenacity.asyncio import call as call_async
from ._config import CONFIG
from ._core import _AsyncRetrying, _RetryContextIterator, _Retrying

if TYPE_CHECKING:
    from collections.abc import Callable


def wrap(context: _RetryContextIterator, fn: Callable[..., Any]) -> Any:
    """Return ``fn`` with the retries of ``context`` around it, readable by `stormproof.policy_of`."""
    wrapped = _wrap(context, fn)
    make_readable(wrapped, context.policy)
    return wrapped


def _wrap(context: _RetryContextIterator, fn: Callable[..., Any]) -> Any:
    if inspect.isgeneratorfunction(fn):
        return _wrap_generator(context, fn)
    if inspect.isasyncgenfunction(fn):
        return _wrap_async_generator(context, fn)
    if inspect.iscoroutinefunction(fn):
        return _wrap_coroutine(context, fn)
    retrying = _Retrying(**context.options)

    @wraps(fn)
    def sync_inner(*args: object, **kwargs: object) -> Any:
        if not CONFIG.is_active:
            return fn(*args, **kwargs)
        return call_sync(retrying, fn, args, kwargs, {})

    return sync_inner


def _wrap_coroutine(context: _RetryContextIterator, fn: Callable[..., Any]) -> Any:
    retrying = _AsyncRetrying(**context.options)

    @wraps(fn)
    async def async_inner(*args: object, **kwargs: object) -> Any:
        if not CONFIG.is_active:
            return await fn(*args, **kwargs)
        return await call_async(retrying, fn, args, kwargs, {})

    return async_inner


def _wrap_generator(context: _RetryContextIterator, fn: Callable[..., Any]) -> Any:
    @wraps(fn)
    def generator_inner(*args: object, **kwargs: object) -> Any:
        for attempt in context.of_call(fn, args, kwargs):
            with attempt:
                return (yield from fn(*args, **kwargs))

    return generator_inner


def _wrap_async_generator(context: _RetryContextIterator, fn: Callable[..., Any]) -> Any:
    @wraps(fn)
    async def async_generator_inner(*args: object, **kwargs: object) -> Any:
        async for attempt in context.of_call(fn, args, kwargs):
            with attempt:
                inner = fn(*args, **kwargs)
                try:
                    item = await anext(inner)
                    while True:
                        try:
                            sent = yield item
                        except GeneratorExit:
                            raise
                        except BaseException as error:
                            item = await inner.athrow(error)
                        else:
                            item = await inner.asend(sent)
                except StopAsyncIteration:
                    return
                finally:
                    await inner.aclose()

    return async_generator_inner
