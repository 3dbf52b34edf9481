"""Sleeps of the user's own code that end with the enclosing scope."""

from __future__ import annotations

from .._context.deadlines import ambient, check
from .._primitives.options import seconds as as_seconds
from . import aio, sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._primitives.options import Seconds


def sleep(seconds: Seconds) -> None:
    """Sleep in this thread; `Cancelled` as soon as the enclosing scope is cancelled.

    A sleep that would end past the enclosing deadline raises `DeadlineExceeded` at once: sleeping first and
    failing then helps no caller. 0 only checks the scope. Free inside `stormproof.testing.instant`.
    """
    sync.sleep(_checked("sleep", seconds))
    check()


async def sleep_async(seconds: Seconds) -> None:
    """Sleep in this task, as `sleep` does in a thread; 0 lets other tasks run."""
    await aio.sleep(_checked("sleep_async", seconds))
    check()


def _checked(owner: str, value: Seconds) -> float:
    wait = as_seconds(owner, "seconds", value)
    check()
    scope = ambient()
    left = None if scope is None else scope.remaining()
    if scope is not None and left is not None and wait >= left:
        raise scope.tightest().late(
            f"a sleep of {wait:.3g} s would end past the deadline: {left:.3g} s are left"
        )
    return wait
