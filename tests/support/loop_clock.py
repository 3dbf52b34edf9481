"""A clock that uses a loop's own (virtual) time, under asyncio and trio alike."""

from __future__ import annotations

from tests.support.loops import Loop

import stormproof as sp


class LoopClock(sp.testing.FakeClock):
    """``LoopClock(loop)``: waits on it are the loop's timers, and are listed in ``sleeps``."""

    drives_timers = True

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop
        self._read = 0.0

    def now(self) -> float:
        """The loop's time; where it has ended, and only a gauge still asks, the last one that was read."""
        try:
            self._read = self._loop.time()
        except RuntimeError:
            pass
        return self._read

    def sleep(self, seconds: float) -> None:
        raise AssertionError("an async wait must not block the loop")
