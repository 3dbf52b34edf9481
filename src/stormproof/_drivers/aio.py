"""Sleeps and calls hooks in a task, under asyncio or trio."""

from __future__ import annotations

from .._primitives.attach_context import attach_context
from .._runtime import clock as _clock
from .._runtime import interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .._runtime.clock import Clock

#: An event loop's timer refuses more than the platform's largest timestamp; three years are enough.
_LONGEST_S = 1e8


async def call_hook(
    name: str, hook: Callable[..., Any], last_error: Exception | None, *arguments: object
) -> Any:
    """Return the result of ``hook``, awaited if need be. Its error gets ``last_error`` as its context."""
    try:
        answer = hook(*arguments)
        return await answer if hasattr(answer, "__await__") else answer
    except Exception as fault:
        attach_context(fault, last_error)
        raise


def sleep(seconds: float, clock: Clock | None = None) -> Awaitable[None]:
    """Sleep on ``clock``, awaited; even a wait of 0 lets a cancellation land."""
    if clock is None:
        clock = _clock.AMBIENT.clock
    library: Any = interrupts.required_library("an async policy")
    if clock is not _clock.SYSTEM:
        return _sleep_on(clock, seconds, library)
    sleeping: Awaitable[None] = library.sleep(seconds if seconds < _LONGEST_S else _LONGEST_S)
    return sleeping


async def _sleep_on(clock: Any, seconds: float, library: Any) -> None:
    """Sleep on a clock other than the system's."""
    if getattr(clock, "drives_timers", False):
        clock.asked(seconds)
        await library.sleep(seconds)
    elif (sleep_async := getattr(clock, "sleep_async", None)) is not None:
        await sleep_async(seconds)
    else:
        clock.sleep(seconds)
        await library.sleep(0.0)
