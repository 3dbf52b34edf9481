"""Why retrying ended: the reasons, the refusal that each stands for, and `stopped`, which reads them."""

from __future__ import annotations

from .._primitives.errors import (
    BudgetExhausted,
    BulkheadFull,
    Cancelled,
    CircuitOpen,
    DeadlineExceeded,
    RateLimited,
    StormproofError,
    Throttled,
)
from .._primitives.options import Options
from .exhaustion import exhausted_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_set = object.__setattr__

#: The refusal that a reason stands for; `within` is the user's time too.
REFUSALS: dict[str, type[StormproofError]] = {
    "budget": BudgetExhausted,
    "cancelled": Cancelled,
    "deadline": DeadlineExceeded,
    "within": DeadlineExceeded,
    "circuit": CircuitOpen,
    "bulkhead": BulkheadFull,
    "limit": RateLimited,
    "throttle": Throttled,
}


class Stopped(Options):
    """Why retrying ended. ``reason`` is the word that the `GaveUp` event has, too: "attempts", "budget",
    "within", "hint", "deadline", "cancelled", or the strategy that refused: "circuit", "bulkhead", "limit",
    "throttle". ``attempts`` that were made, ``elapsed`` seconds from the first failure to the end, and
    ``retry_after``: the seconds that the server or the refusal asked for.
    """

    __slots__ = _fields = ("reason", "attempts", "elapsed", "retry_after")

    reason: str
    attempts: int
    elapsed: float
    retry_after: float | None

    def __init__(
        self, reason: str, attempts: int = 0, elapsed: float = 0.0, retry_after: float | None = None
    ) -> None:
        # One by one: this is made for every call that gives up.
        _set(self, "reason", reason)
        _set(self, "attempts", attempts)
        _set(self, "elapsed", elapsed)
        _set(self, "retry_after", retry_after)


def stopped(error: Any) -> Stopped | None:
    """Return why no (further) attempt was made, for an error or response that left a policy.

    ``None`` if retrying was not stopped: the error was not worth a retry, or no policy has seen it.
    """
    if isinstance(error, StormproofError):
        if error._stopped is not None:
            found: Stopped = error._stopped
            return found
        reason = reason_of(error)
        if reason is not None:
            return Stopped(reason, retry_after=error.retry_after)
    mark = exhausted_by(error)
    return None if mark is None else mark.stopped


def reason_of(refusal: BaseException) -> str | None:
    """Return the reason that ``refusal`` stands for; ``None`` if it is none of ours."""
    return next((reason for reason, kind in REFUSALS.items() if isinstance(refusal, kind)), None)


def refusal_in(error: BaseException) -> type[StormproofError] | None:
    """Return the refusal for which retrying ``error`` was stopped; ``None`` for any other end."""
    mark = exhausted_by(error)
    return None if mark is None or mark.stopped is None else REFUSALS.get(mark.stopped.reason)
