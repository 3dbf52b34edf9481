"""Blocking calls from async code that must not be half known: in a worker thread, waited for to the end."""

from __future__ import annotations

import contextlib

from .interrupts import library, required_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable
    from typing import Any

#: Ends the walk of `attempts.attempt`.
_sp_boundary = True


async def in_thread(
    fn: Callable[..., Any], *args: object, undo: Callable[[Any], object] | None = None
) -> Any:
    """``fn(*args)`` in a worker thread. A cancelled caller waits for its end all the same.

    Otherwise the outcome of the call would be unknown. ``undo(result)`` then takes it back (in asyncio;
    trio hands the result over and cancels at the caller's next step).
    """
    running = required_library("the async form of a store")
    if running.__name__ == "trio":
        return await running.to_thread.run_sync(fn, *args)
    loop = running.get_running_loop()
    future = loop.run_in_executor(None, fn, *args)
    try:
        return await running.shield(future)
    except running.CancelledError:
        await _outlast(running, future)
        if undo is not None and not future.cancelled() and future.exception() is None:
            await _outlast(running, loop.run_in_executor(None, undo, future.result()))
        raise


async def _outlast(asyncio: Any, future: Future[Any]) -> None:
    """Wait until ``future`` is done, however often the waiting task is cancelled meanwhile."""
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            # The first cancellation is already on its way out, and one is enough.
            continue
    if not future.cancelled():
        # Mark the exception as retrieved: no caller is left to receive it.
        future.exception()


def shielded() -> contextlib.AbstractContextManager[object]:
    """Inside, a task that is being cancelled may still settle its key."""
    running = library()
    if running is not None and running.__name__ == "trio":
        return running.CancelScope(shield=True)  # type: ignore[no-any-return]
    return contextlib.nullcontext()
