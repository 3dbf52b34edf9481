"""Marks, which show an outer layer that an inner one has already retried to exhaustion."""

from __future__ import annotations

from .._primitives.errors import Permanent, RetryAfter, StormproofError
from .._primitives.options import Options
from .._runtime import strands
from .foreign_objects import MAX_DEPTH, get, is_a, leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MARK = "__stormproof_mark__"


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

    ``owner`` is the identity by which a layer knows its own mark; ``origin`` says where and when it was made,
    and so to which calls it speaks; ``None``: to all. Neither travels in a pickle. ``stopped`` is a
    `Stopped`, or what to make one of when it is asked for.
    """

    def __init__(
        self,
        layer: str,
        owner: object,
        attempts: int,
        reason: str = "",
        stopped: Any = None,
        origin: Any = None,
    ) -> None:
        self.origin = origin
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

    def speaks_to(self, owner: object, began: int | None) -> bool:
        """Return False for a mark of ``owner``'s own, or of an earlier call, whose error was stored.

        ``began`` is the moment at which the attempt of the layer that asks began; ``None``: not known.
        """
        origin = self.origin
        if origin is None:
            return self.owner != owner
        if began is not None and origin[0] <= began:
            return False
        is_here = strands.is_here(origin)
        if is_here and began is not None:
            # The layer is at work around the one that made the mark, even if it is the same one.
            self.owner = self
        if self.owner == owner:
            return False
        return is_here or strands.reaches(origin, lambda error: exhausted_by(error) is self)

    def leave_with_result(self) -> None:
        """Note that what it is on is returned, not raised: no task or future can be asked who has it."""
        if self.origin is not None:
            moment, strand, thread, _ = self.origin
            self.origin = moment, strand, thread, strands.HANDS_OVER

    def __repr__(self) -> str:
        return f"Mark({self.layer!r}, attempts={self.attempts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Mark, (self.layer, None, self.attempts, self.reason, self.stopped)


def mark(outcome: Any, mark: Any) -> None:
    """Put ``mark`` on an exception or a response; one that refuses attributes is left as it is."""
    try:
        if issubclass(type(outcome), BaseException):
            outcome.__stormproof_mark__ = mark
            return
        if is_a(mark, Mark):
            mark.leave_with_result()
        if is_a(get(outcome, "extensions"), dict):
            outcome.extensions["stormproof"] = mark
        else:
            outcome.stormproof_mark = mark
    except Exception:
        pass


#: The attributes that are read from an exception which its type does not make a special one.
READ_ATTRIBUTES = frozenset(
    {"response", "status", "status_code", "headers", "request", "request_info", "_method"}
    | {"_original_response", MARK}
)
#: Attributes that a class may define for all of its instances.
_ANSWERING = READ_ATTRIBUTES | {"__getattr__", "__getattribute__", "__class__", "__cause__"}
_MAX_TYPES = 1024

#: Return True if an exception with these attributes has none that is read.
is_silent = READ_ATTRIBUTES.isdisjoint

#: Exception types seen so far: True if their instances have nothing to read but attached attributes.
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
    return bare and error.__cause__ is None and (not (attached := error.__dict__) or is_silent(attached))


def _is_bare_type(kind: type) -> bool:
    if type(kind) is not type or issubclass(
        kind, (BaseExceptionGroup, Permanent, RetryAfter, StormproofError)
    ):
        return False
    return all(base.__module__ == "builtins" or _ANSWERING.isdisjoint(base.__dict__) for base in kind.__mro__)


def is_permanent(error: object) -> bool:
    """Return True if ``error``, a leaf of it, or an explicit cause of either is marked as permanent."""
    errors = leaves(error, groups=True) if is_a(error, BaseExceptionGroup) else ()
    return _is_permanent_chain(error) or any(map(_is_permanent_chain, errors))


def _is_permanent_chain(error: object) -> bool:
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
    all that an exception group holds.
    """
    if is_a(outcome, BaseExceptionGroup):
        errors = leaves(outcome, groups=True)
        return _mark_in_chain(outcome) or next(filter(None, map(_mark_in_chain, errors)), None)
    return _mark_in_chain(outcome)


def _mark_in_chain(error: Any) -> Mark | None:
    for _ in range(MAX_DEPTH + 1):
        if _holds_nothing(error):
            error = error.__cause__
            if error is None:
                return None
            continue
        own = get(error, MARK)
        mark = own if is_a(own, Mark) else response_mark(error)
        if mark is not None:
            return mark
        error = get(error, "__cause__")
        if error is None:
            return None
    return None


def _holds_nothing(error: object) -> bool:
    """Return True if neither a mark nor a response is attached; False where the type may hold more."""
    kind = type(error)
    if bare_types.get(kind) or (kind.__module__ == "stormproof" and issubclass(kind, StormproofError)):
        attached = error.__dict__
        return MARK not in attached and "response" not in attached
    return False


def response_mark(outcome: object) -> Mark | None:
    """The mark on a response, or on the response that an exception carries."""
    response = get(outcome, "response") if is_a(outcome, BaseException) else outcome
    if response is None:
        return None
    extensions = get(response, "extensions")
    mark = extensions.get("stormproof") if is_a(extensions, dict) else None
    if not is_a(mark, Mark):
        mark = get(response, "stormproof_mark")
    return mark if is_a(mark, Mark) else None
