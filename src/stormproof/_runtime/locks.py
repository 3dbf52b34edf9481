"""Locks for shared state: one per owner, and a new one in every forked child."""

from __future__ import annotations

import sys
import weakref

from . import platform as _platform
from .forks import after_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

_guarded: weakref.WeakSet[Any] = weakref.WeakSet()


def guard(owner: object) -> AbstractContextManager[object]:
    """Return a lock for ``owner`` to keep as its ``_lock``, which is replaced in every forked child.

    A lock that another thread held while the process forked stays locked for ever in the child.
    Reentrant, because a signal handler may use what its own thread is just using.
    """
    lock: AbstractContextManager[object] = _platform.machine.lock()
    _guarded.add(owner)
    return lock


def guarded() -> list[Any]:
    """Return everything alive that was given a lock: whatever holds state."""
    return list(_guarded)


@after_fork
def _renew_locks() -> None:
    owners = list(_guarded)
    # All locks first: the code of one owner may need the lock of another.
    for owner in owners:
        object.__setattr__(owner, "_lock", _platform.machine.lock())
    for owner in owners:
        # The parent's threads do not exist here, so the places they held are free.
        if hasattr(owner, "after_fork"):
            owner.after_fork()


def has_gil() -> bool:
    """Return True if only one thread runs at a time; False on a free-threaded build."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()
