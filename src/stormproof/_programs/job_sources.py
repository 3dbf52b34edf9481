"""Sources of a worker's jobs."""

from __future__ import annotations

import queue

from .._drivers import aio as _aio
from .._runtime import interrupts
from .._runtime.function_kind import function_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .worker_run import WorkerRun

#: Ends the walk of `attempts.attempt`.
_sp_boundary = True

#: Interval at which an empty queue is polled, if it cannot wait for a job.
_POLL_S = 0.1
_POLL_ASYNC_S = 0.02

#: There are no more jobs.
END: object = object()


class Source:
    """Jobs from a queue (``get``, and ``task_done`` if it has one) or an iterable, async or not."""

    def __init__(self, jobs: Any) -> None:
        self.done: Callable[[], object] | None = None
        get = getattr(jobs, "get", None)
        self.is_async = False
        if callable(get) and (hasattr(jobs, "task_done") or hasattr(jobs, "get_nowait")):
            self.done = getattr(jobs, "task_done", None)
            self.is_async = function_kind(get) == "async"
            self._items = jobs
            self._take = "queue"
        elif hasattr(jobs, "__aiter__"):
            self.is_async = True
            self._items = jobs.__aiter__()
            self._take = "async items"
        elif hasattr(jobs, "__iter__"):
            self._items = iter(jobs)
            self._take = "items"
        else:
            raise TypeError(f"Worker: jobs must be a queue or an (async) iterable, got {jobs!r}")

    def check_async(self) -> None:
        """Refuse a queue that can only be waited for by blocking the event loop."""
        if self._take == "queue" and not self.is_async and not hasattr(self._items, "get_nowait"):
            raise TypeError(f"Worker: run_async() needs get_nowait() of a plain queue, got {self._items!r}")

    def _ended(self, error: Exception) -> bool:
        # queue.ShutDown and asyncio.QueueShutDown: Python 3.13 and later.
        return isinstance(error, (StopIteration, StopAsyncIteration)) or type(error).__name__ in (
            "ShutDown",
            "QueueShutDown",
        )

    def take(self, run: WorkerRun) -> Any:
        """The next job, in a thread; `END` if there is none, or none is wanted any more."""
        try:
            if self._take == "items":
                return next(self._items)
            if not _knows_timeout(self._items.get):
                return self._items.get()
            while not run.stops:
                try:
                    return self._items.get(timeout=_POLL_S)
                except queue.Empty:
                    pass
            return END
        except Exception as error:
            if self._ended(error):
                return END
            raise

    async def take_async(self, run: WorkerRun) -> Any:
        """The next job, in a task; cancelled when none is wanted any more."""
        try:
            if self._take == "async items":
                return await self._items.__anext__()
            if self._take == "items":
                # Plain items and a handler that never waits must not keep the loop from anything else.
                await interrupts.library().sleep(0)  # type: ignore[union-attr]
                return next(self._items, END)
            if self.is_async:
                return await self._items.get()
            while True:
                try:
                    return self._items.get_nowait()
                except queue.Empty:
                    await _aio.sleep(_POLL_ASYNC_S)
        except Exception as error:
            if self._ended(error):
                return END
            raise


def _knows_timeout(get: Callable[..., Any]) -> bool:
    import inspect

    try:
        parameters = inspect.signature(get).parameters
    except (TypeError, ValueError):
        return True
    return "timeout" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
