"""The same call under each library, set up to do the same: 4 attempts, ConnectionError, no logging.

Every function here wraps ``fn`` (sync or async) and says how. ``pause=True`` asks for an exponential
wait with full jitter from 0.1 s (never reached by a call that succeeds), ``pause=False`` for no wait.
Libraries that would pay for a time limit on every call are given none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

Function = Callable[[int], Any]
AsyncFunction = Callable[[int], Awaitable[Any]]

ATTEMPTS = 4
#: The libraries compared with, by the name of their module.
RIVALS = ("tenacity", "stamina", "backoff", "nopanic", "opnieuw")
#: Those that do not retry: breakers and a limiter.
OTHERS = ("circuitbreaker", "pybreaker", "aiolimiter")


def work(key: int) -> int:
    return key


async def work_async(key: int) -> int:
    return key


def flaky() -> Function:
    """A function that raises ConnectionError three times, then succeeds, and so on."""
    left = ATTEMPTS - 1

    def call(key: int) -> int:
        nonlocal left
        if left:
            left -= 1
            raise ConnectionError("refused")
        left = ATTEMPTS - 1
        return key

    return call


def flaky_async() -> AsyncFunction:
    """The async twin of `flaky`."""
    inner = flaky()

    async def call(key: int) -> Any:
        return inner(key)

    return call


def bare(fn: Function) -> Function:
    """The function itself."""
    return fn


def hand_written(fn: Function, pause: bool = True) -> Function:
    """for attempt in range(4): try/except ConnectionError, time.sleep: the loop people write."""
    wait = 0.1 if pause else 0.0

    def call(key: int) -> Any:
        for attempt in range(ATTEMPTS):
            try:
                return fn(key)
            except ConnectionError:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(wait * 2**attempt)
        raise AssertionError("unreachable")

    return call


def hand_written_while(fn: Function) -> Function:
    """The same with a while loop and a counter, which is the cheapest way to write it."""

    def call(key: int) -> Any:
        attempt = 0
        while True:
            try:
                return fn(key)
            except ConnectionError:
                attempt += 1
                if attempt == ATTEMPTS:
                    raise
                time.sleep(0.1 * 2 ** (attempt - 1))

    return call


def hand_written_decorator(fn: Function) -> Function:
    """The same for loop as a decorator for any function: *args, **kwargs passed through."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for attempt in range(ATTEMPTS):
            try:
                return fn(*args, **kwargs)
            except ConnectionError:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(0.1 * 2**attempt)
        raise AssertionError("unreachable")

    return call


def hand_written_async(fn: AsyncFunction, pause: bool = True) -> AsyncFunction:
    """for attempt in range(4): try/except ConnectionError, await asyncio.sleep."""
    wait = 0.1 if pause else 0.0

    async def call(key: int) -> Any:
        for attempt in range(ATTEMPTS):
            try:
                return await fn(key)
            except ConnectionError:
                if attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(wait * 2**attempt)
        raise AssertionError("unreachable")

    return call


def stormproof(fn: Function) -> Function:
    """@retry(on=ConnectionError): every default, so with a budget of its own."""
    sp = import_module("stormproof")
    wrapped: Function = sp.retry(on=ConnectionError)(fn)
    return wrapped


def stormproof_shared(fn: Function) -> Function:
    """@retry(on=ConnectionError, budget=budget), the budget shared with another function."""
    sp = import_module("stormproof")
    shared = sp.retry(on=ConnectionError, budget=sp.Budget())
    shared(work)
    wrapped: Function = shared(fn)
    return wrapped


def stormproof_without_budget(fn: Function) -> Function:
    """@retry(on=ConnectionError, budget=None)."""
    sp = import_module("stormproof")
    wrapped: Function = sp.retry(on=ConnectionError, budget=None)(fn)
    return wrapped


def stormproof_in_turn(make: Callable[[], Function]) -> list[Function]:
    """Five functions of the same signature, each under its own @retry, called one after the other."""
    sp = import_module("stormproof")
    return [sp.retry(on=ConnectionError)(make()) for _ in range(5)]


def stormproof_call(fn: Function) -> Function:
    """policy.call(fn, key), one policy for every function."""
    sp = import_module("stormproof")
    policy = sp.retry(on=ConnectionError)
    return lambda key: policy.call(fn, key)


def stormproof_acall(fn: AsyncFunction) -> AsyncFunction:
    """await policy.acall(fn, key), one policy for every function."""
    sp = import_module("stormproof")
    policy = sp.retry(on=ConnectionError)
    # Not a coroutine function of its own: one frame more would be charged to acall.
    wrapped: AsyncFunction = lambda key: policy.acall(fn, key)  # noqa: E731
    return wrapped


