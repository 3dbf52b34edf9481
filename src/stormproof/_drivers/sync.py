"""Sleeps and calls hooks in a thread."""

from __future__ import annotations

from .._context.deadlines import ambient
from .._primitives.attach_context import attach_context
from .._runtime import clock as _clock
from .._runtime import interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._runtime.clock import Clock


def call_hook(name: str, hook: Callable[..., Any], last_error: Exception | None, *arguments: object) -> Any:
    """Return the result of ``hook``. Its error gets ``last_error`` as its context."""
    try:
        answer = hook(*arguments)
        refuse_awaitable(name, answer)
        return answer
    except Exception as fault:
        attach_context(fault, last_error)
        raise


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
        interrupts.Sleeper().wait(seconds, _never if scope is None else scope.ended)
