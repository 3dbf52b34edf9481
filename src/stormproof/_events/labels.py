"""Names and summaries of calls, as events, errors, notes and the log show them."""

from __future__ import annotations

from .._primitives import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def label(owner: str, value: Any) -> str | None:
    """`options.label` with control characters escaped.

    Not for names that processes share: there a changed name would mean another resource.
    """
    name = options.label(owner, value)
    return None if name is None else clean(name)


def tried(attempts: int, elapsed: float) -> str:
    """Return the number of attempts and the time since the first failure (no clock is read before)."""
    if attempts == 1 and elapsed < 0.0005:
        return "1 attempt"
    plural = "" if attempts == 1 else "s"
    return f"{attempts} attempt{plural} in {elapsed:.3f} s since the first failure"


def error_name(error: BaseException | None) -> str | None:
    """The exception's type, never its text: that may hold arguments or secrets."""
    if error is None:
        return None
    kind = type(error)
    home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return clean(home + kind.__qualname__)


#: Commands that a user of Redis needs on our keys: those that run scripts, and those in our scripts.
_GRANTS = "~PREFIX:* +eval +evalsha +time +del +hdel +hgetall +hmget +hset +pexpire +set"


def store_fault(error: str | None) -> str:
    """Return why a store cannot be used, from the error's name; for a denied command, the missing grant."""
    name = error or "unknown"
    if name.endswith("NoPermissionError"):
        return f"{name}: its user needs {_GRANTS}, and +scan +pttl +type to inspect it"
    return name


def clean(text: str) -> str:
    """``text`` with control characters escaped, at most 200 characters."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:200])
    return text if len(text) <= 200 else text[:197] + "..."
