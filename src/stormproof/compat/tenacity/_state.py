"""State of one call: its attempts, its last outcome, and the errors it may end in."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING, Any, NoReturn, SupportsFloat

from ..._runtime.clock import AMBIENT
from ._utils import get_callback_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

NO_RESULT = object()


class TryAgain(Exception):
    """Raise this in the function to have it called again, whatever ``retry`` says."""


class DoAttempt:
    """Result of ``iter()`` when the function is to be called."""


class DoSleep(float):
    """Result of ``iter()`` that asks for a sleep of this many seconds."""


class BaseAction:
    """Next step, for hooks to look at: ``name`` and the attributes of ``REPR_FIELDS``."""

    REPR_FIELDS: tuple[str, ...] = ()
    NAME: str | None = None

    def __repr__(self) -> str:
        fields = ", ".join(f"{field}={getattr(self, field)!r}" for field in self.REPR_FIELDS)
        return f"{type(self).__name__}({fields})"

    def __str__(self) -> str:
        return repr(self)


class RetryAction(BaseAction):
    """The next step is a retry, ``sleep`` seconds from now."""

    REPR_FIELDS = ("sleep",)
    NAME = "retry"

    def __init__(self, sleep: SupportsFloat) -> None:
        self.sleep = float(sleep)


class Future(futures.Future[Any]):
    """The outcome of one attempt, result or exception."""

    def __init__(self, attempt_number: int) -> None:
        super().__init__()
        self.attempt_number = attempt_number

    @property
    def failed(self) -> bool:
        """Return True if the attempt raised."""
        return self.exception() is not None

    @classmethod
    def construct(cls, attempt_number: int, value: Any, has_exception: bool) -> Self:
        """Return a finished future with the exception or result ``value``."""
        future = cls(attempt_number)
        if has_exception:
            future.set_exception(value)
        else:
            future.set_result(value)
        return future


class RetryError(Exception):
    """The attempts are used up; ``last_attempt`` is the outcome of the last one."""

    def __init__(self, last_attempt: Future) -> None:
        super().__init__(last_attempt)
        self.last_attempt = last_attempt

    def reraise(self) -> NoReturn:
        """Raise what the last attempt raised; this error if it returned."""
        raise original(self.last_attempt) or self

    def __str__(self) -> str:
        return f"{type(self).__name__}[{self.last_attempt}]"


def original(outcome: Future) -> BaseException | None:
    """Return the error of ``outcome``; where that is `TryAgain`, the error it was raised over."""
    error = outcome.exception()
    if isinstance(error, TryAgain):
        return error.__cause__ or error.__context__ or error
    return error


class RetryCallState:
    """The state of one call, which every hook and strategy is given."""

    #: The statistics this call writes; those of its retry object if it has none of its own.
    own_statistics: dict[str, Any] | None = None
    #: Cost that the last retry paid to the budget.
    paid: float | None = None

    def __init__(
        self,
        retry_object: object,
        fn: Callable[..., Any] | None,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        self.start_time: float = AMBIENT.now()
        self.retry_object = retry_object
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.attempt_number = 1
        self.outcome: Future | None = None
        self.outcome_timestamp: float | None = None
        self.idle_for = 0.0
        self.next_action: RetryAction | None = None
        self.upcoming_sleep = 0.0

    @property
    def seconds_since_start(self) -> float | None:
        """Seconds from the start of the call to the last outcome; ``None`` before there is one."""
        return None if self.outcome_timestamp is None else self.outcome_timestamp - self.start_time

    def prepare_for_next_attempt(self) -> None:
        """Forget the last outcome and count one attempt more."""
        self.outcome = self.outcome_timestamp = self.next_action = None
        self.attempt_number += 1

    def set_result(self, val: object) -> None:
        """Record that the attempt returned ``val``."""
        self._settle(val, has_exception=False)

    def set_exception(
        self, exc_info: tuple[type[BaseException], BaseException, TracebackType | None]
    ) -> None:
        """Record that the attempt raised; ``exc_info`` as `sys.exc_info` gives it."""
        self._settle(exc_info[1], has_exception=True)

    def _settle(self, value: object, *, has_exception: bool) -> None:
        self.outcome_timestamp = AMBIENT.now()
        self.outcome = Future.construct(self.attempt_number, value, has_exception)

    def get_fn_name(self) -> str:
        """Return the function's dotted name; in a block, the name of its retry object."""
        return str(self.retry_object) if self.fn is None else get_callback_name(self.fn)

    def __repr__(self) -> str:
        if self.outcome is None:
            result = "none yet"
        elif (error := self.outcome.exception()) is not None:
            result = f"failed ({type(error).__name__} {error})"
        else:
            result = f"returned {self.outcome.result()}"
        slept = float(round(self.idle_for, 2))
        cls = type(self).__name__
        return f"<{cls} {id(self)}: attempt #{self.attempt_number}; slept for {slept}; last result: {result}>"
