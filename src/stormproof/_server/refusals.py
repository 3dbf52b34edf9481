"""The answer for an error that a handler gave up with. Pure."""

from __future__ import annotations

from .._classify.classifier import transient
from .._classify.exhaustion import exhausted_by
from .._classify.foreign_objects import leaves
from .._classify.server_hints import read, should_retry
from .._classify.stops import stopped
from .._primitives.errors import (
    AttemptTimeout,
    BudgetExhausted,
    BulkheadFull,
    Cancelled,
    CircuitOpen,
    DeadlineExceeded,
    RateLimited,
    StormproofError,
    Throttled,
)
from .problem import Problem

_FAILING = "Something this service needs keeps failing"

#: Most specific first: an answer for several errors takes the first of these.
_KNOWN: tuple[tuple[type[StormproofError], int, str, str], ...] = (
    (DeadlineExceeded, 504, "deadline_exceeded", "The time allowed for this request is over"),
    (AttemptTimeout, 504, "upstream_timeout", "Something this service needs took too long"),
    (RateLimited, 429, "rate_limited", "Too many requests"),
    (CircuitOpen, 503, "circuit_open", "Something this service needs is down"),
    (BudgetExhausted, 503, "budget_exhausted", _FAILING),
    (BulkheadFull, 503, "full", "This service is at its limit"),
    (Throttled, 503, "throttled", "Something this service needs is overloaded"),
    (Cancelled, 503, "cancelled", "The work was called off"),
)

#: Failures whose retrying ended for a reason that their caller may know.
_NAMED = {"budget": "budget_exhausted", "circuit": "circuit_open"}


def refusal(error: BaseException) -> Problem | None:
    """Return the answer to ``error``, or ``None`` if it is not a refusal but an error of the application.

    Refusals are Stormproof's own errors, and errors that an inner layer has retried to exhaustion. All
    say ``x-should-retry: false``: the layer that knows best has tried, and every layer that tries
    again multiplies the load. A group is a refusal if every error in it is.
    """
    if not isinstance(error, BaseExceptionGroup):
        return _single(error)
    problems = [_single(leaf) for leaf in leaves(error)]
    if not problems or None in problems:
        return None
    refusals = [problem for problem in problems if problem is not None]
    after = max((problem.after for problem in refusals if problem.after is not None), default=None)
    first = min(refusals, key=_rank)
    return Problem(first.status, first.code, first.title, first.should_retry, after)


def _rank(problem: Problem) -> int:
    codes = [code for _, _, code, _ in _KNOWN]
    return codes.index(problem.code) if problem.code in codes else len(codes)


def _single(error: BaseException) -> Problem | None:
    for kind, status, code, title in _KNOWN:
        if isinstance(error, kind):
            return Problem(status, code, title, False, error.retry_after)
    if isinstance(error, StormproofError):
        return _of_a_key(error)
    if isinstance(error, Exception) and (exhausted_by(error) is not None or is_final_answer(error)):
        verdict = transient(error)
        after = _seconds(getattr(error, "retry_after", None))
        late = verdict.kind == "timeout" or isinstance(error, TimeoutError)
        why = stopped(error)
        if why is not None and why.reason in _NAMED:
            status, code = 503, _NAMED[why.reason]
            after = why.retry_after if after is None else after
        else:
            status, code = (504, "upstream_timeout") if late else (503, "exhausted")
        return Problem(status, code, _FAILING, False, verdict.after if after is None else after)
    return None


def is_final_answer(error: Exception) -> bool:
    """Return True if ``error`` is the answer of a service that said not to retry, which is passed on.

    Only of what would be retried without that word; anything else is the application's own matter.
    """
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if not isinstance(status, int) or (status < 500 and status not in (408, 425, 429)):
        return False
    return should_retry(read(getattr(response, "headers", None))) is False


def _of_a_key(error: StormproofError) -> Problem | None:
    """Return the errors that `idempotent` raises inside a handler; loaded only once one was raised."""
    from ..idempotency import errors

    problems = {
        errors.IdempotencyConflict: IN_PROGRESS,
        errors.IdempotencyMismatch: MISMATCH,
        errors.OutcomeUnknown: UNKNOWN,
        errors.AnswerNotKept: NOT_KEPT,
        errors.StoreUnavailable: NO_STORE,
    }
    return next((problem for kind, problem in problems.items() if isinstance(error, kind)), None)


IN_PROGRESS = Problem(
    409, "idempotency_in_progress", "A request with this Idempotency-Key is in progress", True
)
MISMATCH = Problem(422, "idempotency_mismatch", "This Idempotency-Key was used with another request", False)
UNKNOWN = Problem(
    409, "idempotency_unknown", "It is not known how the request with this Idempotency-Key ended", False
)
NOT_KEPT = Problem(
    409,
    "idempotency_not_kept",
    "The request with this Idempotency-Key is done; its answer was not kept",
    False,
)
NO_STORE = Problem(503, "idempotency_store", "Idempotency keys cannot be checked at the moment", None, 1.0)


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and value >= 0 else None
