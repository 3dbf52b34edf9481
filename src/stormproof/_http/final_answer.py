"""The caller's result when a policy ended in an error: the client's own response, or its own exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .._classify import exhaustion
from .._classify.fault_readers import fault_of
from .._classify.stops import stopped
from .._primitives.errors import (
    AttemptTimeout,
    Cancelled,
    DeadlineExceeded,
    Permanent,
    StormproofError,
)
from .._runtime.strands import origin
from .._strategies.retry.call import note
from .timeouts import timed_out

if TYPE_CHECKING:
    from .exchange import Exchange


class NotRetried(NamedTuple):
    """On a failed response that was not retried: how many ``attempts`` there were, and the ``reason``.

    A `Mark` says instead that retrying was given up; both have these two attributes.
    """

    attempts: int
    reason: str


def final_answer(exchange: Exchange, error: Exception) -> Any:
    """The response for the caller, or the exception to raise, of a policy that ended in ``error``.

    It is the client's own wherever there was an answer at all.
    """
    response = exchange.failed_response(error)
    if response is not None:
        _mark_response(exchange, response, error)
        return response
    if isinstance(error, Permanent):
        return error.error
    if not isinstance(error, StormproofError):
        _explain(exchange, error)
        return error
    if isinstance(error, Cancelled):
        return error
    last = exchange.last
    if last is None:
        is_cut_off = isinstance(error, AttemptTimeout) or (
            exchange.started and isinstance(error, TimeoutError)
        )
        if is_cut_off:
            return _mark_if_out_of_time(exchange, _as_own(exchange, error))
        ended = _error_of_last_attempt(exchange, error)
        return error if ended is None else _given_up(exchange, error, ended)
    return _mark_if_out_of_time(exchange, error) if error is last else _given_up(exchange, error, last)


def _mark_response(exchange: Exchange, response: object, error: Exception) -> None:
    mark = exhaustion.exhausted_by(error)
    if mark is None and exchange.rules.retries and (why := exchange.veto(error)) is not None:
        exhaustion.mark(response, NotRetried(exchange.number, f"not sent again: {why}"))
    elif mark is not None:
        exhaustion.mark(response, mark)


def _explain(exchange: Exchange, error: Exception) -> None:
    """Note on ``error`` why it was not retried, if it is retryable and only the request forbade it.

    The retry loop has done so already, unless a library names the request on its errors: then the policy's
    classifier saw it before the loop could ask.
    """
    rules = exchange.rules
    fault = fault_of(error, rules.settings) if rules.classifies else None
    if fault is None or not fault.retry or exhaustion.exhausted_by(error) is not None:
        return
    why = exchange.veto(error)
    if why is not None and not any(why in line for line in getattr(error, "__notes__", ())):
        note(error, f"{_tried(exchange)}; stopped: not sent again: {why}")


def _tried(exchange: Exchange) -> str:
    return f"{exchange.number} attempt{'' if exchange.number == 1 else 's'}"


def _error_of_last_attempt(exchange: Exchange, refusal: StormproofError) -> Exception | None:
    """Return the error of the last attempt if it was cut off before ``refusal``; ``None`` without one."""
    ended = exchange.before if refusal.stopped is None else refusal.__cause__
    if isinstance(ended, AttemptTimeout):
        return _as_own(exchange, ended)
    return None if isinstance(ended, StormproofError) or not isinstance(ended, Exception) else ended


def _as_own(exchange: Exchange, refusal: Exception) -> Exception:
    return timed_out(exchange.port.timeout_error(exchange.request, str(refusal)), refusal)


def _mark_if_out_of_time(exchange: Exchange, error: Exception) -> Exception:
    """``error``, marked if it says that all the time is over: layers further out have none either."""
    if isinstance(error, DeadlineExceeded):
        refusal = error.__cause__ if isinstance(error.__cause__, StormproofError) else error
        _mark(exchange, error, str(refusal), refusal)
    return error


def _given_up(exchange: Exchange, refusal: StormproofError, last: Exception) -> Any:
    """The last answer, marked: an outer layer must stop where this one was refused."""
    reason = f"{type(refusal).__name__}: {refusal}"
    response = exchange.failed_response(last)
    answer = last if response is None else response
    _mark(exchange, answer, reason, refusal)
    if response is None and refusal.__cause__ is not last:
        note(last, f"{_tried(exchange)}; stopped: {reason}")
    return answer


def _mark(exchange: Exchange, outcome: object, reason: str, refusal: BaseException) -> None:
    rules, stop = exchange.rules, stopped(refusal)
    exhaustion.mark(outcome, exhaustion.Mark(rules.name, rules, exchange.number, reason, stop, origin()))
