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
_BURST = "burst=, the retries to begin with, and ratio=, what a success earns"

#: Words of other libraries, and what says the same here. Of several that begin with an option, the first
#: whose option exists is meant.
_GUESSES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("max_attempts", "tries", "max_tries", "retries", "max_retries", "total"), (_ATTEMPTS, _BURST)
    ),
    **dict.fromkeys(("jitter", "base", "cap", "max_wait"), (_BACKOFF,)),
    **dict.fromkeys(
        ("factor", "multiplier", "exp_base"), (_BACKOFF, "factor=, and base= for the first wait")
    ),
    **dict.fromkeys(("max", "maximum", "max_delay", "max_interval"), (_BACKOFF, "cap=")),
    **dict.fromkeys(("initial", "initial_delay", "initial_interval", "start"), (_BACKOFF, "base=")),
    **dict.fromkeys(("delay", "wait", "interval", "sleep", "backoff_factor"), (_WAIT, "max_wait=", "after=")),
    **dict.fromkeys(("exceptions", "exception", "retry_on", "expected_exception", "catch"), ("on=",)),
    **dict.fromkeys(("max_time", "max_elapsed", "total_timeout"), ("within=, the seconds for retrying",)),
    **dict.fromkeys(
        ("threshold", "failure_threshold", "fail_max"), ("failure_ratio= and min_calls=, or consecutive=",)
    ),
    **dict.fromkeys(("recovery_timeout", "reset_timeout", "timeout_duration"), ("open_for=",)),
    **dict.fromkeys(("max_concurrent", "max_concurrency", "size"), ("limit=",)),
    "stop": ("attempts= or within=",),
    "timeout": (
        "within=, or a Policy with Deadline(seconds) outside or Timeout(seconds) inside the Retry",
        "open_for=",
        "max_wait=",
        "seconds=",
    ),
    "duration": ("seconds=",),
    "rate": ("limiter=Limiter(rate, burst), or a text such as '100/s'",),
    "default": ("value=",),
    "fallback": ("value=",),
    "deadline": ("a Policy with Deadline(seconds) before the Retry, or `with deadline(seconds):`",),
    "reraise": ("nothing: the original exception is what a failed call raises",),
    "on_backoff": ("on_retry=",),
    "before_sleep": ("on_retry=",),
    "retry_on_result": ("on_result=",),
    "CircuitBreaker": ("Breaker",),
    "Jitter": ("Exponential(jitter=...)",),
    "RateLimiter": ("RateLimit, or Limiter on its own",),
    "Retrying": ("retrying, or Policy(Retry(...))",),
    "RetryPolicy": ("Policy(Retry(...))",),
    "TimeLimiter": ("Timeout or Deadline",),
    "TokenBucket": ("Limiter",),
    "ExponentialBackoff": ("Exponential",),
    "stop_after_attempt": ("Retry(attempts=)",),
    "stop_after_delay": ("Retry(within=)",),
    "retry_if_exception_type": ("Retry(on=)",),
    **dict.fromkeys(("wait_exponential", "wait_random_exponential", "expo"), ("Exponential",)),
    "wait_fixed": ("Constant",),
    "on_exception": ("retry",),
    "Semaphore": ("Bulkhead",),
    **dict.fromkeys(("CircuitBreakerError", "CircuitBreakerOpen", "BreakerOpen"), ("CircuitOpen",)),
    "RetryError": ("the error of the last attempt, which is raised itself, with stopped(error)",),
    "TimeoutError": ("AttemptTimeout or DeadlineExceeded, which both are the built-in TimeoutError",),
}


def near(name: str, known: Iterable[str]) -> str | None:
    """Return the option that ``name`` was probably meant to be."""
    from difflib import get_close_matches

    names = list(known)
    for guess in _GUESSES.get(name, ()):
        option, named, _ = guess.partition("=")
        if not named or not option.isidentifier() or option in names:
            return guess
    close = get_close_matches(name, names, n=1)
    return close[0] if close else None


def keywords(function: Callable[..., Any]) -> list[str] | None:
    """Return the names of the arguments of ``function``, but for ``self``; None if it takes any keyword."""
    code = function.__code__
    if code.co_flags & 0x08:
        return None
    return [n for n in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if n != "self"]


def with_guesses(function: C, owner: str = "") -> C:
    """Return ``function``, whose error for an unknown, unnamed or missing option says what may be meant."""
    from functools import wraps

    owner = owner or function.__name__
    names, code = keywords(function), function.__code__
    if names is None:
        # It takes any keyword and passes it on; the callee validates it.
        return function

    @wraps(function)
    def guessing(*args: object, **kwargs: object) -> Any:
        if kwargs.keys() <= known and len(args) <= most:
            for place, name in needed:
                if place >= len(args) and name not in kwargs:
                    raise TypeError(f"{owner}: {name} must be given, got none; write {owner}({name}=...)")
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
    optional = len(function.__defaults__ or ())
    needed = [
        (place, name)
        for place, name in enumerate(code.co_varnames[: code.co_argcount - optional])
        if name != "self"
    ]
    most = code.co_argcount if code.co_kwonlyargcount and not code.co_flags & 0x04 else sys.maxsize
    return guessing  # type: ignore[return-value]
