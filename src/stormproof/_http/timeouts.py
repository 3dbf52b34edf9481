"""The time left for a call, and the error of an attempt that our `Timeout` or `Deadline` cut off.

That error is the client's own timeout, and ours.
"""

from __future__ import annotations

from .._classify.fault_readers import fault_of
from .._context.deadlines import ambient
from .._primitives.errors import StormproofError
from .._runtime.maps import Recent
from .._strategies.timeout import AttemptScope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._classify.settings import ClassifierSettings
    from .._context.deadlines import Scope

#: A timer may ring a little before the clock that it was set by.
_GRAIN_S = 0.01

#: The classes of both, one per library's timeout and refusal: a handful, unless classes are made at run time.
_kinds = Recent(64)


def call_remaining(scope: Scope) -> float | None:
    """Seconds left for the whole call in ``scope`` and those around it, a `Timeout` of one attempt aside."""
    left = [each.own_remaining() for each in scope.chain() if not isinstance(each, AttemptScope)]
    return min((seconds for seconds in left if seconds is not None), default=None)


def as_seen(error: Exception, settings: ClassifierSettings) -> Exception:
    """``error`` of an attempt, as ours too if it is a timeout and the time that is over was a scope's."""
    scope = ambient()
    if scope is None or scope.off or isinstance(error, StormproofError):
        return error
    tightest = scope.tightest()
    left = tightest.own_remaining()
    if left is None or left > _GRAIN_S or tightest.cancelled:
        return error
    fault = fault_of(error, settings)
    if fault is None or fault.kind != "timeout":
        return error
    return timed_out(error, tightest.refusal()).with_traceback(error.__traceback__)


def timed_out(own: Exception, refusal: Exception) -> Exception:
    """``own``, the library's timeout, as an error that is also what ``refusal`` is.

    So that ``except httpx.TimeoutException`` and ``except DeadlineExceeded`` both catch it. Where no class
    can be both, ``own`` itself, with the refusal as its cause.
    """
    if isinstance(refusal, type(own)):
        # A plain TimeoutError, which ours are as well.
        refusal.__cause__ = own
        return refusal
    key = (type(own), type(refusal))
    kind = _kinds.get(key)
    if kind is None:
        names = {"__module__": key[0].__module__, "__qualname__": key[0].__qualname__, "__reduce__": _reduce}
        try:
            kind = type(key[0].__name__, key, names)
        except TypeError:
            if own.__cause__ is None:
                own.__cause__ = refusal
            return own
        _kinds.put(key, kind)
    combined: Exception = kind.__new__(kind, *own.args)
    combined.args = own.args
    combined.__dict__.update({**refusal.__dict__, **own.__dict__})
    combined.__cause__ = refusal
    return combined


def _reduce(self: Exception) -> tuple[Any, ...]:
    # What is pickled is the library's own error, since the class of both is made here.
    return type(self).__bases__[0], self.args
