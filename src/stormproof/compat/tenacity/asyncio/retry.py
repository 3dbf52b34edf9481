"""Conditions of a retry, decided by coroutine functions."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from .._state import RetryCallState
from ..retry import flat, outcome_of, retry_base


class async_retry_base(retry_base):
    """Base of the conditions that are awaited; ``|`` and ``&`` combine them with sync ones too."""

    is_awaited = True

    @abc.abstractmethod
    async def __call__(self, retry_state: RetryCallState) -> bool:  # type: ignore[override]
        """Return True to retry after this outcome."""

    def any_of(self, *parts: object) -> Any:
        return retry_any(*flat(retry_any, parts))

    def all_of(self, *parts: object) -> Any:
        return retry_all(*flat(retry_all, parts))


RetryBaseT = async_retry_base | Callable[[RetryCallState], Awaitable[bool]]


async def _ask(condition: Any, *args: Any) -> bool:
    answer = condition(*args)
    return bool(await answer if inspect.isawaitable(answer) else answer)


class retry_any(async_retry_base):
    """Retry if one of ``retries`` says so."""

    def __init__(self, *retries: object) -> None:
        self.retries = retries

    async def __call__(self, retry_state: RetryCallState) -> bool:  # type: ignore[override]
        for condition in self.retries:
            if await _ask(condition, retry_state):
                return True
        return False


class retry_all(async_retry_base):
    """Retry if all of ``retries`` say so."""

    def __init__(self, *retries: object) -> None:
        self.retries = retries

    async def __call__(self, retry_state: RetryCallState) -> bool:  # type: ignore[override]
        for condition in self.retries:
            if not await _ask(condition, retry_state):
                return False
        return True


class retry_if_exception(async_retry_base):
    """Retry if the attempt raised and ``predicate`` is true of the exception."""

    def __init__(self, predicate: Callable[[BaseException], Awaitable[bool]]) -> None:
        self.predicate = predicate

    async def __call__(self, retry_state: RetryCallState) -> bool:  # type: ignore[override]
        error = outcome_of(retry_state).exception()
        return error is not None and await _ask(self.predicate, error)


class retry_if_result(async_retry_base):
    """Retry if the attempt returned and ``predicate`` is true of the result."""

    def __init__(self, predicate: Callable[[Any], Awaitable[bool]]) -> None:
        self.predicate = predicate

    async def __call__(self, retry_state: RetryCallState) -> bool:  # type: ignore[override]
        outcome = outcome_of(retry_state)
        return not outcome.failed and await _ask(self.predicate, outcome.result())
