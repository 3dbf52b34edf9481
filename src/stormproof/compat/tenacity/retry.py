"""Conditions of a retry: ``retry_if_exception_type(OSError) | retry_if_result(is_none)``."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable
from typing import Any

from ._state import RetryCallState

_Types = type[BaseException] | tuple[type[BaseException], ...]


class retry_base(abc.ABC):
    """Base of the retry conditions; ``|`` and ``&`` combine them, with plain callables too."""

    #: True if a call of it returns an awaitable.
    is_awaited = False
    #: True if it is false for every result; a subclass with a ``__call__`` of its own may declare so.
    ignores_results = False

    @abc.abstractmethod
    def __call__(self, retry_state: RetryCallState) -> bool:
        """Return whether to retry after this outcome."""

    def __or__(self, other: object) -> Any:
        return _owner(self, other).any_of(self, other)

    def __ror__(self, other: object) -> Any:
        return _owner(self, other).any_of(other, self)

    def __and__(self, other: object) -> Any:
        return _owner(self, other).all_of(self, other)

    def __rand__(self, other: object) -> Any:
        return _owner(self, other).all_of(other, self)

    def any_of(self, *parts: object) -> Any:
        return retry_any(*flat(retry_any, parts))

    def all_of(self, *parts: object) -> Any:
        return retry_all(*flat(retry_all, parts))


RetryBaseT = retry_base | Callable[[RetryCallState], bool]


def _owner(left: retry_base, right: object) -> retry_base:
    """Return the one that decides how the two are combined: an async condition where there is one."""
    return right if isinstance(right, retry_base) and right.is_awaited else left


def flat(kind: type[Any], parts: tuple[Any, ...]) -> list[Any]:
    """Return ``parts``, with the parts of those that are a ``kind`` themselves in their place."""
    return [inner for part in parts for inner in (part.retries if type(part) is kind else (part,))]


class retry_any(retry_base):
    """Retry if one of ``retries`` says so."""

    def __init__(self, *retries: RetryBaseT) -> None:
        self.retries = retries

    def __call__(self, retry_state: RetryCallState) -> bool:
        return any(retry(retry_state) for retry in self.retries)


class retry_all(retry_base):
    """Retry if all of ``retries`` say so."""

    def __init__(self, *retries: RetryBaseT) -> None:
        self.retries = retries

    def __call__(self, retry_state: RetryCallState) -> bool:
        return all(retry(retry_state) for retry in self.retries)


class _retry_never(retry_base):
    def __call__(self, retry_state: RetryCallState) -> bool:
        return False


class _retry_always(retry_base):
    def __call__(self, retry_state: RetryCallState) -> bool:
        return True


retry_never = _retry_never()
retry_always = _retry_always()


class retry_if_exception(retry_base):
    """Retry if the attempt raised and ``predicate`` is true of the exception."""

    def __init__(self, predicate: Callable[[BaseException], bool]) -> None:
        self.predicate = predicate

    def __call__(self, retry_state: RetryCallState) -> bool:
        error = outcome_of(retry_state).exception()
        return error is not None and self.predicate(error)


class retry_if_exception_type(retry_if_exception):
    """Retry if the attempt raised one of ``exception_types``."""

    def __init__(self, exception_types: _Types = Exception) -> None:
        self.exception_types = exception_types
        super().__init__(self._matches)

    def _matches(self, error: BaseException) -> bool:
        return isinstance(error, self.exception_types)


class retry_if_not_exception_type(retry_if_exception):
    """Retry if the attempt raised anything but ``exception_types``."""

    def __init__(self, exception_types: _Types = Exception) -> None:
        self.exception_types = exception_types
        super().__init__(self._matches)

    def _matches(self, error: BaseException) -> bool:
        return not isinstance(error, self.exception_types)


class retry_unless_exception_type(retry_if_not_exception_type):
    """Retry until the attempt raises one of ``exception_types``: every result is retried."""

    def __call__(self, retry_state: RetryCallState) -> bool:
        error = outcome_of(retry_state).exception()
        return error is None or self.predicate(error)


class retry_if_exception_cause_type(retry_base):
    """Retry if the exception has one of ``exception_types`` in its chain of explicit causes."""

    def __init__(self, exception_types: _Types = Exception) -> None:
        self.exception_cause_types = exception_types

    def __call__(self, retry_state: RetryCallState) -> bool:
        error = outcome_of(retry_state).exception()
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            error = error.__cause__
            if isinstance(error, self.exception_cause_types):
                return True
        return False


class retry_if_result(retry_base):
    """Retry if the attempt returned and ``predicate`` is true of the result."""

    def __init__(self, predicate: Callable[[Any], bool]) -> None:
        self.predicate = predicate

    def __call__(self, retry_state: RetryCallState) -> bool:
        outcome = outcome_of(retry_state)
        return not outcome.failed and self.predicate(outcome.result())


class retry_if_not_result(retry_base):
    """Retry if the attempt returned and ``predicate`` is false of the result."""

    def __init__(self, predicate: Callable[[Any], bool]) -> None:
        self.predicate = predicate

    def __call__(self, retry_state: RetryCallState) -> bool:
        outcome = outcome_of(retry_state)
        return not outcome.failed and not self.predicate(outcome.result())


class retry_if_exception_message(retry_if_exception):
    """Retry if the exception's text is ``message``, or matches the regular expression ``match``."""

    def __init__(self, message: str | None = None, match: str | re.Pattern[str] | None = None) -> None:
        if (message is None) == (match is None):
            got = "neither" if message is None else "both"
            raise TypeError(f"{type(self).__name__}: give one of message and match, got {got}")
        self.message = message
        self.match = None if match is None else re.compile(match)
        super().__init__(self.is_meant)

    def is_meant(self, error: BaseException) -> bool:
        text = str(error)
        return text == self.message if self.match is None else self.match.match(text) is not None


class retry_if_not_exception_message(retry_if_exception_message):
    """Retry until the exception's text is ``message`` or matches ``match``; every result is retried."""

    def is_meant(self, error: BaseException) -> bool:
        return not super().is_meant(error)

    def __call__(self, retry_state: RetryCallState) -> bool:
        error = outcome_of(retry_state).exception()
        return error is None or self.predicate(error)


def outcome_of(retry_state: RetryCallState) -> Any:
    if retry_state.outcome is None:
        raise RuntimeError("retry was asked before there was an outcome")
    return retry_state.outcome


#: Conditions that no result can meet, by the method that decides.
_BLIND = (retry_if_exception.__call__, retry_if_exception_cause_type.__call__, _retry_never.__call__)


def ignores_every_result(condition: Any) -> bool:
    """Return True if ``condition`` is false of every result: a call that returns needs not ask it."""
    decide = type(condition).__call__
    if decide in (retry_any.__call__, retry_all.__call__):
        parts = map(ignores_every_result, condition.retries)
        return all(parts) if decide is retry_any.__call__ else any(parts)
    return decide in _BLIND or getattr(condition, "ignores_results", False) is True


def names_interrupts(condition: object) -> bool:
    """Return True if ``condition`` names an exception type that is not an `Exception`, such as Ctrl-C's."""
    if isinstance(condition, retry_if_exception_type):
        types = condition.exception_types
        return any(not issubclass(t, Exception) for t in (types if isinstance(types, tuple) else (types,)))
    return any(map(names_interrupts, getattr(condition, "retries", ())))
