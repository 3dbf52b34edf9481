"""Drives a flow in a thread: the loop that really calls and really sleeps."""

from __future__ import annotations

from .._context.attempts import running
from .._context.deadlines import ambient
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


def drive(
    flow: Flow,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    clock: Clock | None,
    before: Before | None = None,
) -> Any:
    """Run ``flow`` to its end: make the attempts it asks for, sleep the waits it asks for."""
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
                sleep(step, clock)
                reply = None
            else:
                reply = _attempt(step, call, args, kwargs, before)
        if error is None:
            return value
        raise error
    finally:
        # An interrupted flow learns of it now, not when the traceback that holds this frame is gone.
        flow.close()
        # Tracebacks refer to this frame, so an error kept here would keep itself alive.
        step = reply = error = None


def _attempt(
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
                refuse_awaitable("before_attempt", before(attempt))
            except Exception as fault:
                attach_context(fault, attempt.last_error)
                raise
        try:
            return call(*args, **kwargs), None
        except Exception as error:
            return None, error
    finally:
        running.reset(token)
        # A context that a timer keeps may outlive the attempt by far, and must not keep its request.
        attempt.exchange = None
        # It knows the last error, which may be the very one whose traceback holds this frame.
        del attempt


def refuse_awaitable(hook: str, answer: object) -> None:
    """A hook that gives something to await cannot serve a sync call."""
    if hasattr(answer, "__await__"):
        close = getattr(answer, "close", None)
        if close is not None:
            close()
        raise TypeError(f"{hook} must not be async in a sync call, got {answer!r}")


def _never() -> bool:
    return False


def sleep(seconds: float, clock: Clock | None = None) -> None:
    """Sleep on ``clock`` (None: the ambient one). Cancelling the enclosing scope ends the sleep."""
    if clock is None:
        clock = _clock.AMBIENT.clock
    if clock is not _clock.SYSTEM:
        clock.sleep(seconds)
    elif seconds > 0:
        scope = ambient()
        interrupts.wait(seconds, _never if scope is None else scope.ended)
