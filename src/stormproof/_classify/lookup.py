"""Recognising failures without importing the libraries that raise them.

A type is recognised by the names in its method resolution order, once; then its row in
`tables.NAMES` is the answer, or names the function in `readers` that reads one. Objects come from
anywhere: any attribute may be missing, of an odd type, or raise.
"""

from __future__ import annotations

from .tables import NAMES, Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeGuard, TypeVar

    T = TypeVar("T")

    from .settings import Settings

    Reader = Callable[[Any, Settings, int], Fault | None]

#: A chain of causes is followed this far: past any real one, and no cycle gets beyond it.
MAX_DEPTH = 16
_MAX_TYPES = 1024
MAX_LEAVES = 10_000
_MAX_TEXT = 4096

_rows: dict[type, Fault | Reader | None] = {}


def fault_of(found: Any, settings: Settings, depth: int = 0) -> Fault | None:
    """What ``found``, an exception or a response, says went wrong; ``None`` if nobody knows it.

    ``depth`` counts the steps from the error that the caller caught.
    """
    if depth > MAX_DEPTH:
        return None
    row = row_for(type(found))
    if row is None:
        return under(found, (), settings, depth) if depth else _carried(found, settings)
    if isinstance(row, Fault):
        return resolve(row, found, settings, depth)
    return row(found, settings, depth)


def _carried(error: Any, settings: Settings) -> Fault | None:
    """An exception of an unknown kind may carry a response of a known one."""
    response = get(error, "response") if is_a(error, BaseException) else None
    return None if response is None else fault_of(response, settings, MAX_DEPTH)


def row_for(kind: type) -> Fault | Reader | None:
    """The row for ``kind`` or for the nearest of its bases that has one; kept per type."""
    try:
        return _rows[kind]
    except KeyError:
        pass
    row: Fault | str | None = None
    for base in kind.__mro__:
        row = NAMES.get(str(base.__module__).partition(".")[0], {}).get(base.__qualname__)
        if row is not None:
            break
    if isinstance(row, str):
        from . import readers

        found: Fault | Reader | None = getattr(readers, row)
    else:
        found = row
    if len(_rows) >= _MAX_TYPES:
        _rows.clear()
    _rows[kind] = found
    return found


def resolve(fault: Fault, error: Any, settings: Settings, depth: int) -> Fault:
    """``fault``, or what lies beneath ``error`` where the fault says to look."""
    deeper = None if fault.look is None else under(error, fault.look, settings, depth)
    if deeper is None:
        return fault
    if not deeper.retry:
        return deeper
    return Fault(True, deeper.kind, deeper.reason, safe=fault.safe or deeper.safe)


def under(error: Any, look: tuple[str, ...], settings: Settings, depth: int) -> Fault | None:
    """The fault of the error that ``error`` was made from, if it names one that is known.

    One way down at most, so that the work is bounded: what an attribute holds, else the cause,
    else the context.
    """
    for name in (*look, "__cause__", "__context__"):
        if name == "__context__" and get(error, "__suppress_context__"):
            return None
        held = _exception_in(get(error, name))
        if held is not None:
            return fault_of(held, settings, depth + 1)
    return None


def is_a(value: Any, kind: type[T]) -> TypeGuard[T]:
    """``isinstance`` for foreign objects: it asks the type only, as a proxy's ``__class__`` may raise."""
    return issubclass(type(value), kind)


def get(owner: Any, name: str) -> Any:
    """An attribute, or ``None`` when there is none or reading it raises."""
    try:
        return getattr(owner, name, None)
    except Exception:
        return None


def called(owner: Any, name: str) -> Any:
    """What the method ``name`` answers, or ``None``."""
    method = get(owner, name)
    try:
        return method() if callable(method) else method
    except Exception:
        return None


def text_of(error: Any) -> str:
    """The beginning of the message; empty if it cannot be had."""
    try:
        return str(error)[:_MAX_TEXT]
    except Exception:
        return ""


def whole(value: Any) -> int | None:
    """``value`` if it is a whole number and not a bool."""
    return value if is_a(value, int) and not is_a(value, bool) else None


def leaves(group: Any, most: int = MAX_LEAVES) -> list[BaseException]:
    """The exceptions in a group and in the groups within it; none at all if they are more than ``most``."""
    found: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending:
        if len(found) + len(pending) > most:
            return []
        error = pending.pop()
        if is_a(error, BaseExceptionGroup):
            pending.extend(error.exceptions)
        else:
            found.append(error)
    return found


def request_of(outcome: Any) -> tuple[str | None, Any]:
    """(the request's method in upper case, the request's headers), each ``None`` if it is not told."""
    for owner in (outcome, get(outcome, "response")):
        if owner is None:
            continue
        for name in ("request", "request_info"):
            request = get(owner, name)
            method = _method(get(request, "method"))
            if method is not None:
                return method, get(request, "headers")
        # http.client and what stands on it (urllib, urllib3) keep the method, not the request.
        for holder in (owner, get(owner, "_original_response")):
            method = _method(get(holder, "_method"))
            if method is not None:
                return method, None
    return None, None


def _method(value: Any) -> str | None:
    if is_a(value, bytes):
        value = value.decode("latin-1")
    return value.upper() if is_a(value, str) and value else None


def _exception_in(value: Any) -> BaseException | None:
    if is_a(value, BaseException):
        return value
    if is_a(value, dict):
        value = (value.get("error"),)
    if is_a(value, tuple):
        for item in reversed(value):
            if is_a(item, BaseException):
                return item
    return None
