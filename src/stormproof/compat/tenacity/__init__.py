"""A drop-in for tenacity 9.2, on Stormproof's own code.

``import tenacity`` becomes ``from stormproof.compat import tenacity``; ``from tenacity import retry, ...``
becomes ``from stormproof.compat.tenacity import retry, ...``. The public names, the submodules (``stop``,
``wait``, ``retry``, ``nap``, ``asyncio``, ``before``, ``after``, ``before_sleep``, ``tornadoweb``), the live
attributes (``fn.retry.stop = ...``), ``fn.statistics``, ``fn.retry_with`` and the names that tests patch
(``tenacity.nap.time.sleep``, ``fn.retry.sleep``) work as they do there.

Added:

- ``budget=stormproof.Budget()`` on ``retry``, ``Retrying`` and ``AsyncRetrying``: the budget pays for each
  retry, and one that it refuses ends the call as ``stop`` would. One budget may serve many functions.
- Inside ``stormproof.deadline(5)`` a retry whose wait would outlast the deadline is not made. Inside
  ``stormproof.disabled()`` there are no retries. Inside ``stormproof.testing.instant()`` waits are free.

Put right:

- A call that returns costs a fraction of what it cost.
- Ctrl-C, `SystemExit` and a cancelled task end the retry, unless ``retry_if_exception_type`` names them.
- Concurrent calls of one function do not mix up their attempt numbers.
- A reraised error has the traceback of its own attempt, without frames of `concurrent.futures`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from . import after as after
from . import asyncio as asyncio
from . import before as before
from . import before_sleep as before_sleep
from . import nap as nap
from . import stop as stop
from . import wait as wait
from ._attempts import AttemptManager
from ._retrying import BaseRetrying
from ._state import (
    NO_RESULT,
    BaseAction,
    DoAttempt,
    DoSleep,
    Future,
    RetryAction,
    RetryCallState,
    RetryError,
    TryAgain,
)
from ._sync import Retrying
from ._utils import is_coroutine_callable as _is_coroutine_callable
from .after import after_log, after_nothing
from .asyncio import AsyncRetrying
from .before import before_log, before_nothing
from .before_sleep import before_sleep_log, before_sleep_nothing
from .nap import sleep, sleep_using_event
from .retry import (
    retry_all,
    retry_always,
    retry_any,
    retry_base,
    retry_if_exception,
    retry_if_exception_cause_type,
    retry_if_exception_message,
    retry_if_exception_type,
    retry_if_not_exception_message,
    retry_if_not_exception_type,
    retry_if_not_result,
    retry_if_result,
    retry_never,
    retry_unless_exception_type,
)
from .stop import (
    stop_after_attempt,
    stop_after_delay,
    stop_all,
    stop_any,
    stop_before_delay,
    stop_never,
    stop_when_event_set,
)
from .wait import (
    wait_chain,
    wait_combine,
    wait_exception,
    wait_exponential,
    wait_exponential_jitter,
    wait_fixed,
    wait_incrementing,
    wait_none,
    wait_random,
    wait_random_exponential,
)

if TYPE_CHECKING:
    from ..._strategies.budget.allowance import Allowance

__all__ = [
    "NO_RESULT",
    "AsyncRetrying",
    "AttemptManager",
    "BaseAction",
    "BaseRetrying",
    "DoAttempt",
    "DoSleep",
    "Future",
    "RetryAction",
    "RetryCallState",
    "RetryError",
    "Retrying",
    "TryAgain",
    "WrappedFn",
    "after_log",
    "after_nothing",
    "before_log",
    "before_nothing",
    "before_sleep_log",
    "before_sleep_nothing",
    "retry",
    "retry_all",
    "retry_always",
    "retry_any",
    "retry_base",
    "retry_if_exception",
    "retry_if_exception_cause_type",
    "retry_if_exception_message",
    "retry_if_exception_type",
    "retry_if_not_exception_message",
    "retry_if_not_exception_type",
    "retry_if_not_result",
    "retry_if_result",
    "retry_never",
    "retry_unless_exception_type",
    "sleep",
    "sleep_using_event",
    "stop_after_attempt",
    "stop_after_delay",
    "stop_all",
    "stop_any",
    "stop_before_delay",
    "stop_never",
    "stop_when_event_set",
    "wait_chain",
    "wait_combine",
    "wait_exception",
    "wait_exponential",
    "wait_exponential_jitter",
    "wait_fixed",
    "wait_full_jitter",
    "wait_incrementing",
    "wait_none",
    "wait_random",
    "wait_random_exponential",
]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
WrappedFn = TypeVar("WrappedFn", bound=Callable[..., Any])

wait_full_jitter = wait_random_exponential


class Retried(Protocol[P, R_co]):
    """Function decorated by ``@retry``: the function, with the retry's attributes."""

    retry: BaseRetrying
    retry_with: Callable[..., Any]
    statistics: dict[str, Any]
    __wrapped__: Callable[..., Any]
    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def __get__(self, instance: None, owner: object, /) -> Retried[P, R_co]: ...
    @overload
    def __get__(self, instance: object, owner: object, /) -> Callable[..., R_co]: ...
    def __get__(self, instance: object, owner: object, /) -> Any: ...


