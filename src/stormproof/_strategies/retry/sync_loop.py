# Generated from aio_loop.py by tools/generate-sync: edit that one.
"""The retry loop, in a thread: wait or give up, attempt, settle, again.

What each step means is in `call`, what is decided in `rules.decision`.
"""

from __future__ import annotations

from ..._context.attempts import reset_running, running, set_running
from ..._context.deadlines import ambient
from ..._drivers.sync import call_hook, sleep
from ..limiter.waiting import sleep_in_line
from .generators import HeldBack, Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..._context.attempts import Attempt, Before
    from .call import RetriedCall

#: Ends the walk of `attempts.attempt`.
_sp_boundary = True


def retry_loop(
    run: RetriedCall,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    error: Exception | None = None,
) -> Any:
    """Call until an attempt succeeds or the call stops. With ``error`` the first attempt has failed with it,
    and ``run`` has settled that.
    """
    value: Any = None
    failure: BaseException | None = None
    clock, retry, wait = run.env.clock, run.retry, run.wait
    before, on_retry, on_result = retry.before_attempt, retry.on_retry, retry.on_result
    token = None
    try:
        while True:
            if wait is not None:
                try:
                    if on_retry is not None and run.stop is None:
                        failed_one = run.attempt(args, kwargs)
                        hook("on_retry", on_retry, error, failed_one, run.visible_error, wait)
                    if run.payment is None or run.stop is not None:
                        sleep(wait, clock)
                    else:
                        sleep_in_line(run.payment, clock)
                except BaseException:
                    run.interrupt()
                    raise
                if ambient() is not None:
                    run.wake()
            if run.stop is not None:
                value, failure = run.give_up(value, error)
                if failure is None:
                    return value
                raise failure
            run.start(error)
            if token is None:
                token = set_running(run)
            if before is not None:
                hook("before_attempt", before, error, run.attempt(args, kwargs))
            try:
                value, error = call(*args, **kwargs), None
            except Exception as failed:
                value, error = None, failed
            if error is None and on_result is not None:
                run.answer = judge(on_result, value)
            wait = run.after(value, error)
            if wait is None and run.stop is None:
                return value
    finally:
        if token is not None:
            try:
                reset_running(token)
            except ValueError:
                # A coroutine may be closed in another context than it began in, which knows nothing of it.
                pass
            # A context that a timer keeps may outlive the call by far.
            run.exchange = run.refused = run.last_error = run.visible_error = run.reached = None
        # Tracebacks refer to this frame, so an error kept here would keep itself alive.
        del run, error, failure


def hook(
    name: str,
    call: Callable[..., Any],
    error: Exception | None,
    attempt: Attempt,
    *more: Any,
) -> None:
    """Call a hook about ``attempt``, which has request and arguments for as long as that takes."""
    try:
        call_hook(name, call, error, attempt, *more)
    finally:
        attempt.release()


def judge(on_result: Callable[[Any], Any], value: Any) -> Any:
    """Return what ``on_result`` answers; the items of a stream were judged as they came."""
    if isinstance(value, HeldBack):
        return value.answer
    result = value.item if isinstance(value, Opened) else value
    return call_hook("on_result", on_result, None, result)


def make_attempt(
    attempt: Attempt,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    before: Before | None,
) -> tuple[Any, Exception | None]:
    """Make ``attempt``; return its value, or its error."""
    attempt.outer = running.get()
    token = set_running(attempt)
    try:
        if before is not None:
            call_hook("before_attempt", before, attempt.last_error, attempt)
        try:
            return call(*args, **kwargs), None
        except Exception as error:
            return None, error
    finally:
        reset_running(token)
        if before is not None or attempt.exchange is not None:
            attempt.release()
        # It knows the last error, which may be the very one whose traceback holds this frame.
        del attempt
