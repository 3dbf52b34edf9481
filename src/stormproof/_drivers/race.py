"""Runs a `Race` with threads, asyncio tasks or trio tasks: the first success wins."""

from __future__ import annotations

from .._context.deadlines import Scope, check
from .._runtime import interrupts
from . import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, Protocol

    class Race(Protocol):
        """The rule of one hedged call; attempts have numbers, from 1 on."""

        launched: int
        out: int

        @property
        def most(self) -> int: ...
        @property
        def closes(self) -> bool: ...

        def delay(self) -> float | None: ...
        def launch(self) -> Any: ...
        def succeeded(self, number: int) -> None: ...
        def is_lost(self, error: BaseException, number: int, launch: Callable[[], bool]) -> bool: ...
        def end(self) -> BaseException: ...
        def over(self) -> None: ...


#: Ends the walk of `attempts.attempt`.
_sp_boundary = True


def discard(value: object, names: tuple[str, ...] = ("close", "aclose")) -> Any:
    """Close a losing answer by the first of the methods ``names`` that it has; return that one's result."""
    try:
        for name in names:
            close = getattr(value, name, None)
            if callable(close) and not isinstance(value, type):
                return close()
    except Exception:
        # The value is discarded: an error in closing it must not replace the result that won.
        pass
    return None


# Threads: the losers are not awaited. Their scope is cancelled, and their results are closed.


def in_threads(race: Race) -> Any:
    """Run ``race`` with worker threads; the caller's own thread only waits."""
    bell = interrupts.Sleeper()
    out: list[tuple[threads.ThreadJob, Scope, int]] = []
    try:
        _launch_thread(race, bell, out)
        while True:
            threads.wait(bell, race.delay(), lambda: any(job.done for job, _, _ in out))
            check()
            ended = [entry for entry in out if entry[0].done]
            if not ended and not _launch_thread(race, bell, out) and not out:
                raise race.end()
            for entry in ended:
                out.remove(entry)
                job, _, number = entry
                if job.error is None:
                    race.succeeded(number)
                    return job.value
                if race.is_lost(job.error, number, lambda: _launch_thread(race, bell, out)):
                    raise race.end()
    finally:
        race.over()
        for job, scope, _ in out:
            scope.cancel()
            if race.closes:
                job.abandon(discard)


def _launch_thread(race: Race, bell: interrupts.Sleeper, out: list[Any]) -> bool:
    if out and not threads.available():
        # Better one attempt than none: the first one is in flight.
        race.launched = race.most
        return False
    launch = race.launch()
    if launch is None:
        return False
    call, args, kwargs = launch
    scope = Scope(None, "hedged attempt")

    def run(*args: object, **kwargs: object) -> Any:
        with scope:
            return call(*args, **kwargs)

    out.append((threads.start(bell, run, args, kwargs), scope, race.launched))
    return True


# Tasks: the losers are cancelled and awaited.


async def in_tasks(race: Race) -> Any:
    """Run ``race`` with tasks of the async library that runs this one."""
    library = interrupts.required_library("an async policy")
    if library.__name__ == "trio":
        return await _in_trio(library, race)
    return await _in_asyncio(library, race)


async def _in_asyncio(asyncio: Any, race: Race) -> Any:
    out: dict[Any, int] = {}
    won: object = None

    def launch() -> bool:
        started = race.launch()
        if started is None:
            return False
        call, args, kwargs = started
        out[asyncio.ensure_future(_call(call, args, kwargs))] = race.launched
        return True

    try:
        launch()
        while True:
            done: Any = ()
            if out:
                done, _ = await asyncio.wait(out, timeout=race.delay(), return_when=asyncio.FIRST_COMPLETED)
            else:
                # All have failed, and a server's hint holds the next one back.
                await asyncio.sleep(race.delay() or 0.0)
            if not done and not launch() and not out:
                raise race.end()
            for task in sorted(done, key=out.__getitem__):
                number = out[task]
                error = task.exception()
                if error is None:
                    won = task
                    race.succeeded(number)
                    return task.result()
                if not isinstance(error, Exception):
                    raise error
                del out[task]
                if race.is_lost(error, number, launch):
                    raise race.end()
    finally:
        race.over()
        losers = [task for task in out if task is not won]
        for task in losers:
            task.cancel()
        await asyncio.gather(*losers, return_exceptions=True)
        for task in losers if race.closes else ():
            if not task.cancelled() and task.exception() is None:
                await _discard_async(task.result())


async def _call(call: Any, args: Any, kwargs: Any) -> Any:
    return await call(*args, **kwargs)


async def _discard_late(trio: Any, receive: Any) -> None:
    try:
        while True:
            late, value, _ = receive.receive_nowait()
            if late is None:
                await _discard_async(value)
    except trio.WouldBlock:
        pass


async def _discard_async(value: object) -> None:
    # A client's response may have both; where one can await, the async one is meant.
    pending = discard(value, ("aclose", "close"))
    if pending is not None and hasattr(pending, "__await__"):
        try:
            await pending
        except Exception:
            pass


async def _run(call: Any, args: Any, kwargs: Any) -> tuple[BaseException | None, Any]:
    try:
        return None, await call(*args, **kwargs)
    except Exception as error:
        return error, None


async def _in_trio(trio: ModuleType, race: Race) -> Any:
    send, receive = trio.open_memory_channel(float("inf"))
    answer: object = None
    error: BaseException | None = None
    interruption: BaseException | None = None

    async def run(call: object, args: object, kwargs: object, number: int) -> None:
        nonlocal interruption
        try:
            outcome = await _run(call, args, kwargs)
        except (trio.Cancelled, BaseExceptionGroup):
            # An inner nursery puts its errors in a group, cancellations too.
            raise
        except BaseException as interrupt:
            # An interrupt or an exit is raised as itself; the nursery would wrap it in a group.
            interruption = interrupt
            nursery.cancel_scope.cancel()
            return
        send.send_nowait((*outcome, number))

    def launch(nursery: Any) -> bool:
        started = race.launch()
        if started is None:
            return False
        nursery.start_soon(run, *started, race.launched)
        return True

    async def follow(nursery: object) -> tuple[BaseException | None, Any]:
        launch(nursery)
        while True:
            ended = None
            limit = race.delay()
            with trio.move_on_after(float("inf") if limit is None else limit):
                ended = await receive.receive()
            if ended is None:
                if not launch(nursery) and not race.out:
                    return race.end(), None
                continue
            failure, value, number = ended
            if failure is None:
                race.succeeded(number)
                return None, value
            if race.is_lost(failure, number, lambda: launch(nursery)):
                return race.end(), None

    try:
        async with trio.open_nursery() as nursery:
            try:
                error, answer = await follow(nursery)
            except Exception as fault:
                # Out of here it would arrive wrapped in a group.
                error = fault
            finally:
                race.over()
            nursery.cancel_scope.cancel()
    finally:
        if race.closes:
            with trio.CancelScope(shield=True):
                await _discard_late(trio, receive)
    if interruption is not None:
        error = interruption
    if error is None:
        return answer
    try:
        raise error
    finally:
        del error, interruption
