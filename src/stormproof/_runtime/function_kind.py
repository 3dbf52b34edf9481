"""Kinds of functions, by what a call returns: a value, a coroutine, or one of two kinds of generator."""

from __future__ import annotations

from functools import partial
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, MethodType, NoneType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_COROUTINE, _GENERATOR, _ASYNC_GENERATOR, _ITERABLE_COROUTINE = 0x80, 0x20, 0x200, 0x100
GENERATORS = _GENERATOR | _ASYNC_GENERATOR
_NOT_SYNC = _COROUTINE | _GENERATOR | _ASYNC_GENERATOR | _ITERABLE_COROUTINE
#: Types of results whose work is done when they are returned, as far as seen; `check_result` adds to them.
value_types: set[type] = {NoneType, bool, int, float, str, bytes, list, tuple, dict, set}
_MAX_TYPES = 256


def function_kind(fn: object) -> str:
    """Return what calling ``fn`` gives: "sync", "async", "generator" or "async generator".

    Looks through partials, bound methods and callable objects, as `inspect` would, without its
    import.
    """
    if type(fn) is FunctionType and not fn.__dict__:
        return _by_flags(fn.__code__.co_flags)
    while isinstance(fn, (partial, MethodType)):
        fn = fn.func if isinstance(fn, partial) else fn.__func__
    # Set by `inspect.markcoroutinefunction`. A mock has every attribute that is asked for, hence __dict__.
    if "_is_coroutine_marker" in getattr(fn, "__dict__", ()):
        return "async"
    flags = getattr(getattr(fn, "__code__", None), "co_flags", None)
    if flags is None and not isinstance(fn, type):
        called = getattr(type(fn), "__call__", None)  # noqa: B004 - its code is wanted, not whether it exists
        flags = getattr(getattr(called, "__code__", None), "co_flags", None)
    return _by_flags(flags) if isinstance(flags, int) else "sync"


def check_callable(fn: object, method: str) -> None:
    """Refuse what `Policy.call` or `Policy.acall` (``method``) cannot call."""
    if callable(fn):
        return
    if callable(close := getattr(fn, "close", None)) and hasattr(fn, "__await__"):
        close()
    raise TypeError(
        f"Policy.{method}: fn must be callable, got {fn!r}; give the function itself, and its arguments "
        f"after it: policy.{method}(fn, *args)"
    )


def check_awaitable(fn: object) -> None:
    """Refuse a function that `Policy.acall` cannot await: it would be done before its work begins."""
    check_callable(fn, "acall")
    if "generator" in function_kind(fn):
        raise TypeError(f"Policy.acall: fn must give something to await, got {fn!r}; decorate it instead")


def check_result(fn: object, result: Any) -> Any:
    """Return the ``result`` of ``fn`` for `Policy.call`. Refuse one whose work has yet to run, unretried.

    For results of a type that is not among `value_types`.
    """
    kind, function = type(result), function_kind(fn)
    if hasattr(kind, "__await__"):
        if kind is CoroutineType:
            result.close()
    elif kind not in (GeneratorType, AsyncGeneratorType):
        if len(value_types) >= _MAX_TYPES:
            value_types.clear()
        value_types.add(kind)
        return result
    elif function == "sync":
        return result
    if function != "sync":
        raise TypeError(
            f"Policy.call: fn must be a plain function, got {fn!r} ({function}); use acall() for a coroutine "
            "function, or decorate it"
        )
    awaited = "a coroutine" if kind is CoroutineType else f"an awaitable {kind.__name__}"
    raise TypeError(
        f"Policy.call: fn must return a value, got {awaited} from {fn!r}, which nothing would retry; "
        "use `await policy.acall(fn)`"
    )


def _by_flags(flags: int) -> str:
    if not flags & _NOT_SYNC:
        return "sync"
    if flags & _ASYNC_GENERATOR:
        return "async generator"
    return "async" if flags & (_COROUTINE | _ITERABLE_COROUTINE) else "generator"
