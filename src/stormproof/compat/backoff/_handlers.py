"""Checks of what decorators and blocks are given: handlers, and which callables make coroutines."""

from __future__ import annotations

import asyncio.coroutines
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._call import Handler, Plan


def handlers(
    field: str, given: Handler | Iterable[Handler] | None, default: Handler | None = None
) -> tuple[Handler, ...]:
    """The default handler first, then the user's, in order."""
    first = () if default is None else (default,)
    if given is None:
        return first
    found = (given,) if callable(given) else tuple(given) if isinstance(given, Iterable) else (given,)
    for handler in found:
        if not callable(handler):
            raise TypeError(f"{field} must be a callable or an iterable of callables, got {handler!r}")
    return (*first, *found)


def refuse_coroutine_functions(owner: str, plan: Plan) -> None:
    for field in ("max_tries", "max_time", "jitter"):
        value = getattr(plan, field)
        if is_async(value):
            raise TypeError(f"{owner}: {field} must not be a coroutine function, got {value!r}")


def is_async(target: object) -> bool:
    if inspect.iscoroutinefunction(target):
        return True
    # How callables such as AsyncMock declared themselves before Python 3.12 had a public marker.
    marker = getattr(asyncio.coroutines, "_is_coroutine", None)
    return marker is not None and getattr(target, "_is_coroutine", None) is marker
