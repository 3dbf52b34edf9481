"""Sleeps and calls hooks in a task, under asyncio or trio."""

from __future__ import annotations

from .._primitives.attach_context import attach_context
from .._runtime import clock as _clock
from .._runtime import interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
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


async def sleep(seconds: float, clock: Clock | None = None) -> None:
    """Sleep on ``clock``; even a wait of 0 lets a cancellation land."""
    clock = _clock.current() if clock is None else clock
    library = interrupts.required_library("an async policy")
    if clock is not _clock.SYSTEM:
        if getattr(clock, "drives_timers", False):
            clock.asked(seconds)  # type: ignore[attr-defined]
            await library.sleep(seconds)
            return
        sleep_async = getattr(clock, "sleep_async", None)
        if sleep_async is not None:
            await sleep_async(seconds)
            return
        clock.sleep(seconds)
        seconds = 0.0
    await library.sleep(min(seconds, _LONGEST_S))
