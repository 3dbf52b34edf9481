"""The loops around a plain function."""

from __future__ import annotations

# Whole modules: tests replace time.sleep, _sync.time, datetime.datetime or _sync.datetime.
import datetime
import functools
import time
from typing import TYPE_CHECKING, Any

from ._call import Call
from ._call import maybe_call as _maybe_call
from ._call import next_wait as _next_wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._call import Handler, Plan


def retry_exception(
    target: Callable[..., Any],
    plan: Plan,
    *,
    exception: Any,
    giveup: Callable[[Any], Any],
    raise_on_giveup: bool,
) -> Callable[..., Any]:
    """Call ``target`` again while it raises ``exception``."""

    @functools.wraps(target)
    def retry(*args: object, **kwargs: object) -> Any:
        call = Call(plan, target, args, kwargs, maybe_call=_maybe_call, wall=_wall)
        while True:
            call.tries += 1
            _notify(plan.on_try, call.details())
            call.read_elapsed()
            try:
                result = target(*args, **kwargs)
            except exception as error:
                # Handlers run inside this block: they may use sys.exc_info().
                stop = giveup(error) or call.spent()
                if stop or not call.draw_wait(_next_wait, error):
                    _notify(plan.on_giveup, call.details(exception=error))
                    if raise_on_giveup or not stop:
                        raise
                    return None
                _notify(plan.on_backoff, call.details(exception=error, wait=call.wait))
            else:
                _notify(plan.on_success, call.details())
                return result
            time.sleep(call.wait)

    return retry


def retry_predicate(
    target: Callable[..., Any], plan: Plan, *, predicate: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Call ``target`` again while ``predicate`` is true of what it returns."""

    @functools.wraps(target)
    def retry(*args: object, **kwargs: object) -> Any:
        call = Call(plan, target, args, kwargs, maybe_call=_maybe_call, wall=_wall)
        while True:
            call.tries += 1
            _notify(plan.on_try, call.details())
            call.read_elapsed()
            result = target(*args, **kwargs)
            if not predicate(result):
                _notify(plan.on_success, call.details(value=result))
                return result
            if call.spent() or not call.draw_wait(_next_wait, result):
                _notify(plan.on_giveup, call.details(value=result))
                return result
            _notify(plan.on_backoff, call.details(value=result, wait=call.wait))
            time.sleep(call.wait)

    return retry


def _notify(handlers: tuple[Handler, ...], details: dict[str, Any]) -> None:
    for handler in handlers:
        handler(details)


def _wall() -> Any:
    return datetime.datetime