def stormproof_now(fn: Function) -> Function:
    """@retry(on=ConnectionError, backoff=Constant(0), budget=Budget(burst=10**9)).

    The default budget stops retrying when every call needs three retries, which is its purpose;
    this one is asked, pays and is settled each time, and never runs out. Its line in the log (a
    record that the application's log level then drops) is left on, as it is by default.
    """
    sp = import_module("stormproof")
    policy = sp.retry(on=ConnectionError, backoff=sp.Constant(0), budget=sp.Budget(burst=10**9))
    wrapped: Function = policy(fn)
    return wrapped


def tenacity(fn: Function, pause: bool = True, module: str = "tenacity") -> Function:
    """@retry(stop_after_attempt(4), retry_if_exception_type(ConnectionError), reraise=True)."""
    t = import_module(module)
    wait = t.wait_random_exponential(multiplier=0.1, max=5) if pause else t.wait_none()
    only = t.retry_if_exception_type(ConnectionError)
    decorator = t.retry(stop=t.stop_after_attempt(ATTEMPTS), wait=wait, retry=only, reraise=True)
    wrapped: Function = decorator(fn)
    return wrapped


def stamina(fn: Function, pause: bool = True) -> Function:
    """@retry(on=ConnectionError, attempts=4, timeout=None), its retry hooks (log, metrics) removed."""
    s = import_module("stamina")
    s.instrumentation.set_on_retry_hooks([])
    waits = {} if pause else {"wait_initial": 0.0, "wait_max": 0.0, "wait_jitter": 0.0}
    wrapped: Function = s.retry(on=ConnectionError, attempts=ATTEMPTS, timeout=None, **waits)(fn)
    return wrapped


def backoff(fn: Function, pause: bool = True) -> Function:
    """@on_exception(expo, ConnectionError, max_tries=4, logger=None); constant(0) for no wait."""
    b = import_module("backoff")
    if pause:
        decorator = b.on_exception(b.expo, ConnectionError, max_tries=ATTEMPTS, logger=None)
    else:
        decorator = b.on_exception(
            b.constant, ConnectionError, max_tries=ATTEMPTS, logger=None, jitter=None, interval=0
        )
    wrapped: Function = decorator(fn)
    return wrapped


def nopanic(fn: Function, pause: bool = True) -> Function:
    """@retry(attempts=4, on=ConnectionError), full jitter by default; backoff=0 for no wait."""
    n = import_module("nopanic")
    waits = {} if pause else {"backoff": 0.0}
    wrapped: Function = n.retry(attempts=ATTEMPTS, on=ConnectionError, **waits)(fn)
    return wrapped


def nopanic_budget(fn: Function, pause: bool = True) -> Function:
    """The same with RetryBudget(ratio=0.1); where every call is retried, one that never runs out."""
    n = import_module("nopanic")
    waits = {} if pause else {"backoff": 0.0}
    floor = {} if pause else {"min_retries_per_sec": 1e9}
    budget = n.RetryBudget(ratio=0.1, **floor)
    wrapped: Function = n.retry(attempts=ATTEMPTS, on=ConnectionError, budget=budget, **waits)(fn)
    return wrapped


def opnieuw(fn: Function) -> Function:
    """@retry(retry_on_exceptions=ConnectionError, max_calls_total=4, a window of 30 s), full jitter.

    Its way to have no wait is the context manager retry_immediately, which the retried cases use.
    """
    decorator = import_module("opnieuw").retry(
        retry_on_exceptions=ConnectionError,
        max_calls_total=ATTEMPTS,
        retry_window_after_first_call_in_seconds=30,
    )
    wrapped: Function = decorator(fn)
    return wrapped


@contextmanager
def sleepless() -> Iterator[None]:
    """`time.sleep` replaced by a function that returns: for everybody, as all look it up in `time`.

    Asking the system for a sleep of 0 s takes longer (some 80 microseconds on Linux) than all that the
    libraries do themselves, and those that skip it would win by that alone.
    """
    sleep = time.sleep
    time.sleep = _return  # type: ignore[assignment]
    try:
        yield
    finally:
        time.sleep = sleep


def _return(seconds: float, /) -> None:
    if seconds > 0:
        raise AssertionError(f"a wait of {seconds} s where none was asked for")


@contextmanager
def opnieuw_at_once() -> Iterator[None]:
    """`sleepless`, and opnieuw's decorators told to retry without a wait."""
    with sleepless(), import_module("opnieuw.test_util").retry_immediately():
        yield


def within_deadline() -> AbstractContextManager[object]:
    """An ambient deadline that is far away."""
    scope: AbstractContextManager[object] = import_module("stormproof").deadline(3600)
    return scope


@contextmanager
def without_log_lines() -> Iterator[None]:
    """`sleepless`, and Stormproof's own log lines switched off, as most libraries have none."""
    log = import_module("stormproof.logging")
    log.off()
    try:
        with sleepless():
            yield
    finally:
        log.on()
