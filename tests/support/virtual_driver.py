"""Takes the steps of a retried call in virtual time, without a call and without a sleep."""

from __future__ import annotations

from stormproof._context.attempts import running

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
        wait = run.after(value, error)
        if wait is not None:
            clock.sleep(wait)
            run.wake()
        elif run.stop is None:
            return value, None
        if run.stop is not None:
            return run.give_up(value, error)
