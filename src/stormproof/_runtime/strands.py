"""Strands of execution: the task or thread that runs this code, and those that its errors get to."""

from __future__ import annotations

from _thread import get_ident
from itertools import count
from sys import modules

from .call_template import SHARED_NAMES
from .forks import after_fork
from .frames import frame_at
from .interrupts import ANYIO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    #: Where and when something was made: the moment, the strand, its thread, what carries errors out of it.
    Origin = tuple[int, object, int, Any]

#: The name of the last origin's number in `SHARED_NAMES`. Compiled functions read it as they begin: what has
#: a higher one was made later, in whatever thread. Where two threads store theirs at the same time the lower
#: one may stay, and what was made in between counts as later.
MOMENT = "_sp_moment"
SHARED_NAMES[MOMENT] = 0
_next_moment = count(1).__next__

#: In place of a task or future: errors are handed over in a way that cannot be asked afterwards.
HANDS_OVER: object = object()
#: The threads in which a driver of ours runs a call right now, whose error it hands over.
handing_over: set[int] = set()

#: Modules whose frame under a worker thread's function knows what gets its outcome, and how to find it there.
_CARRIERS: dict[str, Callable[[Any], Any]] = {
    "concurrent.futures.thread": lambda seen: getattr(seen.get("self"), "future", None),
    ANYIO: lambda seen: seen.get("future"),
    "trio._threads": lambda seen: HANDS_OVER,
}


def origin() -> Origin:
    """Return the origin of an object made here and now.

    An asyncio task carries its error itself, a worker thread by a future. Trio's tasks raise it in those
    around them.
    """
    SHARED_NAMES[MOMENT] = moment = _next_moment()
    thread, task = get_ident(), None
    # `_task` is asked only where an async library runs: every call that gives up comes through here.
    if "trio" in modules or ("asyncio" in modules and modules["asyncio"]._get_running_loop() is not None):
        task = _task()
    if task is None and thread == (_main or _main_thread()):
        return moment, thread, thread, None
    if thread in handing_over:
        return moment, task or thread, thread, HANDS_OVER
    if task is not None:
        return moment, task, thread, task if hasattr(task, "exception") else _ancestors(task)
    return moment, thread, thread, _future()


def is_here(origin: Origin) -> bool:
    """Return True if this code runs in the strand of ``origin``, or around the event loop that runs it."""
    strand = _task() or get_ident()
    return strand == origin[1] or strand == origin[2]


def reaches(origin: Origin, is_it: Callable[[BaseException], bool]) -> bool:
    """Return True if errors get here from ``origin``, and the one for which ``is_it`` is True did."""
    carrier = origin[3]
    if type(carrier) is tuple:
        return _task() in carrier
    if carrier is None or carrier is HANDS_OVER:
        return carrier is not None
    if not carrier.done() or carrier.cancelled():
        return False
    error = carrier.exception()
    return error is not None and is_it(error)


def _task() -> Any:
    """Return the task of asyncio or trio that runs this code, or ``None``."""
    if "trio" in modules and (trio := modules["trio"].lowlevel).in_trio_task():
        return trio.current_task()
    if "asyncio" in modules and (loop := (asyncio := modules["asyncio"])._get_running_loop()) is not None:
        return asyncio.current_task(loop)
    return None


def _future() -> Any:
    """Return the receiver of the outcome of the function that this worker thread runs; None if unknown."""
    frame: Any = frame_at(1)
    while frame is not None:
        find = _CARRIERS.get(frame.f_globals.get("__name__", ""))
        if find is not None:
            names = frame.f_locals
            future = find(names)
            if type(names) is dict:
                # Before 3.13 this copy stays with the frame, and keeps objects alive that the frame drops.
                names.clear()
            if future is not None:
                return future
        frame = frame.f_back
    return None


def _ancestors(task: Any) -> tuple[object, ...]:
    """Return the trio tasks around ``task``."""
    ancestors: list[object] = []
    while (nursery := task.parent_nursery) is not None:
        task = nursery.parent_task
        ancestors.append(task)
    return tuple(ancestors)


#: The identity of the main thread, once it was asked for: that takes long. 0: not yet.
_main = 0


def _main_thread() -> int:
    """Find the main thread; it is this one while no other was started by Python."""
    global _main
    threading = modules.get("threading")
    if threading is None:
        return get_ident()
    _main = threading.main_thread().ident
    return int(_main)


@after_fork
def _renew() -> None:
    # Threads do not survive a fork, and the one that forked is the main one now.
    global _main
    _main = 0
    handing_over.intersection_update((get_ident(),))
