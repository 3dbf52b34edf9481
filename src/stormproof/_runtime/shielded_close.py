"""Awaits work that must not be cancelled at just any moment."""

from __future__ import annotations

from contextlib import nullcontext
from math import inf
from sys import modules
from types import ModuleType, coroutine

from .interrupts import anyio_scope, is_shielded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable, Callable, Generator
    from typing import Any

#: First words of the cancellations of anyio's own scopes.
_ANYIO = "Cancelled via cancel scope "


def _task() -> Any:
    """The running task of asyncio's; None under trio."""
    try:
        return modules["asyncio"].current_task()
    except (KeyError, RuntimeError):
        return None


def _until_done(future: Future[Any]) -> Generator[Any, Any, BaseException | None]:
    """Wait for a future that no ``task.cancel()`` reaches: the last of these, if there was one."""
    # It was given to be yielded to the task, which would cancel it.
    future._asyncio_future_blocking = False
    late: BaseException | None = None
    while not future.done():
        own = future.get_loop().create_future()

        def wake(_: Any, own: Future[Any] = own) -> None:
            if not own.done():
                own.set_result(None)

        future.add_done_callback(wake)
        try:
            yield from own
        except GeneratorExit:
            raise
        except BaseException as error:
            if str(error).startswith(_ANYIO):
                # Of a scope inside the shielded one, such as a time limit on what closes.
                future.cancel(str(error))
            else:
                late = error
        finally:
            future.remove_done_callback(wake)
    return late


def _is_pending(waits: Any) -> bool:
    """Return True if ``waits`` is an asyncio future without a result yet."""
    return hasattr(waits, "add_done_callback") and not waits.done()


def _nothing_was_cancelled(waits: Any) -> bool:
    """Return True if the cancelled wait was none at all, or was already over.

    ``None`` is asyncio's way to let the others have their turn. A future with a result has handed something
    over, such as a place in a pool, which would be lost with the cancellation.
    """
    if waits is None:
        return True
    done = getattr(waits, "done", None)
    return done is not None and bool(done()) and not waits.cancelled()


@coroutine
def await_cancel_at_suspension(
    work: Awaitable[Any], undo: Callable[[Any], Awaitable[Any]] | None = None
) -> Generator[Any, Any, Any]:
    """Await ``work``, which is cancelled only where it really waits for something, or when it has ended.

    A cancellation that comes while it merely lets others have their turn, when what it waited for is there
    already, or inside a shielded scope of anyio's, is kept until then. Libraries that guard such moments
    against the cancellations of their own kind, as httpx does with anyio's, lose a connection to a plain
    ``task.cancel()`` then: it stays open in their pool, and is never used again.

    What ``work`` gives when it is cancelled at its end goes to ``undo``. What comes from a scope of anyio's
    is handed on at once, since the scope may be over by the next wait; not so without ``undo``, that is for
    what closes something, and has no such scopes inside.
    """
    steps = work.__await__()
    task = _task()
    outer = anyio_scope(task)
    late: BaseException | None = None
    renewed = 0
    try:
        waits = next(steps)
        while True:
            if waits is not None and hasattr(waits, "add_done_callback") and is_shielded(task, outer):
                late = (yield from _until_done(waits)) or late
                waits = steps.send(None)
                continue
            if late is not None and _is_pending(waits):
                # As a cancellation of the task, counted by it: scopes of anyio's that were entered since the
                # first one would take it for one of theirs otherwise, and swallow it.
                task.cancel()
                renewed += 1
                late = None
            try:
                reply = yield waits
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                if _nothing_was_cancelled(waits) and (undo is None or not str(error).startswith(_ANYIO)):
                    late = error
                    waits = next(steps)
                else:
                    waits = steps.throw(error)
            else:
                waits = steps.send(reply)
    except StopIteration as end:
        if late is None:
            return end.value
        if undo is not None:
            # A generator, whatever the decorator makes of its type.
            yield from await_cancel_at_suspension(undo(end.value))  # pyright: ignore[reportGeneralTypeIssues]
    except Exception:
        if late is None:
            raise
    finally:
        for _ in range(renewed):
            task.uncancel()
    try:
        raise late
    finally:
        # Its traceback holds this frame.
        del late


@coroutine
def await_cancel_at_suspension_in_trio(
    trio: ModuleType, work: Awaitable[Any], on_cancel: Callable[[BaseException], object]
) -> Generator[Any, Any, Any]:
    """Do the same under trio: a shielded scope around ``work`` is open only while the task is suspended.

    Inside a shield a checkpoint lets the other tasks run and raises nothing, so that a cancellation meets
    ``work`` only where it waits for something, or at its first checkpoint if it comes before that.

    ``on_cancel`` is given the cancellation, with the traceback that it has when ``work`` ends or waits again,
    before any other task runs. ``work`` must leave every scope that it enters.
    """
    steps = work.__await__()
    if trio.current_effective_deadline() == -inf:
        return (yield from steps)
    task = trio.lowlevel.current_task()
    outer = len(task.child_nurseries)
    with trio.CancelScope(shield=True) as scope:
        try:
            waits = next(steps)
            while True:
                scope.shield = False
                try:
                    reply = yield waits
                except BaseException as thrown:
                    waits = steps.throw(thrown)
                    continue
                error: Any = getattr(reply, "error", None)
                cancelled = isinstance(error, trio.Cancelled)
                # Scopes inside would else take a cancellation from outside for their own; so would nurseries,
                # whose other tasks it has reached.
                scope.shield = not cancelled and len(task.child_nurseries) == outer
                try:
                    waits = steps.send(reply)
                finally:
                    if cancelled:
                        on_cancel(error)
                    # Its traceback holds this frame.
                    del error, reply
        except StopIteration as end:
            return end.value


def shield(running: Any) -> Any:
    """A scope of the library at work (trio, or anyio on asyncio) that its own cancellations do not reach."""
    anyio = modules.get("anyio")
    if running is not None and running.__name__ == "trio":
        return running.CancelScope(shield=True)
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)


def await_shielded(closing: Awaitable[Any]) -> Awaitable[Any]:
    """Await ``closing`` to its end; a cancellation meanwhile is raised after it."""
    return await_cancel_at_suspension(closing)
