"""The error of an attempt that our `Timeout` or `Deadline` cut off: the client's own timeout, and ours."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: One per client library and refusal: a handful.
_kinds: dict[tuple[type, type], Any] = {}


def timed_out(own: Exception, refusal: Exception) -> Exception:
    """``own``, the library's timeout, as an error that is also what ``refusal`` is.

    So that ``except httpx.TimeoutException`` and ``except DeadlineExceeded`` both catch it.
    """
    key = (type(own), type(refusal))
    kind = _kinds.get(key)
    if kind is None:
        names = {"__module__": key[0].__module__, "__qualname__": key[0].__qualname__, "__reduce__": _reduce}
        kind = _kinds[key] = type(key[0].__name__, key, names)
    made: Exception = kind.__new__(kind, *own.args)
    made.args = own.args
    made.__dict__.update({**refusal.__dict__, **own.__dict__})
    made.__cause__ = refusal
    return made


def _reduce(self: Exception) -> tuple[Any, ...]:
    # What is pickled is the library's own error, since the class of both is made here.
    return type(self).__bases__[0], self.args
