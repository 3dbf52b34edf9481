"""Defensive reading of foreign objects: any attribute may be missing, of an odd type, or raise."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard, TypeVar

    T = TypeVar("T")

#: A chain of causes is followed this far: past any real one, and no cycle gets beyond it.
MAX_DEPTH = 16
MAX_LEAVES = 10_000
_MAX_TEXT = 4096


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """``isinstance`` for foreign objects: it asks the type only, as a proxy's ``__class__`` may raise."""
    return issubclass(type(value), kind)


def get(owner: object, name: str) -> Any:
    """An attribute, or ``None`` when there is none or reading it raises."""
    try:
        return getattr(owner, name, None)
    except Exception:
        return None


def called(owner: object, name: str) -> Any:
    """Return the result of the method ``name``, or ``None``."""
    method = get(owner, name)
    try:
        return method() if callable(method) else method
    except Exception:
        return None


def text_of(error: object) -> str:
    """The beginning of the message; empty if it cannot be read."""
    try:
        return str(error)[:_MAX_TEXT]
    except Exception:
        return ""


def whole(value: object) -> int | None:
    """``value`` if it is a whole number and not a bool."""
    return value if is_a(value, int) and not is_a(value, bool) else None


def leaves(group: Any, most: int = MAX_LEAVES, groups: bool = False) -> list[BaseException]:
    """The exceptions in a group and in the groups within it; none at all if they are more than ``most``.

    With ``groups`` the groups themselves are among them.
    """
    errors: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending:
        if len(errors) + len(pending) > most:
            return []
        error = pending.pop()
        if is_a(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
            if not groups:
                continue
        errors.append(error)
    return errors


def request_of(outcome: object) -> tuple[str | None, Any]:
    """(the request's method in upper case, the request's headers), each ``None`` if unknown."""
    for owner in (outcome, get(outcome, "response")):
        if owner is None:
            continue
        for name in ("request", "request_info"):
            request = get(owner, name)
            method = _method(get(request, "method"))
            if method is not None:
                return method, get(request, "headers")
        # http.client and the libraries on it (urllib, urllib3) keep the method, not the request.
        for holder in (owner, get(owner, "_original_response")):
            method = _method(get(holder, "_method"))
            if method is not None:
                return method, None
    return None, None


def _method(value: object) -> str | None:
    if is_a(value, bytes):
        value = value.decode("latin-1")
    return value.upper() if is_a(value, str) and value else None
