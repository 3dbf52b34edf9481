"""Blocks: ``for attempt in retry_context(ValueError, expo): with attempt: ...``."""

from __future__ import annotations

# Whole modules: tests replace time.sleep and asyncio.sleep.
import asyncio
import datetime
import logging
import time
from typing import TYPE_CHECKING, Any

from ._async import follow as follow_async
from ._call import TriedCall, maybe_call, next_wait
from ._jitter import full_jitter
from ._plan import make_plan, never
from ._sync import follow
from ._wait_gen import expo

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable

    from ._plan import Plan
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

    def __init__(self, exception_types: Any) -> None:
        self.exception_types = exception_types
        self.exception: BaseException | None = None

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, exc_type: object, exc_value: BaseException | None, traceback: object) -> bool:
        if exc_value is None or not isinstance(exc_value, self.exception_types):
            return False
        self.exception = exc_value
        return True


def retry_context(
    exception: _MaybeSequence[type[BaseException]] = Exception,
    wait_gen: _WaitGenerator = expo,
    *,
    max_tries: _MaybeCallable[int] | None = None,
    max_time: _MaybeCallable[float] | None = None,
    jitter: _Jitterer | None = full_jitter,
    giveup: Callable[[Any], Any] = never,
    on_try: _ContextHandler | Iterable[_ContextHandler] | None = None,
    on_success: _ContextHandler | Iterable[_ContextHandler] | None = None,
    on_backoff: _ContextHandler | Iterable[_ContextHandler] | None = None,
    on_giveup: _ContextHandler | Iterable[_ContextHandler] | None = None,
    raise_on_giveup: bool = True,
    logger: _MaybeLogger = "backoff",
    backoff_log_level: int = logging.INFO,
    giveup_log_level: int = logging.ERROR,
    **wait_gen_kwargs: object,
) -> Tries:
    """Return the tries of a block, which is run again while it raises ``exception``.

    The options are those of ``on_exception``. Handlers are given a ``ContextDetails`` dict, whose ``elapsed``
    is read after each try.
    """
    return Tries(make_plan("retry_context", **locals()))


aretry_context = retry_context


class Tries:
    """The tries of one block: ``for``, or ``async for`` in a coroutine."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __iter__(self) -> Generator[Attempt, None, None]:
        call = self._call()
        while True:
            follow(call.begin())
            attempt = Attempt(self._plan.exception)
            yield attempt
            call.read_elapsed()
            if attempt.exception is None:
                follow(call.returned(None))
                return
            if not follow(call.failed(attempt.exception)):
                if call.raises:
                    raise attempt.exception
                return
            time.sleep(call.wait)

    async def __aiter__(self) -> AsyncGenerator[Attempt, None]:
        call = self._call()
        while True:
            await follow_async(call.begin())
            attempt = Attempt(self._plan.exception)
            yield attempt
            call.read_elapsed()
            if attempt.exception is None:
                await follow_async(call.returned(None))
                return
            if not await follow_async(call.failed(attempt.exception)):
                if call.raises:
                    raise attempt.exception
                return
            await asyncio.sleep(call.wait)

    def _call(self) -> TriedCall:
        return TriedCall(self._plan, None, (), {}, maybe_call=maybe_call, next_wait=next_wait, wall=_wall)


def _wall() -> Any:
    return datetime.datetime
