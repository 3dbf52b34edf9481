"""Calls that were refused before anything was sent: errors of both worlds.

A refusal is a `grpc.RpcError` with a status for those who catch that, and Stormproof's own error
(`CircuitOpen`, `RateLimited`, ...) for those who catch this. It answers like a call that has ended,
as grpc's own errors do, and its trailers say "do not retry", so that no layer further out does.
"""

from __future__ import annotations

import grpc
import grpc.aio

from .._events.labels import clean
from .._primitives import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._primitives.errors import StormproofError

#: The trailer by which a server steers its caller's retries (gRFC A6), and its "do not".
PUSHBACK = "grpc-retry-pushback-ms"
DO_NOT_RETRY = ((PUSHBACK, "-1"),)


class EndedCall:
    """The part of a call object that is the same for every call that has ended without a server."""

    def cancel(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return False

    def done(self) -> bool:
        return True

    def time_remaining(self) -> float | None:
        return None

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        callback(self)


class RpcRefused(EndedCall, grpc.aio.AioRpcError, errors.StormproofError):
    """The root of these errors. ``code()``, ``details()`` and the rest are there, and no server was asked."""

    def is_active(self) -> bool:
        return False

    def running(self) -> bool:
        return False

    def result(self, timeout: float | None = None) -> Any:
        raise self

    def exception(self, timeout: float | None = None) -> RpcRefused:
        return self

    def traceback(self, timeout: float | None = None) -> Any:
        return self.__traceback__

    def add_callback(self, callback: object) -> bool:
        return False

    def __str__(self) -> str:
        return f"{self.code().name}: {self.details()}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[RpcRefused], args: tuple[Any, ...], state: dict[str, Any]) -> RpcRefused:
    refusal = kind.__new__(kind)
    refusal.args = args
    refusal.__dict__.update(state)
    return refusal


# Each is spelt out, so that tracebacks and type checkers know it by name.


class RpcCircuitOpen(RpcRefused, errors.CircuitOpen):
    """`CircuitOpen`, as UNAVAILABLE."""


class RpcBudgetExhausted(RpcRefused, errors.BudgetExhausted):
    """`BudgetExhausted`, as UNAVAILABLE."""


class RpcThrottled(RpcRefused, errors.Throttled):
    """`Throttled`, as RESOURCE_EXHAUSTED."""


class RpcRateLimited(RpcRefused, errors.RateLimited):
    """`RateLimited`, as RESOURCE_EXHAUSTED."""


class RpcBulkheadFull(RpcRefused, errors.BulkheadFull):
    """`BulkheadFull`, as RESOURCE_EXHAUSTED."""


class RpcDeadlineExceeded(RpcRefused, errors.DeadlineExceeded):
    """`DeadlineExceeded`, as DEADLINE_EXCEEDED."""


class RpcAttemptTimeout(RpcRefused, errors.AttemptTimeout):
    """`AttemptTimeout`, as DEADLINE_EXCEEDED."""


class RpcCancelled(RpcRefused, errors.Cancelled):
    """`Cancelled`, as CANCELLED."""


#: For each of Stormproof's errors, its twin here, and the status that says what it means on the wire and off.
_TWINS: dict[type[StormproofError], tuple[type[RpcRefused], grpc.StatusCode]] = {
    errors.CircuitOpen: (RpcCircuitOpen, grpc.StatusCode.UNAVAILABLE),
    errors.BudgetExhausted: (RpcBudgetExhausted, grpc.StatusCode.UNAVAILABLE),
    errors.Throttled: (RpcThrottled, grpc.StatusCode.RESOURCE_EXHAUSTED),
    errors.RateLimited: (RpcRateLimited, grpc.StatusCode.RESOURCE_EXHAUSTED),
    errors.BulkheadFull: (RpcBulkheadFull, grpc.StatusCode.RESOURCE_EXHAUSTED),
    errors.DeadlineExceeded: (RpcDeadlineExceeded, grpc.StatusCode.DEADLINE_EXCEEDED),
    errors.AttemptTimeout: (RpcAttemptTimeout, grpc.StatusCode.DEADLINE_EXCEEDED),
    errors.Cancelled: (RpcCancelled, grpc.StatusCode.CANCELLED),
}


def _twin(error: StormproofError) -> tuple[type[RpcRefused], grpc.StatusCode]:
    known = (twin for kind, twin in _TWINS.items() if isinstance(error, kind))
    return next(known, (RpcRefused, grpc.StatusCode.UNAVAILABLE))


def status_of(error: StormproofError) -> grpc.StatusCode:
    """The ``grpc.StatusCode`` for one of Stormproof's own errors."""
    return _twin(error)[1]


def as_rpc_error(error: StormproofError) -> RpcRefused:
    """``error`` as one that is a `grpc.RpcError` too, with its cause, traceback, notes and marks."""
    if isinstance(error, RpcRefused):
        return error
    twin, status = _twin(error)
    refusal = twin(status, grpc.aio.Metadata(), grpc.aio.Metadata(*DO_NOT_RETRY), clean(str(error)), "")
    refusal.args = error.args
    refusal.__dict__.update(error.__dict__)
    refusal.__cause__ = error.__cause__
    return refusal.with_traceback(error.__traceback__)
