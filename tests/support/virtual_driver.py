"""Takes the steps of a retried call in virtual time, without a call and without a sleep."""

from __future__ import annotations

from stormproof._context.attempts import running
from stormproof._strategies.retry.rules.decision import Stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from stormproof._context.attempts import Attempt
    from stormproof._strategies.retry.call import RetriedCall

    class Movable(Protocol):
        def advance(self, seconds: float) -> None: ...

        def sleep(self, seconds: float) -> None: ...


def drive(
    run: RetriedCall,
    perform: Callable[[Attempt], tuple[float, Any, Exception | None]],
    clock: Movable,
) -> tuple[Any, BaseException | None]:
    """Take ``run`` to its end. ``perform(attempt)`` says how long it takes and what it comes to."""
    error: Exception | None = None
    while True:
        attempt = run.begin(error)
        token = running.set(attempt)
        try:
            duration, value, error = perform(attempt)
        finally:
            running.reset(token)
        clock.advance(duration)
        step = run.after(value, error)
        if step is None:
            return value, None
        wait = step if isinstance(step, float) else run.last_wait(step)
        if wait is not None:
            clock.sleep(wait)
            step = run.wake(step)
        if isinstance(step, Stop):
            return run.give_up(step, value, error)
