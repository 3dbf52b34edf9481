"""Calls that fail, and the policy that the README recommends, under each library.

As in `contenders`: every function says how it is set up. What a caller catches is caught in the case
itself, so that all pay for it alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .contenders import ATTEMPTS, AsyncFunction, Function, sleepless, work


class Own(Exception):
    """An exception of the application's."""


class Detailed(Exception):
    """One that carries details, as those of client libraries do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = 17


def _flaky(kind: type[Exception]) -> Function:
    left = ATTEMPTS - 1

    def call(key: int) -> int:
        nonlocal left
        if left:
            left -= 1
            raise kind("refused")
        left = ATTEMPTS - 1
        return key

    return call


def _awaited(fn: Function) -> AsyncFunction:
    async def call(key: int) -> Any:
        return fn(key)

    return call


def _fails(key: int) -> int:
    raise Own("refused")


def _caught(fn: Function) -> Function:
    def call(key: int) -> int:
        try:
            fn(key)
        except Exception:
            pass
        return key

    return call


def _retry(on: Any, **options: Any) -> Any:
    """A Retry without a wait, whose budget pays, is settled, and never runs out."""
    sp = import_module("stormproof")
    options.setdefault("budget", sp.Budget(burst=10**9))
    return sp.Retry(on=on, backoff=sp.Constant(0), **options)


def _policy(*strategies: Any) -> Any:
    return import_module("stormproof").Policy(*strategies)


@contextmanager
def logging_configured() -> Iterator[None]:
    """`sleepless`, and a root handler at INFO that throws its lines away."""
    root, handler = logging.getLogger(), logging.StreamHandler(_Nowhere())
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        with sleepless():
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


class _Nowhere:
    def write(self, text: str) -> None:
        """Forget ``text``."""

    def flush(self) -> None:
        """Nothing is held."""


# Three failures, then a success.


def by_hand(kind: type[Exception]) -> Function:
    """for attempt in range(4): try/except, time.sleep(0)."""
    import time

    fn = _flaky(kind)

    def call(key: int) -> Any:
        for attempt in range(ATTEMPTS):
            try:
                return fn(key)
            except kind:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(0)
        return None

    return call


def by_hand_async(kind: type[Exception]) -> AsyncFunction:
    """The same with asyncio.sleep(0)."""
    fn = _awaited(_flaky(kind))

    async def call(key: int) -> Any:
        for attempt in range(ATTEMPTS):
            try:
                return await fn(key)
            except kind:
                if attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0)
        return None

    return call


def retried(kind: type[Exception]) -> Function:
    """Retry(on=kind, backoff=Constant(0), budget=Budget(burst=10**9))."""
    wrapped: Function = _policy(_retry(kind))(_flaky(kind))
    return wrapped


def retried_transient() -> Function:
    """The same with on=transient and a ConnectionError."""
    wrapped: Function = _policy(_retry(import_module("stormproof").transient))(_flaky(ConnectionError))
    return wrapped


def retried_without_budget(kind: type[Exception]) -> Function:
    """The same with budget=None."""
    wrapped: Function = _policy(_retry(kind, budget=None))(_flaky(kind))
    return wrapped


def retried_async(kind: type[Exception]) -> AsyncFunction:
    """The same, awaited."""
    wrapped: AsyncFunction = _policy(_retry(kind))(_awaited(_flaky(kind)))
    return wrapped


def nopanic_retried(kind: type[Exception]) -> Function:
    """@retry(attempts=4, on=kind, backoff=0, budget=RetryBudget(0.1, min_retries_per_sec=1e9))."""
    wrapped: Function = _nopanic_retry(kind)(_flaky(kind))
    return wrapped


def nopanic_retried_async(kind: type[Exception]) -> AsyncFunction:
    """The same, awaited."""
    wrapped: AsyncFunction = _nopanic_retry(kind)(_awaited(_flaky(kind)))
    return wrapped


def _nopanic_retry(kind: type[Exception], attempts: int = ATTEMPTS) -> Any:
    n = import_module("nopanic")
    budget = n.RetryBudget(ratio=0.1, min_retries_per_sec=1e9)
    return n.retry(attempts=attempts, on=kind, backoff=0.0, budget=budget)


def nopanic_limited() -> Function:
    """@rate_limit(1, per=3600, burst=1, max_wait=0), whose token is gone."""
    n = import_module("nopanic")
    call = _caught(n.rate_limit(1, per=3600.0, burst=1, max_wait=0)(work))
    call(0)
    return call


def opnieuw_retried(kind: type[Exception]) -> Function:
    """@retry(retry_on_exceptions=kind, max_calls_total=4, a window of 30 s), retried immediately."""
    decorator = import_module("opnieuw").retry(
        retry_on_exceptions=kind, max_calls_total=ATTEMPTS, retry_window_after_first_call_in_seconds=30
    )
    wrapped: Function = decorator(_flaky(kind))
    return wrapped


def _tenacity_retry(kind: type[Exception], attempts: int = ATTEMPTS) -> Any:
    t = import_module("tenacity")
    only = t.retry_if_exception_type(kind)
    return t.retry(stop=t.stop_after_attempt(attempts), wait=t.wait_none(), retry=only, reraise=True)


def tenacity_retried(kind: type[Exception]) -> Function:
    """@retry(stop_after_attempt(4), wait_none(), retry_if_exception_type(kind), reraise=True)."""
    wrapped: Function = _tenacity_retry(kind)(_flaky(kind))
    return wrapped


def tenacity_retried_async(kind: type[Exception]) -> AsyncFunction:
    """The same, awaited."""
    wrapped: AsyncFunction = _tenacity_retry(kind)(_awaited(_flaky(kind)))
    return wrapped


# The README's policy.


def five(fn: Any, breaker: Any = None) -> Any:
    """Policy(Deadline(5), Retry(on=transient), Breaker(), Bulkhead(50), Timeout(0.5))."""
    sp = import_module("stormproof")
    parts = sp.Deadline(5), _retry(sp.transient), breaker or sp.Breaker(), sp.Bulkhead(50), sp.Timeout(0.5)
    return _policy(*parts)(fn)


def _patient_breaker() -> Any:
    # It counts and judges every failure, and has not seen enough of them.
    return import_module("stormproof").Breaker(failure_ratio=1.0, min_calls=10**9)


def five_flaky() -> Function:
    """The README's five around three failures: on=transient, a breaker that does not open."""
    wrapped: Function = five(_flaky(ConnectionError), _patient_breaker())
    return wrapped


