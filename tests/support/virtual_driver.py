"""Drives a flow in virtual time: nothing is called and nobody sleeps."""

from __future__ import annotations

from stormproof._context.attempts import running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from stormproof._context.attempts import Attempt, Flow

    class Movable(Protocol):
        def advance(self, seconds: float) -> None: ...

        def sleep(self, seconds: float) -> None: ...


def drive(
    flow: Flow,
    perform: Callable[[Attempt], tuple[float, Any, Exception | None]],
    clock: Movable,
) -> tuple[Any, BaseException | None]:
    """Run ``flow`` to its end. ``perform(attempt)`` tells how long it takes and what it comes to."""
    reply: Any = None
    while True:
        try:
            step = flow.send(reply)
        except StopIteration as stop:
            outcome: tuple[Any, BaseException | None] = stop.value
            return outcome
        if isinstance(step, (int, float)):
            clock.sleep(step)
            reply = None
        else:
            token = running.set(step)
            try:
                duration, value, error = perform(step)
            finally:
                running.reset(token)
            clock.advance(duration)
            reply = (value, error)
