"""The retries: their waits and stops, and the blocks, callers and decorators made of them."""

from __future__ import annotations

import datetime as dt
import inspect

# The whole module: tests replace random.uniform.
import random
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from copy import copy
from typing import TYPE_CHECKING, Any

from ..._classify.verdict import Verdict
from ..._policy.policy import Policy
from ..._strategies.retry.backoff import Exponential
from ..._strategies.retry.retry import Retry
from .. import tenacity as _t
from ._config import CONFIG
from .instrumentation._data import RetryDetails, guess_name

if TYPE_CHECKING:
    from typing import Self

    from ..._strategies.budget.allowance import Allowance

Duration = float | dt.timedelta
ExcOrBackoffHook = (
    type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool | float | dt.timedelta]
)


def _seconds(duration: Duration) -> float:
    return float(duration.total_seconds() if isinstance(duration, dt.timedelta) else duration)


class Attempt:
    """One attempt of a block: a context manager that catches what is to be retried."""

    __slots__ = ("_manager", "_next_wait_fn")

    def __init__(self, attempt: Any, next_wait_fn: Callable[[int], float] | None) -> None:
        self._manager = attempt
        self._next_wait_fn = next_wait_fn

    @property
    def num(self) -> int:
        """The number of this attempt, from 1."""
        number: int = self._manager.retry_state.attempt_number
        return number

    @property
    def next_wait(self) -> float:
        """The wait before the next attempt, without jitter; 0 where there is none."""
        return 0.0 if self._next_wait_fn is None else self._next_wait_fn(self.num)

    def __repr__(self) -> str:
        return f"<Attempt num={self.num}, next_wait={self.next_wait}>"

    def __enter__(self) -> None:
        """Begin the attempt."""

    def __exit__(self, *details: object) -> bool | None:
        caught: bool | None = self._manager.__exit__(*details)
        return caught


class _PlainAttempt:
    """Attempt where retries are off, with the interface of tenacity's: it catches nothing."""

    class retry_state:  # noqa: N801 - what tenacity calls it
        attempt_number = 1

    def __exit__(self, *details: object) -> None:
        """Let everything pass."""


class _HookCondition(_t.retry_base):
    """Retries what a backoff hook says, after the wait that it gives."""

    ignores_results = True

    def __init__(self, hook: Callable[[Exception], Any]) -> None:
        self.hook = hook

    def __call__(self, retry_state: Any) -> bool:
        error = retry_state.outcome.exception()
        if error is None:
            return False
        answer = self.hook(error)
        retry_state.stamina_wait = None
        if answer is None:
            warnings.warn(
                f"Backoff hook {self.hook!r} returned None: it must return a bool, a float or a timedelta.",
                stacklevel=2,
            )
            return False
        if not isinstance(answer, bool):
            retry_state.stamina_wait = _seconds(answer)
            return True
        return answer


def _make_stop(*, attempts: int | None, timeout: Duration | None) -> Any:
    """Return tenacity's stop for the two limits; ``None`` does not limit."""
    stops: list[Any] = []
    if attempts is not None:
        stops.append(_t.stop_after_attempt(attempts))
    if timeout is not None:
        stops.append(_t.stop_after_delay(timeout))
    return stops[0] | stops[1] if len(stops) == 2 else stops[0] if stops else _t.stop_never


class _Waiting:
    """Leaves the context managers of the hooks after the wait, however it ends."""

    def _leave(self, state: _t.RetryCallState) -> None:
        opened: list[AbstractContextManager[Any]] = state.__dict__.pop("stamina_opened", [])
        for manager in reversed(opened):
            manager.__exit__(None, None, None)


class _Retrying(_Waiting, _t.Retrying):
    def pause(self, state: Any, seconds: Any) -> None:
        try:
            super().pause(state, seconds)
        finally:
            self._leave(state)


class _AsyncRetrying(_Waiting, _t.AsyncRetrying):
    async def pause(self, state: Any, seconds: Any) -> None:
        try:
            state.prepare_for_next_attempt()
            await self.sleep(seconds)
        finally:
            self._leave(state)


