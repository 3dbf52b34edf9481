"""Kinds of functions, by what a call returns: a value, a coroutine, or one of two kinds of generator."""

from __future__ import annotations

from functools import partial
from types import FunctionType, MethodType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_COROUTINE, _GENERATOR, _ASYNC_GENERATOR, _ITERABLE_COROUTINE = 0x80, 0x20, 0x200, 0x100
GENERATORS = _GENERATOR | _ASYNC_GENERATOR
NOT_SYNC = _COROUTINE | _GENERATOR | _ASYNC_GENERATOR | _ITERABLE_COROUTINE


def function_kind(fn: object) -> str:
    """Return what calling ``fn`` gives: "sync", "async", "generator" or "async generator".

    Looks through partials, bound methods and callable objects, as `inspect` would, without its
    import.
    """
    if type(fn) is FunctionType and not fn.__dict__:
        return _by_flags(fn.__code__.co_flags)
    while isinstance(fn, (partial, MethodType)):
        fn = fn.func if isinstance(fn, partial) else fn.__func__
    # What `inspect.markcoroutinefunction` leaves. A mock has every attribute one asks for, hence __dict__.
    if "_is_coroutine_marker" in getattr(fn, "__dict__", ()):
        return "async"
    flags = getattr(getattr(fn, "__code__", None), "co_flags", None)
    if flags is None and not isinstance(fn, type):
        called = getattr(type(fn), "__call__", None)  # noqa: B004 - its code is wanted, not whether it exists
        flags = getattr(getattr(called, "__code__", None), "co_flags", None)
    return _by_flags(flags) if isinstance(flags, int) else "sync"


def check_kind(fn: object, is_async: bool) -> None:
    """Refuse what `Policy.call` (or `Policy.acall`) cannot call: it would be done before its work begins."""
    kind = function_kind(fn)
    if is_async and "generator" in kind:
        raise TypeError(f"Policy.acall: fn must give something to await, got {fn!r}; decorate it instead")
    if not is_async and kind != "sync":
        raise TypeError(
            f"Policy.call: fn must be a plain function, got {fn!r} ({kind}); use acall() for a coroutine "
            "function, or decorate it"
        )


def refuse_coroutine(fn: object, result: Any) -> None:
    """Refuse what a plain function returned to be awaited: the policy would end before it has run."""
    result.close()
    raise TypeError(
        f"Policy.call: fn must return a value, got a coroutine from {fn!r}, which nothing would retry; "
        "use `await policy.acall(fn)`"
    )


def _by_flags(flags: int) -> str:
    if not flags & NOT_SYNC:
        return "sync"
    if flags & _ASYNC_GENERATOR:
        return "async generator"
    return "async" if flags & (_COROUTINE | _ITERABLE_COROUTINE) else "generator"
