"""The retry loop, awaited: attempt, judge, decide, sleep, and again. `sync_loop` is generated from this text.

What each step means is in `call`, what is decided in `rules.decision`.
"""

from __future__ import annotations

from ..._context.attempts import running
from ..._context.deadlines import ambient
from ..._drivers.aio import call_hook, sleep
from .rules.decision import Stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..._context.attempts import Attempt, Before
    from .call import RetriedCall

#: Ends the walk of `attempts.attempt`.
_sp_boundary = True


async def retry_loop(
    run: RetriedCall,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    error: Exception | None = None,
) -> Any:
    """Call until an attempt succeeds or ``run`` stops. With ``error`` the first attempt has failed."""
    value: Any = None
    failure: BaseException | None = None
    clock, before = run.env.clock, run.retry.before_attempt
    try:
        if error is None:
            value, error = await make_attempt(run.begin(None), call, args, kwargs, before)
        else:
            run.number = 1
        while True:
            step: Any = run.after(value, error)
            if step is None:
                return value
            wait = step if type(step) is float else run.last_wait(step)
            if wait is not None:
                try:
                    await sleep(wait, clock)
                except BaseException:
                    run.interrupt(step)
                    raise
                if ambient() is not None:
                    step = run.wake(step)
            if isinstance(step, Stop):
                value, failure = run.give_up(step, value, error)
                if failure is None:
                    return value
                raise failure
            value, error = await make_attempt(run.begin(error), call, args, kwargs, before)
    finally:
        # Tracebacks refer to this frame, so an error kept here would keep itself alive.
        del run, error, failure


async def make_attempt(
    attempt: Attempt,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    before: Before | None,
) -> tuple[Any, Exception | None]:
    """Make ``attempt``; return its value, or its error."""
    attempt.outer = running.get()
    token = running.set(attempt)
    try:
        if before is not None:
            await call_hook(before, attempt)
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
