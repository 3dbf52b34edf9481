"""The loops around a coroutine function. Line for line those of ``_sync``, with ``await``."""

from __future__ import annotations

# Whole modules: tests replace asyncio.sleep, datetime.datetime or _async.datetime.
import asyncio
import datetime
import functools
from collections.abc import Coroutine
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
    """Await ``target`` again while it raises ``exception``."""

    @functools.wraps(target)
    async def retry(*args: object, **kwargs: object) -> Any:
        call = Call(plan, target, args, kwargs, maybe_call=_maybe_call, wall=_wall)
        while True:
            call.tries += 1
            await _notify(plan.on_try, call.details())
            call.read_elapsed()
            try:
                result = await target(*args, **kwargs)
            except exception as error:
                # Handlers run inside this block: they may use sys.exc_info().
                stop = await _settle(giveup(error)) or call.spent()
                if stop or not call.draw_wait(_next_wait, error):
                    await _notify(plan.on_giveup, call.details(exception=error))
                    if raise_on_giveup or not stop:
                        raise
                    return None
                await _notify(plan.on_backoff, call.details(exception=error, wait=call.wait))
            else:
                await _notify(plan.on_success, call.details())
                return result
            await asyncio.sleep(call.wait)

    return retry


def retry_predicate(
    target: Callable[..., Any], plan: Plan, *, predicate: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Await ``target`` again while ``predicate`` is true of what it returns."""

    @functools.wraps(target)
    async def retry(*args: object, **kwargs: object) -> Any:
        call = Call(plan, target, args, kwargs, maybe_call=_maybe_call, wall=_wall)
        while True:
            call.tries += 1
            await _notify(plan.on_try, call.details())
            call.read_elapsed()
            result = await target(*args, **kwargs)
            if not await _settle(predicate(result)):
                await _notify(plan.on_success, call.details(value=result))
                return result
            if call.spent() or not call.draw_wait(_next_wait, result):
                await _notify(plan.on_giveup, call.details(value=result))
                return result
            await _notify(plan.on_backoff, call.details(value=result, wait=call.wait))
            await asyncio.sleep(call.wait)

    return retry


async def _notify(handlers: tuple[Handler, ...], details: dict[str, Any]) -> None:
    for handler in handlers:
        await _settle(handler(details))


async def _settle(result: object) -> Any:
    # Coroutines only: a handler that starts a task and returns it does not mean "wait for it".
    return await result if isinstance(result, Coroutine) else result


def _wall() -> Any:
    return datetime.datetime
