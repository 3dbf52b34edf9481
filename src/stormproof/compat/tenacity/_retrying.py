"""The retry object: its options, the decision after each outcome, and the loop around a function.

`decide` is the one text of the loop: a generator that yields each hook and strategy to be called and is
sent its answer, so that the sync, the asyncio and the tornado loop differ only in how they call.
"""

from __future__ import annotations

import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..._context.deadlines import ambient, is_off
from ..._runtime.clock import AMBIENT
from ._attempts import AttemptManager
from ._state import DoAttempt, DoSleep, RetryAction, RetryCallState, RetryError, TryAgain, original
from .after import after_nothing
from .before import before_nothing
from .nap import sleep as _sleep
from .retry import ignores_every_result, names_interrupts, retry_if_exception_type
from .stop import stop_never
from .wait import wait_none

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Self

    from ..._strategies.budget.allowance import Allowance
    from .retry import RetryBaseT
    from .stop import StopBaseT
    from .wait import WaitBaseT

    #: Next step: ("attempt", None), ("sleep", seconds), ("return", value) or ("raise", error).
    Step = tuple[str, Any]

#: Defaults: no wait, and every `Exception`.
NO_WAIT, ANY_EXCEPTION = wait_none(), retry_if_exception_type()

#: Attributes that decide whether a call which returns needs anything but its function.
_WATCHED = frozenset({"retry", "before", "enabled"})
_OPTIONS = (
    "sleep", "stop", "wait", "retry", "before", "after", "before_sleep", "reraise", "retry_error_cls",
    "retry_error_callback", "name", "enabled",
)  # fmt: skip


