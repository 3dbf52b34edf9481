"""Public interface: the decorator, the block, and callers that keep their options."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from ._core import Duration, ExcOrBackoffHook, _RetryContextIterator
from ._wrap import wrap
from .instrumentation._data import guess_name

if TYPE_CHECKING:
    from ..._strategies.budget.allowance import Allowance

P = ParamSpec("P")
T = TypeVar("T")
CallerT = TypeVar("CallerT")


retry_context = _RetryContextIterator


def retry(
    *,
    on: ExcOrBackoffHook,
    attempts: int | None = 10,
    timeout: Duration | None = 45.0,
    wait_initial: Duration = 0.1,
    wait_max: Duration = 5.0,
    wait_jitter: Duration = 1.0,
    wait_exp_base: float = 2,
    budget: Allowance | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Retry the decorated function, coroutine function or generator function when it raises ``on``.

    ``on`` is an exception type, a tuple of them, or a hook that returns whether to retry, or after how many
    seconds. The wait after attempt n is ``min(wait_max, wait_initial * wait_exp_base**(n - 1) + jitter)``,
    with ``jitter`` drawn between 0 and ``wait_jitter``. ``budget`` is Stormproof's own option.
    """
    context = retry_context(
        on, attempts, timeout, wait_initial, wait_max, wait_jitter, wait_exp_base, budget=budget
    )

    def decorate(fn: Callable[P, T]) -> Callable[P, T]:
        wrapped: Callable[P, T] = wrap(context, fn)
        return wrapped

    return decorate


@dataclass(repr=False, eq=False)
class _Caller:
    """Options to call functions with."""

    attempts: int | None = 10
    timeout: Duration | None = 45.0
    wait_initial: Duration = 0.1
    wait_max: Duration = 5.0
    wait_jitter: Duration = 1.0
    wait_exp_base: float = 2
    _: KW_ONLY
    budget: Allowance | None = None

    def __repr__(self) -> str:
        given = sorted(vars(self).items())
        options = ", ".join(f"{name}={value!r}" for name, value in given if name != "budget")
        return f"<{type(self).__name__}({options})>"

    def _wrap(self, on: ExcOrBackoffHook, fn: Callable[..., Any]) -> Any:
        return wrap(retry_context(on, **vars(self)), fn)


class RetryingCaller(_Caller):
    """Calls functions with retries: ``RetryingCaller(attempts=5)(OSError, fn, *args)``."""

    def __call__(
        self, on: ExcOrBackoffHook, callable_: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        result: T = self._wrap(on, callable_)(*args, **kwargs)
        return result

    def on(self, on: ExcOrBackoffHook, /) -> BoundRetryingCaller:
        """Return a caller that retries ``on``."""
        return BoundRetryingCaller(self, on)


class _BoundCaller(Generic[CallerT]):
    """A caller that knows what to retry."""

    def __init__(self, caller: CallerT, on: ExcOrBackoffHook) -> None:
        self._caller = caller
        self._on = on

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({_shown(self._on)}, {self._caller!r})>"


class BoundRetryingCaller(_BoundCaller[RetryingCaller]):
    """A `RetryingCaller` that knows what to retry."""

    def __call__(self, callable_: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._caller(self._on, callable_, *args, **kwargs)


class AsyncRetryingCaller(_Caller):
    """Awaits coroutine functions with retries."""

    async def __call__(
        self,
        on: ExcOrBackoffHook,
        callable_: Callable[P, Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        result: T = await self._wrap(on, callable_)(*args, **kwargs)
        return result

    def on(self, on: ExcOrBackoffHook, /) -> BoundAsyncRetryingCaller:
        """Return a caller that retries ``on``."""
        return BoundAsyncRetryingCaller(self, on)


class BoundAsyncRetryingCaller(_BoundCaller[AsyncRetryingCaller]):
    """An `AsyncRetryingCaller` that knows what to retry."""

    async def __call__(self, callable_: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._caller(self._on, callable_, *args, **kwargs)


def _shown(on: object) -> str:
    if isinstance(on, tuple):
        return repr(tuple(each.__name__ for each in on))
    return on.__name__ if isinstance(on, type) else guess_name(on)
