"""The only place that reads a clock."""

from __future__ import annotations

import time

from .call_template import SHARED_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Clock(Protocol):
        """Clock of a policy: seconds that never jump, and a sleep in them."""

        def now(self) -> float: ...

        def sleep(self, seconds: float, /) -> None: ...


class SystemClock:
    """The machine's monotonic clock."""

    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def __repr__(self) -> str:
        return "SystemClock()"


SYSTEM: Clock = SystemClock()


class Ambient:
    """The clock of everything that was not given one: the system's, or a test's in its place.

    ``now`` is an attribute rather than a method, so that a compiled success path reads the time
    with one C call.
    """

    __slots__ = ("_overrides", "clock", "now")

    def __init__(self) -> None:
        self._overrides: list[Clock] = []
        self._apply()

    def _apply(self) -> None:
        self.clock = self._overrides[-1] if self._overrides else SYSTEM
        self.now = self.clock.now
        # Compiled functions read these.
        SHARED_NAMES["_sp_clock"], SHARED_NAMES["_sp_now"] = self.clock, self.now

    def stand_on(self, system: Clock) -> None:
        """Take ``system`` for the machine's own clock from now on."""
        global SYSTEM
        SYSTEM = system
        self._apply()

    def override(self, clock: Clock) -> None:
        """Put ``clock`` in place of the system's, in every thread, until `restore`."""
        self._overrides.append(clock)
        self._apply()

    def restore(self, clock: Clock) -> None:
        """Take back one `override` of ``clock``."""
        for index in range(len(self._overrides) - 1, -1, -1):
            if self._overrides[index] is clock:
                del self._overrides[index]
                break
        self._apply()


AMBIENT = Ambient()


def timer_of(clock: Clock | None) -> Clock | Ambient:
    """Where to read the time with ``now()``: ``clock``; ``None`` is the ambient one."""
    return AMBIENT if clock is None else clock


def current() -> Clock:
    """The clock of everything that was not given one."""
    return AMBIENT.clock


def wall() -> float:
    """Seconds since the epoch, for reading a date that a server sent. Never for measuring time."""
    return time.time()
