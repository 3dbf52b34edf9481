"""Locks for shared state: one per owner, and a new one in every forked child."""

from __future__ import annotations

import os
import sys
import weakref

from . import platform as _platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_guarded: weakref.WeakSet[Any] = weakref.WeakSet()


def guard(owner: object) -> None:
    """Give ``owner`` a ``_lock``, and a fresh one in every forked child.

    A lock that another thread held while the process forked stays locked for ever in the child.
    Reentrant, because a signal handler may use what its own thread is just using.
    """
    object.__setattr__(owner, "_lock", _platform.machine.lock())
    _guarded.add(owner)


def guarded() -> list[Any]:
    """Return everything alive that was given a lock: whatever holds state."""
    return list(_guarded)


def _renew_locks() -> None:
    owners = list(_guarded)
    # All of them first: what one does in the child may need another's lock.
    for owner in owners:
        object.__setattr__(owner, "_lock", _platform.machine.lock())
    for owner in owners:
        # The parent's threads do not exist here, so what they held is free.
        if hasattr(owner, "after_fork"):
            owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def has_gil() -> bool:
    """Return True if only one thread runs at a time; False on a free-threaded build."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()
