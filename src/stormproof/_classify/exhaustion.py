"""Marks, which show an outer layer that an inner one has already retried to exhaustion."""

from __future__ import annotations

from .._primitives.errors import Permanent, RetryAfter, StormproofError
from .._primitives.options import Options
from .foreign_objects import MAX_DEPTH, get, is_a, leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MARK = "__stormproof_mark__"


class Stopped(Options):
    """Why retrying ended. ``reason`` is the word that the `GaveUp` event has, too: "attempts", "budget",
    "within", "hint", "deadline", "cancelled", or the strategy that refused: "circuit", "bulkhead", "limit",
    "throttle". ``attempts`` that were made, ``elapsed`` seconds from the first failure to the end, and
    ``retry_after``: the seconds that the server or the refusal asked for.
    """

    def __init__(
        self, reason: str, attempts: int = 0, elapsed: float = 0.0, retry_after: float | None = None
    ) -> None:
        self.reason = reason
        self.attempts = attempts
        self.elapsed = elapsed
        self.retry_after = retry_after


class Mark:
    """Says that ``layer`` has retried this error to exhaustion, in ``attempts`` calls, and why it stopped.

    ``owner`` is the identity by which a layer knows its own mark; ``around`` the layers that the mark speaks
    to, ``None`` for all. Neither travels in a pickle. ``stopped`` is a `Stopped`, or what to make one of when
    it is asked for.
    """

    __slots__ = ("_stopped", "around", "attempts", "layer", "owner", "reason")

    def __init__(
        self,
        layer: str,
        owner: object,
        attempts: int,
        reason: str = "",
        stopped: Any = None,
        around: Any = None,
    ) -> None:
        self.around = around
        self.layer = layer
        self.owner = owner
        self.attempts = attempts
        self.reason = reason
        self._stopped = stopped

    @property
    def stopped(self) -> Stopped | None:
        """The value of `stops.stopped`."""
        given = self._stopped
        return Stopped(*given) if type(given) is tuple else given

    def speaks_to(self, layer: object, began: int | None = None) -> bool:
        """Return False if an earlier call stored the error, which is new to the call of ``layer`` at hand.

        ``began`` is the moment at which the attempt of a block began.
        """
        return self.around is None or not self.around.lacks(layer, began, lambda e: exhausted_by(e) is self)

    def __repr__(self) -> str:
        return f"Mark({self.layer!r}, attempts={self.attempts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Mark, (self.layer, None, self.attempts, self.reason, self.stopped)


def mark(outcome: Any, mark: object) -> None:
    """Put ``mark`` on an exception or a response; one that refuses attributes is left as it is."""
    try:
        if issubclass(type(outcome), BaseException):
            setattr(outcome, _MARK, mark)
        elif is_a(get(outcome, "extensions"), dict):
            outcome.extensions["stormproof"] = mark
        else:
            outcome.stormproof_mark = mark
    except Exception:
        pass


#: The attributes that are read from an exception which its type does not make a special one.
TELLING = frozenset(
    {"response", "status", "status_code", "headers", "request", "request_info", "_method"}
    | {"_original_response", _MARK}
)
#: What a class may define to answer for any of them.
_ANSWERING = TELLING | {"__getattr__", "__getattribute__", "__class__", "__cause__"}
_MAX_TYPES = 1024

#: Return True if an exception with these attributes has none that is read.
is_silent = TELLING.isdisjoint

#: Exception types met so far, and whether their instances have nothing to read but what is attached to them.
bare_types: dict[type, bool] = {}


def is_bare(error: BaseException) -> bool:
    """Return True if only the type of ``error`` can say anything: no other attribute is read, no cause given.

    The common case, in which no search for marks, responses and hints is needed.
    """
    kind = type(error)
    bare = bare_types.get(kind)
    if bare is None:
        if len(bare_types) >= _MAX_TYPES:
            bare_types.clear()
        bare = bare_types[kind] = _is_bare_type(kind)
    return bare and error.__cause__ is None and (not error.__dict__ or is_silent(error.__dict__))


def _is_bare_type(kind: type) -> bool:
    if type(kind) is not type or issubclass(
        kind, (BaseExceptionGroup, Permanent, RetryAfter, StormproofError)
    ):
        return False
    return all(base.__module__ == "builtins" or _ANSWERING.isdisjoint(base.__dict__) for base in kind.__mro__)


def is_permanent(error: object) -> bool:
    """Return whether ``error``, or one of its explicit causes, is marked as permanent."""
    for _ in range(MAX_DEPTH + 1):
        if is_a(error, Permanent):
            return True
        error = get(error, "__cause__")
        if error is None:
            return False
    return False


def exhausted_by(outcome: object) -> Mark | None:
    """The mark of a layer that has given up on this already, or ``None``.

    Read from the outcome, from its explicit causes, from the response that each carries, and from
    every leaf of an exception group.
    """
    if is_a(outcome, BaseExceptionGroup):
        return _mark_in_chain(outcome) or next(filter(None, map(_mark_in_chain, leaves(outcome))), None)
    return _mark_in_chain(outcome)


def _mark_in_chain(error: Any) -> Mark | None:
    for _ in range(MAX_DEPTH + 1):
        if _holds_nothing(error):
            error = error.__cause__
            if error is None:
                return None
            continue
        own = get(error, _MARK)
        found = own if is_a(own, Mark) else response_mark(error)
        if found is not None:
            return found
        error = get(error, "__cause__")
        if error is None:
            return None
    return None


def _holds_nothing(error: object) -> bool:
    """Return True if neither a mark nor a response is attached; False where the type may hold more."""
    kind = type(error)
    if bare_types.get(kind) or (kind.__module__ == "stormproof" and issubclass(kind, StormproofError)):
        attached = error.__dict__
        return _MARK not in attached and "response" not in attached
    return False


def response_mark(outcome: object) -> Mark | None:
    """The mark on a response, or on the response that an exception carries."""
    response = get(outcome, "response") if is_a(outcome, BaseException) else outcome
    if response is None:
        return None
    extensions = get(response, "extensions")
    found = extensions.get("stormproof") if is_a(extensions, dict) else None
    if not is_a(found, Mark):
        found = get(response, "stormproof_mark")
    return found if is_a(found, Mark) else None