def five_flaky_async() -> AsyncFunction:
    """The same, awaited."""
    wrapped: AsyncFunction = five(_awaited(_flaky(ConnectionError)), _patient_breaker())
    return wrapped


def deadline_retry(fn: Any) -> Any:
    """Policy(Deadline(5), Retry(on=ConnectionError))."""
    return _policy(import_module("stormproof").Deadline(5), _retry(ConnectionError))(fn)


def nopanic_four(fn: Function) -> Function:
    """compose(retry with RetryBudget(0.1), circuit_breaker, bulkhead(50), deadline(5))."""
    n = import_module("nopanic")
    parts = (
        n.retry(attempts=ATTEMPTS, on=ConnectionError, budget=n.RetryBudget(ratio=0.1)),
        n.circuit_breaker(failure_threshold=0.5, min_calls=20, window=60.0, reset_timeout=30.0),
        n.bulkhead(50, max_wait=0),
        n.deadline(5.0),
    )
    wrapped: Function = n.compose(*parts)(fn)
    return wrapped


def asyncio_timeout(fn: AsyncFunction) -> AsyncFunction:
    """async with asyncio.timeout(5): nothing else."""

    async def call(key: int) -> Any:
        async with asyncio.timeout(5):
            return await fn(key)

    return call


# Errors that the caller gets.


def fails_by_hand() -> Function:
    """A function that raises, caught: the floor."""
    return _caught(_fails)


def attempts_used_up() -> Function:
    """Retry(attempts=1): noted, marked, raised."""
    return _caught(_policy(_retry(Own, attempts=1))(_fails))


def budget_exhausted() -> Function:
    """Budget(ratio=0, burst=0): refused at the first failure."""
    sp = import_module("stormproof")
    return _caught(_policy(_retry(Own, budget=sp.Budget(ratio=0, burst=0)))(_fails))


def fatal() -> Function:
    """An exception that ``on`` does not name."""
    return _caught(_policy(_retry(KeyError))(_fails))


def _opened() -> Any:
    sp = import_module("stormproof")
    breaker = sp.Breaker(consecutive=1, open_for=3600)
    _caught(_policy(breaker)(_fails))(0)
    return breaker


def open_breaker() -> Function:
    """Policy(Breaker(consecutive=1, open_for=3600)), open."""
    return _caught(_policy(_opened())(work))


def open_breaker_in_retry() -> Function:
    """The same inside Retry."""
    return _caught(_policy(_retry(ConnectionError), _opened())(work))


def open_breaker_in_five() -> Function:
    """The README's five, whose breaker is open."""
    return _caught(five(work, _opened()))


def failing_breaker() -> Function:
    """A closed Breaker() whose window is in use from end to end, and a call that fails."""
    sp, testing = import_module("stormproof"), import_module("stormproof.testing")
    clock = testing.FakeClock()
    call = _caught(_policy(sp.Breaker(failure_ratio=1.0, min_calls=10**9, clock=clock))(_fails))
    for _ in range(11):
        call(0)
        clock.advance(6.0)
    return call


def limited() -> Function:
    """Policy(RateLimit("1/h")), whose token is gone."""
    sp = import_module("stormproof")
    call = _caught(_policy(sp.RateLimit("1/h"))(work))
    call(0)
    return call


def nopanic_used_up() -> Function:
    """@retry(attempts=1) with a budget."""
    return _caught(_nopanic_retry(Own, attempts=1)(_fails))


def nopanic_open() -> Function:
    """@circuit_breaker, opened by failures."""
    n = import_module("nopanic")
    breaker = n.circuit_breaker(failure_threshold=0.5, min_calls=2, window=60.0, reset_timeout=3600.0)
    call = _caught(breaker(_fails))
    for _ in range(10):
        call(0)
    return call


def circuitbreaker_open() -> Function:
    """@CircuitBreaker(failure_threshold=1, recovery_timeout=3600), open."""
    breaker = import_module("circuitbreaker").CircuitBreaker(failure_threshold=1, recovery_timeout=3600)
    call = _caught(breaker(_fails))
    call(0)
    return call


def tenacity_used_up() -> Function:
    """@retry(stop_after_attempt(1), reraise=True)."""
    return _caught(_tenacity_retry(Own, attempts=1)(_fails))
