"""Small helpers: durations, names of callables, ordinals."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, TypeVar

MAX_WAIT = sys.maxsize / 2
"""The longest wait: what "no maximum" means."""

time_unit_type = int | float | timedelta

_F = TypeVar("_F", bound=Callable[..., Any])


class LoggerProtocol(Protocol):
    """The one method that the log hooks need of a logger."""

    def log(self, level: int, msg: str, /, *args: object, **kwargs: object) -> Any: ...


def override(method: _F, /) -> _F:
    """Return ``method``: `typing.override`, not in Python 3.11. Tenacity's own suite imports it."""
    return method


def to_seconds(time_unit: time_unit_type) -> float:
    """Return a number of seconds or a timedelta as a float."""
    return float(time_unit.total_seconds() if isinstance(time_unit, timedelta) else time_unit)


def find_ordinal(pos_num: int) -> str:
    """Return "st", "nd", "rd" or "th", whichever follows ``pos_num``."""
    if pos_num % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(pos_num % 10, "th")


def to_ordinal(pos_num: int) -> str:
    """Return "1st" for 1."""
    return f"{pos_num}{find_ordinal(pos_num)}"


def get_callback_name(cb: Callable[..., Any]) -> str:
    """Return the dotted name of a callable; of a callable object, its class's."""
    named = cb if hasattr(cb, "__qualname__") or hasattr(cb, "__name__") else type(cb)
    name = getattr(named, "__qualname__", None) or getattr(named, "__name__", "")
    module = getattr(cb, "__module__", None)
    return f"{module}.{name}" if module else str(name)


def is_coroutine_callable(call: object) -> bool:
    """Return True if calling ``call`` makes a coroutine; a class does not."""
    while isinstance(call, functools.partial):
        call = call.func
    if inspect.isclass(call):
        return False
    if inspect.iscoroutinefunction(call) or _marked(call):
        return True
    return inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def _marked(call: object) -> bool:
    # asyncio and AsyncMock marked coroutine functions so, before inspect had a marker.
    # A plain mock has every attribute that is asked for, hence the module.
    marker = getattr(call, "_is_coroutine", None)
    return getattr(type(marker), "__module__", None) == "builtins" and marker is not None
