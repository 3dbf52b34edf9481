"""Exceptions that Stormproof raises, and the two that a caller may raise to steer it."""

from __future__ import annotations

from .options import Seconds
from .options import seconds as _seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class StormproofError(Exception):
    """The root of Stormproof's own refusals. The error that led here, if any, is ``__cause__``."""

    #: Seconds after which trying again may help; ``None`` when unknown.
    retry_after: float | None = None
    #: Result of `stopped` for a refusal that ended a retried call.
    stopped: Any = None


class BudgetExhausted(StormproofError):
    """The retry budget is empty: no further attempt was made, without a sleep."""


class DeadlineExceeded(StormproofError, TimeoutError):
    """The deadline is exceeded, or the next wait would exceed it. ``scope`` is the deadline's name."""

    def __init__(self, message: str = "", scope: str = "deadline") -> None:
        super().__init__(message)
        self.scope = scope


class AttemptTimeout(StormproofError, TimeoutError):
    """One attempt was cut off by ``Timeout``. Transient: another attempt may follow."""


class CircuitOpen(StormproofError):
    """The breaker refuses calls. ``last_failure`` is the error that opened it, ``state`` its state."""

    def __init__(
        self,
        message: str = "",
        retry_after: float | None = None,
        last_failure: BaseException | None = None,
        state: str = "open",
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.last_failure = last_failure
        self.state = state

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {**self.__dict__, "last_failure": _portable(self.last_failure)}


def _portable(error: BaseException | None) -> BaseException | None:
    """Return ``error`` if it can be copied, as a pickle would copy it, else None."""
    from copy import deepcopy

    try:
        deepcopy(error)
    except Exception:
        return None
    return error


class RateLimited(StormproofError):
    """The limiter refuses this call for now."""

    def __init__(self, message: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BulkheadFull(StormproofError):
    """Every place is taken, and so is the queue (or the wait in it was too long)."""


class Throttled(StormproofError):
    """The adaptive throttle or limit sheds this call to protect the backend."""


class Cancelled(StormproofError):
    """The enclosing scope was cancelled with ``scope.cancel()``."""


#: Refusals of an attempt that a strategy did not admit, so that it never reached the function.
ADMISSION_REFUSALS = (CircuitOpen, RateLimited, BulkheadFull, Throttled)


class Permanent(Exception):
    """Raise ``Permanent(err)`` to stop retrying: the caller gets ``err`` itself."""

    def __init__(self, error: BaseException) -> None:
        if not isinstance(error, BaseException):
            raise TypeError(f"Permanent: error must be an exception, got {error!r}")
        super().__init__(error)
        self.error = error


class RetryAfter(Exception):
    """Raise ``RetryAfter(seconds, cause)`` to ask for a wait of at least ``seconds``.

    ``cause`` decides whether a retry happens at all, and is what the caller gets in the end.
    Without one (neither given nor as ``raise ... from cause``) the mark itself is retryable.
    """

    def __init__(self, seconds: Seconds, cause: BaseException | None = None) -> None:
        self.seconds = _seconds("RetryAfter", "seconds", seconds)
        if cause is not None and not isinstance(cause, BaseException):
            raise TypeError(f"RetryAfter: cause must be an exception, got {cause!r}")
        super().__init__(self.seconds, cause)
        self.cause = cause


for _kind in list(globals().values()):
    # Named by the module that users import them from, even before it is imported: events and logs must agree.
    if isinstance(_kind, type):
        _kind.__module__ = "stormproof"
