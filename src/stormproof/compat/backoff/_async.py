"""The loop around a coroutine function. Line for line that of ``_sync``, with ``await``."""

from __future__ import annotations

# Whole modules: tests replace asyncio.sleep, datetime.datetime or _async.datetime.
import asyncio
import datetime
import functools
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ._call import TriedCall
from ._call import maybe_call as _maybe_call
from ._call import next_wait as _next_wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._call import Steps
    from ._plan import Plan


def retry_function(target: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    """Return ``target`` with a loop around it that awaits it as often as ``plan`` says."""
    ignores_results = plan.ignores_results

    @functools.wraps(target)
    async def retry(*args: object, **kwargs: object) -> Any:
        call = TriedCall(plan, target, args, kwargs, maybe_call=_maybe_call, next_wait=_next_wait, wall=_wall)
        while True:
            await follow(call.begin())
            call.read_elapsed()
            try:
                result = await target(*args, **kwargs)
            except plan.exception as error:
                # Handlers run inside this block: they may use sys.exc_info().
                if not await follow(call.failed(error)):
                    if call.raises:
                        raise
                    return None
            else:
                if ignores_results or not await follow(call.returned(result)):
                    return result
            await asyncio.sleep(call.wait)

    return retry


async def follow(steps: Steps) -> bool:
    """Call the handlers that ``steps`` yields, await what makes coroutines; return what it returns."""
    answer = None
    while True:
        try:
            handler, argument = steps.send(answer)
        except StopIteration as end:
            return bool(end.value)
        answer = handler(argument)
        # Coroutines only: a handler that starts a task and returns it does not mean "wait for it".
        if isinstance(answer, Coroutine):
            answer = await answer


def _wall() -> Any:
    return datetime.datetime
