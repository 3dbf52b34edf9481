"""Suggestions for an option, or a name, that does not exist."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    C = TypeVar("C", bound=Callable[..., Any])

_ATTEMPTS = "attempts=, which counts the first call"
_BACKOFF = "backoff=Exponential(base=, factor=, cap=, jitter=)"
_WAIT = "backoff=Constant(seconds), or another schedule"

#: Words of other libraries, and what says the same here.
_GUESSES = {
    **dict.fromkeys(("max_attempts", "tries", "max_tries", "retries", "max_retries", "total"), _ATTEMPTS),
    **dict.fromkeys(("jitter", "base", "factor", "cap", "multiplier", "max_delay", "max_wait"), _BACKOFF),
    **dict.fromkeys(("delay", "wait", "interval", "sleep", "backoff_factor"), _WAIT),
    **dict.fromkeys(("exceptions", "exception", "retry_on", "expected_exception", "catch"), "on="),
    **dict.fromkeys(("max_time", "max_elapsed", "total_timeout"), "within=, the seconds for retrying"),
    **dict.fromkeys(
        ("threshold", "failure_threshold", "fail_max"), "failure_ratio= and min_calls=, or consecutive="
    ),
    **dict.fromkeys(("recovery_timeout", "reset_timeout", "timeout_duration"), "open_for="),
    **dict.fromkeys(("max_concurrent", "max_concurrency", "size"), "limit="),
    "stop": "attempts= or within=",
    "timeout": "within=, or a Policy with Deadline(seconds) outside or Timeout(seconds) inside the Retry",
    "deadline": "a Policy with Deadline(seconds) before the Retry, or `with deadline(seconds):`",
    "reraise": "nothing: the original exception is what a failed call raises",
    "on_backoff": "on_retry=",
    "before_sleep": "on_retry=",
    "retry_on_result": "on_result=",
    "CircuitBreaker": "Breaker",
    "RateLimiter": "RateLimit, or Limiter on its own",
    "Retrying": "retrying, or Policy(Retry(...))",
    "RetryPolicy": "Policy(Retry(...))",
    "TimeLimiter": "Timeout or Deadline",
    "ExponentialBackoff": "Exponential",
    "stop_after_attempt": "Retry(attempts=)",
    "wait_exponential": "Exponential",
}


def near(name: str, known: Iterable[str]) -> str | None:
    """Return what ``name`` was probably meant to be, as it is written here."""
    from difflib import get_close_matches

    names = list(known)
    close = get_close_matches(name, names, n=1, cutoff=0.75)
    meant = close[0] if close else _GUESSES.get(name)
    if meant is None:
        close = get_close_matches(name, names, n=1, cutoff=0.6)
        meant = close[0] if close else None
    return meant


def keywords(function: Callable[..., Any]) -> list[str] | None:
    """Return the names of the arguments of ``function``, but for ``self``; None if it takes any keyword."""
    code = function.__code__
    if code.co_flags & 0x08:
        return None
    return [n for n in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if n != "self"]


def with_guesses(owner: str, function: C) -> C:
    """Return ``function``, whose error for an unknown or unnamed option says which one may be meant."""
    from functools import wraps

    names, code = keywords(function), function.__code__
    if names is None:
        # It takes any keyword, and passes it on to what knows better.
        return function

    @wraps(function)
    def guessing(*args: object, **kwargs: object) -> Any:
        if kwargs.keys() <= known and len(args) <= most:
            return function(*args, **kwargs)
        if len(args) > most:
            by_name = code.co_varnames[code.co_argcount]
            raise TypeError(
                f"{owner}: {by_name} must be given by name, got {args[most]!r}; write {by_name}=..."
            )
        name = next(name for name in kwargs if name not in known)
        meant = near(name, names)
        hint = f"; did you mean {meant}?" if meant else ""
        raise TypeError(
            f"{owner}: options must be among {', '.join(names)}, got {name}={kwargs[name]!r}{hint}"
        )

    known = frozenset(names)
    most = code.co_argcount if code.co_kwonlyargcount and not code.co_flags & 0x04 else sys.maxsize
    return guessing  # type: ignore[return-value]