class BaseRetrying(ABC):
    """The options of a retry: a value assigned to an attribute holds from the next outcome on.

    ``budget`` is Stormproof's own option: a `stormproof.Budget` (or another kind) that pays for retries.
    A retry it refuses ends the call as ``stop`` would.
    """

    is_direct = False
    #: Waits unless another ``sleep`` is given.
    default_sleep: Callable[[Any], Any] = staticmethod(_sleep)

    def __init__(
        self,
        sleep: Callable[[int | float], Any] | None = None,
        stop: StopBaseT = stop_never,
        wait: WaitBaseT = NO_WAIT,
        retry: Any = ANY_EXCEPTION,
        before: Callable[[RetryCallState], Any] = before_nothing,
        after: Callable[[RetryCallState], Any] = after_nothing,
        before_sleep: Callable[[RetryCallState], Any] | None = None,
        reraise: bool = False,
        retry_error_cls: type[RetryError] = RetryError,
        retry_error_callback: Callable[[RetryCallState], Any] | None = None,
        name: str | None = None,
        enabled: bool = True,
        *,
        budget: Allowance | None = None,
    ) -> None:
        self.sleep = self.default_sleep if sleep is None else sleep
        self.stop = stop
        self.wait = wait
        self.before = before
        self.after = after
        self.before_sleep = before_sleep
        self.reraise = reraise
        self.retry_error_cls = retry_error_cls
        self.retry_error_callback = retry_error_callback
        self.name = name
        self.enabled = enabled
        self.budget = budget
        self._local = threading.local()
        #: The statistics of the last call of a decorated function; ``None`` after a call of another kind.
        self._latest: list[dict[str, Any] | None] = [None]
        self.retry: RetryBaseT = retry

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name in _WATCHED and "retry" in self.__dict__:
            direct = self.enabled and self.before is before_nothing and ignores_every_result(self.retry)
            object.__setattr__(self, "is_direct", direct)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_local", "_latest")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "_local": threading.local(), "_latest": [None]}.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return "<unknown>" if self.name is None else self.name

    def __repr__(self) -> str:
        names = ("stop", "wait", "sleep", "retry", "before", "after", "name")
        options = ", ".join(f"{option}={getattr(self, option)!r}" for option in names)
        return f"<{type(self).__name__} object at 0x{id(self):x} ({options})>"

    @abstractmethod
    def __call__(self, fn: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        """Call ``fn`` until it succeeds or the retry ends."""

    def copy(self, *args: object, **options: object) -> Self:
        """Return a retry object with these options, and this one's where none is given."""
        given = {**dict(zip(_OPTIONS, args, strict=False)), **options}
        # A subclass may have a constructor that does not know Stormproof's option.
        names = _OPTIONS if self.budget is None else (*_OPTIONS, "budget")
        own: dict[str, Any] = {name: getattr(self, name) for name in names}
        return type(self)(**{**own, **given})

    @property
    def statistics(self) -> dict[str, Any]:
        """The statistics of the last call: of this thread's, unless a decorated function made it."""
        latest = self._latest[0]
        if latest is None:
            latest = self._local.__dict__.setdefault("statistics", {})
        return latest

    def count_in(self, statistics: dict[str, Any]) -> None:
        """Count the calls of this thread in ``statistics``."""
        self._local.statistics = statistics

    def show(self, statistics: dict[str, Any]) -> None:
        """Let `statistics` be those of a decorated function."""
        self._latest[0] = statistics

    def begin(self) -> None:
        """Start the statistics of a call."""
        self._latest[0] = None
        begin_call(self, self.statistics)

    def wraps(self, f: Callable[..., Any]) -> Any:
        """Return ``f`` with this retry around it, as its ``retry``; its ``retry_with`` makes another."""
        return self._dress(f, wrap(self, f))

    def _dress(self, f: Callable[..., Any], wrapped: Any) -> Any:
        def retry_with(*args: object, **kwargs: object) -> Any:
            return self.copy(*args, **kwargs).wraps(f)

        wrapped.retry = self
        wrapped.retry_with = retry_with
        return wrapped

    def iter(self, retry_state: RetryCallState) -> Any:
        """Return what follows from the state: a `DoAttempt`, a `DoSleep`, or the result of the call."""
        return as_action(run_hooks(self.decide(retry_state), retry_state))

    def __iter__(self) -> Iterator[AttemptManager]:
        self.begin()
        retry_state = RetryCallState(self, fn=None, args=(), kwargs={})
        while True:
            action = self.iter(retry_state=retry_state)
            if isinstance(action, DoAttempt):
                yield AttemptManager(retry_state=retry_state)
            elif isinstance(action, DoSleep):
                self.pause(retry_state, action)
            else:
                break

    def pause(self, state: RetryCallState, seconds: DoSleep) -> Any:
        """Wait before the next attempt."""
        state.prepare_for_next_attempt()
        return self.sleep(seconds)

    def decide(self, state: RetryCallState) -> Generator[Callable[..., Any], Any, Step]:
        """Yield the hooks and strategies to be called with ``state``, in turn; return what follows."""
        outcome = state.outcome
        if outcome is None:
            if self.before is not None and self.enabled:
                yield self.before
            return "attempt", None
        error = outcome.exception()
        if not self.enabled or not (yield from self._retryable(error)):
            return self._end(state, error)
        budget = self.budget
        if budget is not None:
            budget.failure(timeout=isinstance(error, TimeoutError))
        if self.after is not None:
            yield self.after
        statistics = self._statistics_of(state)
        statistics["delay_since_first_attempt"] = state.seconds_since_start
        state.upcoming_sleep = 0.0 if _waits_nothing(self.wait) else (yield self.wait)
        reason = None
        if self.stop is not None and (yield self.stop):
            reason = ""
        elif _past_deadline(state.upcoming_sleep):
            reason = "the wait would end past the deadline"
        elif budget is not None and not self._pay(state, budget, error):
            reason = "the retry budget is exhausted"
        if reason is not None:
            return (yield from self._give_up(state, reason))
        state.next_action = RetryAction(state.upcoming_sleep)
        state.idle_for += state.upcoming_sleep
        statistics["idle_for"] = state.idle_for
        statistics["attempt_number"] = state.attempt_number + 1
        if self.before_sleep is not None:
            yield self.before_sleep
        return "sleep", state.upcoming_sleep

    def _retryable(self, error: BaseException | None) -> Generator[Callable[..., Any], Any, bool]:
        if isinstance(error, TryAgain):
            return True
        # Ctrl-C and a cancellation are not failures: they are retried only where they are named.
        if error is not None and not isinstance(error, Exception) and not names_interrupts(self.retry):
            return False
        if is_off():
            return False
        return bool((yield self.retry))

    def _end(self, state: RetryCallState, error: BaseException | None) -> Step:
        if error is not None:
            return "raise", error
        if self.budget is not None:
            self.budget.success(state.paid)
        assert state.outcome is not None
        return "return", state.outcome.result()

    def _pay(self, state: RetryCallState, budget: Allowance, error: BaseException | None) -> bool:
        state.paid = budget.withdraw(timeout=isinstance(error, TimeoutError))
        return state.paid > 0

    def _give_up(self, state: RetryCallState, reason: str) -> Generator[Callable[..., Any], Any, Step]:
        if self.retry_error_callback is not None:
            return "return", (yield self.retry_error_callback)
        outcome = state.outcome
        assert outcome is not None
        last = original(outcome)
        if self.reraise and last is not None:
            failure = last
        else:
            failure = self.retry_error_cls(outcome)
            failure.__cause__ = outcome.exception()
        if reason:
            failure.add_note(f"stormproof: not retried, {reason}")
        return "raise", failure

    def _statistics_of(self, state: RetryCallState) -> dict[str, Any]:
        return self.statistics if state.own_statistics is None else state.own_statistics


def run_hooks(steps: Generator[Callable[..., Any], Any, Step], state: RetryCallState) -> Step:
    """Call what ``steps`` yields, with ``state``, and return what follows."""
    answer: Any = None
    while True:
        try:
            hook = steps.send(answer)
        except StopIteration as done:
            step: Step = done.value
            return step
        answer = hook(state)


def as_action(step: Step) -> Any:
    """Return a step as ``iter()`` does; raise the error of one that ends the call."""
    kind, value = step
    if kind == "raise":
        raise value
    return DoAttempt() if kind == "attempt" else DoSleep(value) if kind == "sleep" else value


def begin_call(retrying: BaseRetrying, statistics: dict[str, Any]) -> None:
    """Set ``statistics`` to those of a call that begins now, and count it in the budget."""
    statistics["start_time"] = AMBIENT.now()
    statistics["attempt_number"] = 1
    statistics["idle_for"] = 0
    statistics["delay_since_first_attempt"] = 0
    if retrying.budget is not None:
        retrying.budget.started()


def copy_names(f: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator that gives a wrapper the name, signature and defaults of ``f``."""
    return functools.wraps(f, (*functools.WRAPPER_ASSIGNMENTS, "__defaults__", "__kwdefaults__"))


def wrap(retrying: BaseRetrying, f: Callable[..., Any]) -> Any:
    """Return ``f`` inside a retry object that calls in a way of its own."""
    statistics: dict[str, Any] = {}

    @copy_names(f)
    def wrapped_f(*args: object, **kwargs: object) -> Any:
        if not retrying.enabled:
            return f(*args, **kwargs)
        copy = retrying.copy()
        copy.count_in(statistics)
        retrying.show(statistics)
        return copy(f, *args, **kwargs)

    wrapped_f.statistics = statistics
    return wrapped_f


def state_of(
    retrying: BaseRetrying,
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    statistics: dict[str, Any],
) -> RetryCallState:
    """Return the state of a call of a decorated function, from the moment at which it began."""
    state = RetryCallState(retrying, fn=f, args=args, kwargs=kwargs)
    state.start_time = statistics["start_time"]
    state.own_statistics = statistics
    return state


def _waits_nothing(wait: object) -> bool:
    # Not "falsy": a strategy may be a container without elements.
    return wait is None or (not callable(wait) and wait == 0)


def _past_deadline(seconds: float) -> bool:
    """Return True if a wait of ``seconds`` would outlast the deadline of the enclosing scope."""
    scope = ambient()
    if scope is None:
        return False
    left = scope.remaining()
    return scope.ended() is not None or (left is not None and seconds >= left)
