"""The sleeps that a retry object may be given."""

from __future__ import annotations

# The whole module: tests replace nap.time.sleep.
import time
from typing import TYPE_CHECKING

from ..._runtime import clock as _clock

if TYPE_CHECKING:
    import threading


def sleep(seconds: float) -> None:
    """Sleep with ``time.sleep``; inside `stormproof.testing.instant`, on its clock."""
    clock = _clock.current()
    if clock is _clock.SYSTEM:
        time.sleep(seconds)
    else:
        clock.sleep(seconds)


class sleep_using_event:
    """Sleep that ends early when ``event`` is set."""

    def __init__(self, event: threading.Event) -> None:
        self.event = event

    def __call__(self, timeout: float | None) -> None:
        self.event.wait(timeout=timeout)
