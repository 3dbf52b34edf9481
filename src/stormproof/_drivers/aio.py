"""Drives a flow in a task, under asyncio or trio."""

from __future__ import annotations

from .._context.attempts import running
from .._primitives.attach_context import attach_context
from .._runtime import clock as _clock
from .._runtime import interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._context.attempts import Attempt, Before, Flow
    from .._runtime.clock import Clock

#: Ends the walk of `attempts.attempt`.
_sp_boundary = True

#: An event loop's timer refuses more than the platform's largest timestamp; three years are enough.
_LONGEST_S = 1e8


async def drive(
    flow: Flow,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    clock: Clock | None,
    before: Before | None = None,
) -> Any:
    """Run ``flow`` to its end: await the attempts it asks for, and the waits."""
    reply: Any = None
    step: Any = None
    error: BaseException | None = None
    try:
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as stop:
                value, error = stop.value
                break
            if type(step) is float:
                await sleep(step, clock)
                reply = None
            else:
                reply = await _attempt(step, call, args, kwargs, before)
        if error is None:
            return value
        raise error
    finally:
        # An interrupted flow learns of it now, not when the traceback that holds this frame is gone.
        flow.close()
        # Tracebacks refer to this frame, so an error kept here would keep itself alive.
        step = reply = error = None


async def _attempt(
    attempt: Attempt,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    before: Before | None,
) -> tuple[Any, Exception | None]:
    attempt.outer = running.get()
    token = running.set(attempt)
    try:
        if before is not None:
            try:
                if hasattr(pending := before(attempt), "__await__"):
                    await pending  # type: ignore[misc]
            except Exception as fault:
                attach_context(fault, attempt.last_error)
                raise
        try:
            return await call(*args, **kwargs), None
        except Exception as error:
            return None, error
    finally:
        running.reset(token)
        # A context that a timer keeps may outlive the attempt by far, and must not keep its request.
        attempt.exchange = None
        # It knows the last error, which may be the very one whose traceback holds this frame.
        del attempt


async def sleep(seconds: float, clock: Clock | None = None) -> None:
    """Sleep on ``clock``; even a wait of 0 lets a cancellation land."""
    clock = _clock.current() if clock is None else clock
    library = interrupts.library()
    if library is None:
        raise RuntimeError("an async policy runs under asyncio or trio, and neither is running here")
    if clock is not _clock.SYSTEM:
        if getattr(clock, "drives_timers", False):
            clock.asked(seconds)  # type: ignore[attr-defined]
            await library.sleep(seconds)
            return
        clock.sleep(seconds)
        seconds = 0.0
    await library.sleep(min(seconds, _LONGEST_S))
