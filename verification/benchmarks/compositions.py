"""Strategies beside retry, and several together, under each library that has them.

As in `contenders`: every function wraps ``fn`` (sync or async) and says how; nothing is ever refused,
so a call pays for being watched and for nothing else. The limiters are taken from without a call.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .call_timing import Steps
from .contenders import ATTEMPTS, Function
from .memory import Held

#: More tokens than any run takes; they come back at 1/s, which no run notices.
_PLENTY = 10**9
#: At 100 calls/s, a window of 60 s has gone round once when the first 10,000 calls are done.
_STEP_S = 0.01


def _stormproof(fn: Function, *strategies: Any) -> Function:
    wrapped: Function = import_module("stormproof").Policy(*strategies)(fn)
    return wrapped


def breaker(fn: Function) -> Function:
    """Policy(Breaker()): half of at least 20 calls in 60 s, in 10 buckets."""
    return _stormproof(fn, import_module("stormproof").Breaker())


def bulkhead(fn: Function) -> Function:
    """Policy(Bulkhead(50)), no queue."""
    return _stormproof(fn, import_module("stormproof").Bulkhead(50))


def timeout(fn: Function) -> Function:
    """Policy(Timeout(5)): shrinks the ambient deadline; a sync call has no thread."""
    return _stormproof(fn, import_module("stormproof").Timeout(5))


def rate_limit(fn: Function) -> Function:
    """Policy(RateLimit(Limiter(1, burst=10**9))), which never runs out."""
    sp = import_module("stormproof")
    return _stormproof(fn, sp.RateLimit(sp.Limiter(1, _PLENTY)))


def throttle(fn: Function) -> Function:
    """Policy(Throttle()), nothing having failed."""
    return _stormproof(fn, import_module("stormproof").Throttle())


def deadline_retry(fn: Function) -> Function:
    """Policy(Deadline(5), Retry(on=ConnectionError)), with its default budget."""
    sp = import_module("stormproof")
    return _stormproof(fn, sp.Deadline(5), sp.Retry(on=ConnectionError))


def stack(fn: Function) -> Function:
    """Policy(Retry(on=ConnectionError), Breaker(), Bulkhead(50)), with the default budget."""
    sp = import_module("stormproof")
    return _stormproof(fn, sp.Retry(on=ConnectionError), sp.Breaker(), sp.Bulkhead(50))


def _nopanic_breaker() -> Any:
    n = import_module("nopanic")
    return n.circuit_breaker(failure_threshold=0.5, min_calls=20, window=60.0, reset_timeout=30.0)


def nopanic_breaker(fn: Function) -> Function:
    """@circuit_breaker(failure_threshold=0.5, min_calls=20, window=60, reset_timeout=30)."""
    wrapped: Function = _nopanic_breaker()(fn)
    return wrapped


def nopanic_stack(fn: Function) -> Function:
    """compose(retry with RetryBudget(0.1), that circuit_breaker, bulkhead(50, max_wait=0))."""
    n = import_module("nopanic")
    retry = n.retry(attempts=ATTEMPTS, on=ConnectionError, budget=n.RetryBudget(ratio=0.1))
    wrapped: Function = n.compose(retry, _nopanic_breaker(), n.bulkhead(50, max_wait=0))(fn)
    return wrapped


def circuitbreaker(fn: Function) -> Function:
    """@CircuitBreaker(failure_threshold=20, recovery_timeout=30): failures in a row, no window."""
    breaker = import_module("circuitbreaker").CircuitBreaker(failure_threshold=20, recovery_timeout=30)
    wrapped: Function = breaker(fn)
    return wrapped


def pybreaker(fn: Function) -> Function:
    """@CircuitBreaker(fail_max=20, reset_timeout=30): failures in a row, no window.

    Its async calls need Tornado, so it has no awaited case.
    """
    wrapped: Function = import_module("pybreaker").CircuitBreaker(fail_max=20, reset_timeout=30)(fn)
    return wrapped


# One token that is there, taken from a limiter of 1/s that starts with 10**9.


def limiter() -> Steps:
    """limiter.allow() of Limiter(1, 10**9)."""
    limiter = import_module("stormproof").Limiter(1, _PLENTY)
    return Steps("allow()", {"allow": limiter.allow}, lambda taken: limiter.tokens() < _PLENTY - taken + 1)


def nopanic_call() -> Steps:
    """A function that does nothing under @rate_limit(1, burst=10**9, max_wait=0): its cheapest way."""
    limit = import_module("nopanic").rate_limit(1.0, burst=_PLENTY, max_wait=0)
    return Steps(
        "call()",
        {"call": limit(lambda: None)},
        lambda taken: bool(limit.available_tokens < _PLENTY - taken + 1),
    )


def nopanic_guard() -> Steps:
    """with limit.guard(): pass, of rate_limit(1, burst=10**9, max_wait=0)."""
    limit = import_module("nopanic").rate_limit(1.0, burst=_PLENTY, max_wait=0)
    return Steps(
        "with guard(): pass",
        {"guard": limit.guard},
        lambda taken: bool(limit.available_tokens < _PLENTY - taken + 1),
    )


def aiolimiter() -> Steps:
    """await limiter.acquire() of AsyncLimiter(10**9, 10**9): never waits. It has no way without await."""
    limit = import_module("aiolimiter").AsyncLimiter(_PLENTY, _PLENTY)
    return Steps(
        "await acquire()",
        {"acquire": limit.acquire},
        lambda taken: not limit.has_capacity(_PLENTY - taken + 1),
    )


@contextmanager
def in_another_loop() -> Iterator[None]:
    """Lets aiolimiter move to the event loop of the measurement without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


# What holds state, used for a long time on a clock of its own.


def nothing_held() -> Held:
    """A function that does nothing: what measuring itself leaves behind."""
    return Held(lambda number: number)


def breaker_held() -> Held:
    """A Breaker() called 100 times a second, every hundredth call failing."""
    sp, testing = import_module("stormproof"), import_module("stormproof.testing")
    clock = testing.FakeClock()
    breaker = sp.Breaker(clock=clock)

    def every_hundredth(number: int) -> None:
        if number % 100 == 0:
            raise ConnectionError("refused")

    call = _stormproof(every_hundredth, breaker)

    def use(number: int) -> None:
        clock.advance(_STEP_S)
        try:
            call(number)
        except ConnectionError:
            pass

    return Held(use)


def limiter_held() -> Held:
    """A Limiter(50, 10) asked 100 times a second: half of the times it refuses."""
    sp, testing = import_module("stormproof"), import_module("stormproof.testing")
    clock = testing.FakeClock()
    limiter = sp.Limiter(50, 10, clock=clock)

    def use(number: int) -> None:
        clock.advance(_STEP_S)
        limiter.allow()

    return Held(use)


def keyed_held() -> Held:
    """keyed(Budget(), limit=1000), another key each time."""
    sp = import_module("stormproof")
    budgets = sp.keyed(sp.Budget(), limit=1000)

    def use(number: int) -> None:
        budgets[number].started()

    return Held(use, lambda: len(budgets))