class _RetryContextIterator:
    """``for attempt in retry_context(on=...): with attempt: ...`` (or ``async for``)."""

    def __init__(
        self,
        on: ExcOrBackoffHook,
        attempts: int | None = 10,
        timeout: Duration | None = 45.0,
        wait_initial: Duration = 0.1,
        wait_max: Duration = 5.0,
        wait_jitter: Duration = 1.0,
        wait_exp_base: float = 2,
        *,
        budget: Allowance | None = None,
    ) -> None:
        if timeout is not None and _seconds(timeout) == 0:
            warnings.warn("timeout=0 means no retries will be attempted", stacklevel=_outside())
        self._attempts = attempts
        self._timeout = timeout
        self._on: Any = on
        #: The name and the arguments of the call that a block stands for.
        self._call: tuple[str, Any, Any] = ("<context block>", (), {})
        self._wait_initial = _seconds(wait_initial)
        self._wait_max = _seconds(wait_max)
        self._wait_jitter = _seconds(wait_jitter)
        self._wait_exp_base = wait_exp_base
        self._stop = _make_stop(attempts=attempts, timeout=timeout)
        self.options: dict[str, Any] = {
            "retry": _t.retry_if_exception_type(on) if isinstance(on, (type, tuple)) else _HookCondition(on),
            "stop": self._should_stop,
            "wait": self._jittered_backoff_for_rcs,
            "before_sleep": self._call_hooks,
            "reraise": True,
            "budget": budget,
        }

    def policy(self) -> Policy:
        """Return a policy that retries as often and after the same waits. ``timeout`` becomes ``within``.

        Instrumentation and `set_testing` have no counterpart.
        """
        if self._attempts is None and self._timeout is None:
            raise ValueError("policy_of: attempts or timeout must end the retrying, got None for both")
        longest, jitter = self._wait_max, self._wait_jitter
        backoff = Exponential(
            min(self._wait_initial, longest),
            factor=self._wait_exp_base,
            cap=longest,
            jitter=lambda u, ceiling: min(longest, ceiling + u * jitter),
        )
        within = None if self._timeout is None else _seconds(self._timeout)
        on = self._on if isinstance(self._on, (type, tuple)) else self._verdict
        budget = self.options["budget"]
        return Policy(Retry(on, attempts=self._attempts, within=within, backoff=backoff, budget=budget))

    def _verdict(self, error: BaseException) -> Verdict:
        """Answer of the backoff hook: the seconds that it gives count as the server's hint."""
        answer = self._on(error)
        after = None if answer is None or isinstance(answer, bool) else _seconds(answer)
        return Verdict(answer is True or after is not None, after)

    def of_call(
        self, fn: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> _RetryContextIterator:
        """Return the same retry around a call of ``fn``, for hooks to name."""
        named = copy(self)
        named.name_call(guess_name(fn), args, kwargs)
        return named

    def name_call(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Let hooks name the call that the attempts belong to."""
        self._call = (name, args, kwargs)
        self.options = {**self.options, "before_sleep": self._call_hooks}

    def __iter__(self) -> Iterator[Attempt]:
        if not CONFIG.is_active:
            yield Attempt(_PlainAttempt(), None)
            return
        for attempt in _Retrying(**self.options):
            yield Attempt(attempt, self.next_wait())

    def __aiter__(self) -> AsyncIterator[Attempt]:
        return _AsyncAttempts(self)

    def next_wait(self) -> Callable[[int], float] | None:
        return None if CONFIG.testing is not None else self._backoff_for_attempt_number

    def _should_stop(self, state: _t.RetryCallState) -> bool:
        testing = CONFIG.testing
        if testing is None:
            stop: bool = self._stop(state)
            return stop
        return bool(state.attempt_number >= testing.get_attempts(self._attempts))

    def _backoff_for_attempt_number(self, num: int) -> float:
        """Return the wait after attempt ``num``, without jitter."""
        try:
            wait: float = self._wait_initial * self._wait_exp_base ** (num - 1)
        except OverflowError:
            return self._wait_max
        return min(self._wait_max, wait)

    def _jittered_backoff_for_rcs(self, rcs: _t.RetryCallState) -> float:
        """Return the wait after the attempt that ``rcs`` describes."""
        if CONFIG.testing is not None:
            return 0.0
        given: float | None = getattr(rcs, "stamina_wait", None)
        if given is not None:
            return given
        jitter = random.uniform(0, self._wait_jitter) if self._wait_jitter else 0.0
        return min(self._wait_max, self._backoff_for_attempt_number(rcs.attempt_number) + jitter)

    def _call_hooks(self, state: Any) -> None:
        known = state.fn is not None
        name, args, kwargs = (guess_name(state.fn), state.args, state.kwargs) if known else self._call
        details = RetryDetails(
            name=name,
            args=args,
            kwargs=kwargs,
            retry_num=state.attempt_number,
            wait_for=state.upcoming_sleep,
            waited_so_far=state.idle_for - state.upcoming_sleep,
            caused_by=state.outcome.exception(),
        )
        opened = state.stamina_opened = []
        for hook in CONFIG.on_retry:
            manager = hook(details)
            if isinstance(manager, AbstractContextManager):
                manager.__enter__()
                opened.append(manager)


class _AsyncAttempts:
    """The attempts of one block in a coroutine."""

    def __init__(self, context: _RetryContextIterator) -> None:
        self._context = context
        self._attempts: Any = aiter(_AsyncRetrying(**context.options)) if CONFIG.is_active else None
        self._begun = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Attempt:
        if self._attempts is not None:
            return Attempt(await anext(self._attempts), self._context.next_wait())
        if self._begun:
            raise StopAsyncIteration
        self._begun = True
        return Attempt(_PlainAttempt(), None)


def _outside() -> int:
    """Return the ``stacklevel`` of the first caller outside this package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level
