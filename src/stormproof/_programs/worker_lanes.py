"""The worker's hands: lanes that take jobs and handle them, as threads or as tasks."""

from __future__ import annotations

import threading
from contextvars import Context, copy_context

from .._context.deadlines import check
from .._drivers.waiter import Waiter
from .._runtime import interrupts
from .._strategies.bulkhead.bulkhead import Bulkhead
from .job_sources import END, Source
from .worker_run import SHORT_GRACE_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from .worker_run import OpenJob, Settling, WorkerRun

#: Ends the walk of `attempts.attempt`.
_sp_boundary = True

# Threads.


def run_threads(run: WorkerRun, source: Source, call: Callable[[Any], Any]) -> None:
    """Handle the jobs of ``source`` in threads, until it ends or the run is asked to stop."""
    run.await_in_thread = _await_here
    # One lane at a time asks for a job; the others wait in line without asking over and over.
    take = Bulkhead(1, queue=run.lanes).sync(source.take, run.env, source.take)

    def lane() -> None:
        error: BaseException | None = None
        try:
            while (job := _next(run, take)) is not END:
                _handle(run, run.open(job), call)
        except BaseException as failure:
            error = failure
        run.lane_ended(error)

    try:
        for number in range(run.lanes):
            # Daemons: a job that hangs must not keep the program from ending.
            name = f"{run.operation} lane {number + 1}"
            threading.Thread(target=copy_context().run, args=(lane,), name=name, daemon=True).start()
        _supervise(run, run.watch())
    except BaseException:
        # Interrupted, or the enclosing scope has ended: nothing is waited for, but nothing is lost.
        # Supervised outside that scope, which would end this wait too.
        run.stop(now=True)
        Context().run(_supervise, run, run.wind_up())
        raise
    finally:
        for open_job in run.open_jobs():
            _finish(run.settle(open_job, run.stopped_error()))


def _supervise(run: WorkerRun, flow: Any) -> None:
    reply = None
    while True:
        bell = run.bell()
        try:
            seconds = flow.send(reply)
        except StopIteration:
            return
        reply = bell.wait(seconds)


def _next(run: WorkerRun, take: Callable[[WorkerRun], Any]) -> Any:
    job = END
    with run.taking() as wanted:
        if wanted:
            job = take(run)
    return job


def _handle(run: WorkerRun, open_job: OpenJob, call: Callable[[Any], Any]) -> None:
    error: BaseException | None = None
    try:
        with open_job.scope:
            check()
            call(open_job.job)
    except BaseException as failure:
        error = failure
    _finish(run.settle(open_job, error))


def _finish(settling: Settling) -> None:
    try:
        step = next(settling)
        while True:
            if hasattr(step, "__await__"):
                if hasattr(step, "close"):
                    step.close()
                step = settling.throw(TypeError("the callback is async, and the worker runs in threads"))
            else:
                step = next(settling)
    except StopIteration:
        return


# Tasks.


async def run_tasks(run: WorkerRun, source: Source, call: Callable[[Any], Any], in_threads: bool) -> None:
    """Handle the jobs of ``source`` in tasks of the library that runs this one."""
    library = interrupts.required_library("Worker: run_async()")
    source.check_async()
    run.await_in_thread = _await_in_loop(library)
    take = Bulkhead(1, queue=run.lanes).aio(source.take_async, run.env, source.take_async)

    async def lane() -> None:
        error: BaseException | None = None
        try:
            while (job := await _next_async(run, take)) is not END:
                await _handle_async(run, run.open(job), call, in_threads)
        except Exception as failure:
            error = failure
        finally:
            run.lane_ended(error)

    await (_with_nursery if library.__name__ == "trio" else _with_tasks)(library, run, lane)


async def _with_tasks(asyncio: ModuleType, run: WorkerRun, lane: Callable[[], Any]) -> None:
    lanes = [asyncio.ensure_future(lane()) for _ in range(run.lanes)]
    try:
        await _supervise_async(run, run.watch())
    except BaseException:
        run.stop(now=True)
        await _supervise_async(run, run.wind_up())
        raise
    finally:
        for task in lanes:
            task.cancel()
        await _leave_behind(run)
        # A job that does not care for being cancelled is left to the loop.
        await asyncio.wait(lanes, timeout=SHORT_GRACE_S)


