"""Blocks: ``for attempt in retry_context(ValueError, expo): with attempt: ...``."""

from __future__ import annotations

# Whole modules: tests replace time.sleep and asyncio.sleep.
import asyncio
import datetime
import logging
import time
from typing import TYPE_CHECKING, Any

from . import _log
from ._async import _notify as _notify_async
from ._async import _settle
from ._call import Call, Plan, maybe_call, next_wait
from ._handlers import handlers, refuse_coroutine_functions
from ._jitter import full_jitter
from ._sync import _notify
from ._wait_gen import expo

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable
    from types import TracebackType

    from ._typing import (
        _ContextHandler,
        _Jitterer,
        _MaybeCallable,
        _MaybeLogger,
        _MaybeSequence,
        _WaitGenerator,
    )


class Attempt:
    """One try of a block: a context manager that catches ``exception_types`` and keeps the error."""

    __slots__ = ("exception", "exception_types")

    def __init__(self, exception_types: Any) -> None:
        self.exception_types = exception_types
        self.exception: BaseException | None = None

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if exc_value is None or not isinstance(exc_value, self.exception_types):
            return False
        self.exception = exc_value
        return True


def _never(_error: BaseException) -> bool:
    return False


def retry_context(
    exception: _MaybeSequence[type[BaseException]] = Exception,
    wait_gen: _WaitGenerator = expo,
    *,
    max_tries: _MaybeCallable[int] | None = None,
    max_time: _MaybeCallable[float] | None = None,
    jitter: _Jitterer | None = full_jitter,
    giveup: Callable[[Any], Any] = _never,
    on_try: _ContextHandler | Iterable[_ContextHandler] | None = None,
    on_success: _ContextHandler | Iterable[_ContextHandler] | None = None,
    on_backoff: _ContextHandler | Iterable[_ContextHandler] | None = None,
    on_giveup: _ContextHandler | Iterable[_ContextHandler] | None = None,
    raise_on_giveup: bool = True,
    logger: _MaybeLogger = "backoff",
    backoff_log_level: int = logging.INFO,
    giveup_log_level: int = logging.ERROR,
    **wait_gen_kwargs: object,
) -> Generator[Attempt, None, None]:
    """Yield the tries of a block, which is run again while it raises ``exception``.

    The options are those of ``on_exception``. Handlers are given a ``ContextDetails`` dict, whose ``elapsed``
    is read after each try.
    """
    hooks = (on_try, on_success, on_backoff, on_giveup)
    levels = (backoff_log_level, giveup_log_level)
    plan = _plan(wait_gen, wait_gen_kwargs, max_tries, max_time, jitter, hooks, logger, levels)
    return _attempts(plan, _types(exception), giveup, raise_on_giveup)


def aretry_context(
    exception: _MaybeSequence[type[BaseException]] = Exception,
    wait_gen: _WaitGenerator = expo,
    *,
    max_tries: _MaybeCallable[int] | None = None,
    max_time: _MaybeCallable[float] | None = None,
    jitter: _Jitterer | None = full_jitter,
    giveup: Callable[[Any], Any] = _never,
    on_try: _ContextHandler | Iterable[_ContextHandler] | None = None,
    on_success: _ContextHandler | Iterable[_ContextHandler] | None = None,
    on_backoff: _ContextHandler | Iterable[_ContextHandler] | None = None,
    on_giveup: _ContextHandler | Iterable[_ContextHandler] | None = None,
    raise_on_giveup: bool = True,
    logger: _MaybeLogger = "backoff",
    backoff_log_level: int = logging.INFO,
    giveup_log_level: int = logging.ERROR,
    **wait_gen_kwargs: object,
) -> AsyncGenerator[Attempt, None]:
    """Yield the tries of a block in a coroutine: `retry_context` for ``async for``."""
    hooks = (on_try, on_success, on_backoff, on_giveup)
    levels = (backoff_log_level, giveup_log_level)
    plan = _plan(wait_gen, wait_gen_kwargs, max_tries, max_time, jitter, hooks, logger, levels)
    return _async_attempts(plan, _types(exception), giveup, raise_on_giveup)


def _wall() -> Any:
    return datetime.datetime


def _types(exception: Any) -> Any:
    return exception if isinstance(exception, type) else tuple(exception)


def _plan(
    wait_gen: Any,
    wait_gen_kwargs: dict[str, Any],
    max_tries: object,
    max_time: object,
    jitter: Any,
    hooks: tuple[Any, Any, Any, Any],
    logger: _MaybeLogger,
    levels: tuple[int, int],
) -> Plan:
    on_try, on_success, on_backoff, on_giveup = hooks
    plan = Plan(
        wait_gen=wait_gen,
        wait_gen_kwargs=wait_gen_kwargs,
        max_tries=max_tries,
        max_time=max_time,
        jitter=jitter,
        on_try=handlers("on_try", on_try),
        on_success=handlers("on_success", on_success),
        on_backoff=handlers("on_backoff", on_backoff, _log.backoff_handler(logger, levels[0])),
        on_giveup=handlers("on_giveup", on_giveup, _log.giveup_handler(logger, levels[1])),
    )
    refuse_coroutine_functions("retry_context", plan)
    return plan


def _attempts(
    plan: Plan, types: object, giveup: Any, raise_on_giveup: bool
) -> Generator[Attempt, None, None]:
    call = Call(plan, None, (), {}, maybe_call=maybe_call, wall=_wall)
    while True:
        call.tries += 1
        _notify(plan.on_try, call.details())
        attempt = Attempt(types)
        yield attempt
        call.read_elapsed()
        error = attempt.exception
        if error is None:
            _notify(plan.on_success, call.details())
            return
        stop = giveup(error) or call.spent()
        if stop or not call.draw_wait(next_wait, error):
            _notify(plan.on_giveup, call.details(exception=error))
            if raise_on_giveup or not stop:
                raise error
            return
        _notify(plan.on_backoff, call.details(exception=error, wait=call.wait))
        time.sleep(call.wait)


async def _async_attempts(
    plan: Plan, types: object, giveup: Any, raise_on_giveup: bool
) -> AsyncGenerator[Attempt, None]:
    call = Call(plan, None, (), {}, maybe_call=maybe_call, wall=_wall)
    while True:
        call.tries += 1
        await _notify_async(plan.on_try, call.details())
        attempt = Attempt(types)
        yield attempt
        call.read_elapsed()
        error = attempt.exception
        if error is None:
            await _notify_async(plan.on_success, call.details())
            return
        stop = await _settle(giveup(error)) or call.spent()
        if stop or not call.draw_wait(next_wait, error):
            await _notify_async(plan.on_giveup, call.details(exception=error))
            if raise_on_giveup or not stop:
                raise error
            return
        await _notify_async(plan.on_backoff, call.details(exception=error, wait=call.wait))
        await asyncio.sleep(call.wait)
