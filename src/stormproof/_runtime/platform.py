"""Threads, and the locks and queues that they wait on.

Everything that can block a thread of Stormproof is made here, and reads the time from `clock.SYSTEM`. So a
simulation that replaces this `Machine` by its own decides which thread runs, and when.
"""

from __future__ import annotations

import threading

from . import clock as _clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .clock import Clock


class Machine:
    """The real one."""

    __slots__ = ()

    #: A signal that comes on the way into a wait is noticed only when the wait ends, so none is longer.
    nap_s = 1.0

    @property
    def clock(self) -> Clock:
        """Its time."""
        return _REAL_CLOCK

    def lock(self) -> Any:
        """A reentrant lock."""
        return threading.RLock()

    def gate(self) -> Any:
        """Return a lock that is already acquired: to acquire it is to wait until it is released."""
        gate = threading.Lock()
        gate.acquire()
        return gate

    def mailbox(self) -> Any:
        """A queue without a bound."""
        from queue import SimpleQueue

        return SimpleQueue()

    def start(self, target: Callable[[], None], name: str) -> Any:
        """A running thread, which does not keep the program from ending."""
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread


_REAL_CLOCK = _clock.SYSTEM
machine = Machine()


def put(another: Machine) -> Machine:
    """Get everything from ``another`` machine from now on, its clock included; gives the one so far."""
    global machine
    before, machine = machine, another
    _clock.AMBIENT.stand_on(another.clock)
    return before
