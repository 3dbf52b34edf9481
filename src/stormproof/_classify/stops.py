"""Why retrying ended: the reasons, the refusal that each stands for, and `stopped`, which reads them."""

from __future__ import annotations

from .._primitives import errors
from .._primitives.errors import StormproofError
from .exhaustion import MARK, Stopped, exhausted_by

#: The refusal that a reason stands for; `within` is the user's time too.
REFUSALS: dict[str, type[StormproofError]] = {
    "budget": errors.BudgetExhausted,
    "cancelled": errors.Cancelled,
    "deadline": errors.DeadlineExceeded,
    "within": errors.DeadlineExceeded,
    "circuit": errors.CircuitOpen,
    "bulkhead": errors.BulkheadFull,
    "limit": errors.RateLimited,
    "throttle": errors.Throttled,
}


def stopped(error: object) -> Stopped | None:
    """Return why no (further) attempt was made, for an error or response that left a policy.

    ``None`` if retrying was not stopped: the error was not worth a retry, or no policy has seen it.
    """
    if isinstance(error, StormproofError):
        if error.stopped is not None:
            stop: Stopped = error.stopped
            return stop
        if (reason := reason_of(error)) is not None:
            # A mark of its own: it was retried. That of its cause is another call's.
            own = error.__dict__.get(MARK)
            return Stopped(reason, retry_after=error.retry_after) if own is None else own.stopped
    mark = exhausted_by(error)
    return None if mark is None else mark.stopped


def reason_of(refusal: BaseException) -> str | None:
    """Return the reason of ``refusal``; ``None`` if it is not a refusal of Stormproof's."""
    return next((reason for reason, kind in REFUSALS.items() if isinstance(refusal, kind)), None)


def refusal_in(error: BaseException) -> type[StormproofError] | None:
    """Return the refusal for which retrying ``error`` was stopped; ``None`` for any other end."""
    mark = exhausted_by(error)
    return None if mark is None or mark.stopped is None else REFUSALS.get(mark.stopped.reason)