class RetryDecorator(Protocol):
    """The decorator that ``retry(...)`` returns."""

    def __call__(self, fn: Callable[P, R_co], /) -> Retried[P, R_co]: ...


@overload
def retry(fn: Callable[P, R_co], /) -> Retried[P, R_co]: ...
@overload
def retry(
    *,
    sleep: Callable[[int | float], Any] = ...,
    stop: stop.StopBaseT = ...,
    wait: wait.WaitBaseT = ...,
    retry: Callable[[RetryCallState], Any] = ...,
    before: Callable[[RetryCallState], Any] = ...,
    after: Callable[[RetryCallState], Any] = ...,
    before_sleep: Callable[[RetryCallState], Any] | None = ...,
    reraise: bool = ...,
    retry_error_cls: type[RetryError] = ...,
    retry_error_callback: Callable[[RetryCallState], Any] | None = ...,
    name: str | None = ...,
    enabled: bool = ...,
    budget: Allowance | None = ...,
) -> RetryDecorator: ...
def retry(*args: object, **options: object) -> Any:
    """Retry the decorated function: ``@retry`` or ``@retry(stop=..., wait=..., ...)``.

    The options are those of `Retrying`. A coroutine function (or an async ``sleep``) gets an `AsyncRetrying`,
    a tornado coroutine a `TornadoRetrying`.
    """
    if len(args) == 1 and not options and callable(args[0]):
        return _wrap(args[0], (), {})

    def decorate(fn: Callable[..., Any]) -> Any:
        return _wrap(fn, args, options)

    return decorate


def _wrap(fn: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if isinstance(fn, retry_base):
        name = type(fn).__name__
        warnings.warn(f"retry() was given {name} to decorate: did you mean retry={name}(...)?", stacklevel=3)
    sleep = options.get("sleep", args[0] if args else None)
    kind: type[BaseRetrying] = Retrying
    if _is_coroutine_callable(fn) or (sleep is not None and _is_coroutine_callable(sleep)):
        kind = AsyncRetrying
    elif _is_tornado(fn):
        from .tornadoweb import TornadoRetrying

        kind = TornadoRetrying
    return kind(*args, **options).wraps(fn)


def _is_tornado(fn: Callable[..., Any]) -> bool:
    # A tornado coroutine can only come from where tornado is loaded.
    gen = sys.modules.get("tornado.gen")
    if gen is None or globals().get("tornado", gen) is None:
        return False
    return bool(getattr(gen, "is_coroutine_function", lambda _: False)(fn))


def __getattr__(name: str) -> Any:
    if name == "tornado":
        try:
            import tornado
        except ModuleNotFoundError:
            return None
        return tornado
    if name in ("tornadoweb", "TornadoRetrying"):
        from . import tornadoweb

        return tornadoweb if name == "tornadoweb" else tornadoweb.TornadoRetrying
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