async def _with_nursery(trio: ModuleType, run: WorkerRun, lane: Callable[[], Any]) -> None:
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(run.lanes):
                nursery.start_soon(lane)
            await _supervise_async(run, run.watch())
            nursery.cancel_scope.cancel()
    finally:
        run.stop(now=True)
        with trio.CancelScope(shield=True):
            await _leave_behind(run)


async def _leave_behind(run: WorkerRun) -> None:
    for open_job in run.open_jobs():
        await _finish_async(run.settle(open_job, run.stopped_error()))


async def _supervise_async(run: WorkerRun, flow: Any) -> None:
    reply = None
    while True:
        bell = run.bell()
        try:
            seconds = flow.send(reply)
        except StopIteration:
            return
        reply = await bell.wait_async(seconds)


async def _next_async(run: WorkerRun, take: Callable[[WorkerRun], Any]) -> Any:
    job = END
    with run.taking() as wanted:
        if wanted:
            job = await take(run)
    return job


async def _handle_async(
    run: WorkerRun, open_job: OpenJob, call: Callable[[Any], Any], in_thread: bool
) -> None:
    error: BaseException | None = None
    try:
        if in_thread:
            await _in_thread(open_job, call)
        else:
            with open_job.scope:
                check()
                await call(open_job.job)
    except BaseException as failure:
        error = failure
    if error is None or not _is_torn(error):
        await _finish_async(run.settle(open_job, error))
        return
    await _finish_async(run.settle(open_job, run.stopped_error(error)))
    if isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt) is not None:
        # Only a bare one ends an asyncio loop: in a group it would end this lane unnoticed.
        raise KeyboardInterrupt from error
    raise error


async def _in_thread(open_job: OpenJob, call: Callable[[Any], Any]) -> None:
    """Handle the job in a thread; its deadline does not interrupt it, as in any sync code."""
    came_to: list[BaseException | None] = []
    waiter = Waiter()

    def body() -> None:
        try:
            with open_job.scope:
                check()
                call(open_job.job)
            came_to.append(None)
        except BaseException as failure:
            came_to.append(failure)
        waiter.grant()

    threading.Thread(target=copy_context().run, args=(body,), name="stormproof job", daemon=True).start()
    await waiter.wait_async(None)
    if (error := came_to.pop()) is not None:
        raise error


def _is_torn(error: BaseException) -> bool:
    """Return True if the lane itself is to end, and not only the job that it handles."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_torn, error.exceptions))
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return True
    library: Any = interrupts.library()
    if library.__name__ == "trio":
        return isinstance(error, library.Cancelled)
    # Without a request to cancel this task, it comes from something that the job waited for.
    return isinstance(error, library.CancelledError) and bool(library.current_task().cancelling())


async def _finish_async(settling: Settling) -> None:
    try:
        step = next(settling)
        while True:
            try:
                if hasattr(step, "__await__"):
                    with _shield():
                        await step
            except Exception as error:
                step = settling.throw(error)
            else:
                step = next(settling)
    except StopIteration:
        return


def _shield() -> Any:
    """Return a scope that shields from trio's cancellation, so that a job is settled even then.

    asyncio raises a cancellation only once, and needs none.
    """
    from contextlib import nullcontext

    library: Any = interrupts.library()
    return library.CancelScope(shield=True) if library.__name__ == "trio" else nullcontext()


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _await_here(awaitable: object) -> Any:
    """Await the result of a plain handler in an event loop of this thread."""
    import asyncio

    return asyncio.run(_awaited(awaitable))


def _await_in_loop(library: Any) -> Callable[[Any], Any]:
    """Return a function for a job's thread that awaits in the event loop of the worker."""
    if library.__name__ == "trio":
        token = library.lowlevel.current_trio_token()
        return lambda awaitable: library.from_thread.run(_awaited, awaitable, trio_token=token)
    loop = library.get_running_loop()
    return lambda awaitable: library.run_coroutine_threadsafe(_awaited(awaitable), loop).result()
