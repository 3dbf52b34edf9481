"""The answer of a classifier: try again or not, when, and why."""

from __future__ import annotations

from .._primitives.options import Options, Seconds, choice, flag, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar


_KINDS = ("transient", "timeout", "throttle", "fatal", "pushback")
_set = object.__setattr__


class Verdict(Options):
    """Decision to retry or not, with the server's hint, kind and reason. Truthy if ``retry`` is.

    ``after``: the server's hint in seconds, ``None`` without one, ``math.inf`` for an absurd one.
    ``kind``: ``"timeout"`` pays a budget's timeout price, ``"throttle"`` its throttling price;
    ``"pushback"`` is a server's own do-not-retry, which a throttle budget counts. ``None`` is
    ``"transient"`` or ``"fatal"``, by ``retry``.
    """

    __slots__ = ("after", "kind", "reason", "retry")
    #: One is made for every failure, so the constructor stores validated values without `__setattr__`.
    _is_made = True

    retry: bool
    after: float | None
    kind: str
    reason: str

    RETRY: ClassVar[Verdict]
    FATAL: ClassVar[Verdict]

    def __init__(
        self, retry: bool, after: Seconds | None = None, kind: str | None = None, reason: str = ""
    ) -> None:
        flag("Verdict", "retry", retry)
        if after is not None and not (type(after) is float and after >= 0.0):
            after = seconds("Verdict", "after", after, infinite=True)
        if kind is None:
            kind = "transient" if retry else "fatal"
        else:
            choice("Verdict", "kind", kind, _KINDS)
        if not isinstance(reason, str):
            raise TypeError(f"Verdict: reason must be a string, got {reason!r}")
        if retry and kind in ("fatal", "pushback"):
            raise ValueError(f"Verdict: kind must not be {kind!r} when retry is True")
        _set(self, "retry", retry)
        _set(self, "after", after)
        _set(self, "kind", kind)
        _set(self, "reason", reason)

    def __bool__(self) -> bool:
        return self.retry


Verdict.RETRY = Verdict(True)
Verdict.FATAL = Verdict(False)


def refuse_awaitable(rule: str, answer: object) -> None:
    """Refuse an answer that is still to be awaited: it would always be true. Others count by their truth."""
    if hasattr(answer, "__await__"):
        if callable(close := getattr(answer, "close", None)):
            close()
        raise TypeError(f"{rule}, got {answer!r}")
