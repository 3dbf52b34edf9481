"""Elapsed time of a call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic as _monotonic
from typing import Any

# Bound at import on purpose: a test that replaces ``time.monotonic`` for its own code has never had to
# answer calls from here.


class Stopwatch:
    """Seconds since it was made, unmoved by changes of the wall clock.

    ``wall`` returns what currently stands for ``datetime.datetime``. While that is the real class the
    monotonic clock is read; a replacement is asked for its ``now()``: once at the start, once per reading.
    """

    def __init__(self, wall: Callable[[], Any]) -> None:
        self._wall = wall
        source = wall()
        self._began = source.now()
        self._mark = _monotonic() if _genuine(source) else None

    def elapsed(self) -> float:
        source = self._wall()
        if self._mark is not None and _genuine(source):
            return _monotonic() - self._mark
        return float((source.now() - self._began).total_seconds())


def _genuine(source: object) -> bool:
    # By name, not identity: this module may be imported while a replacement is in place. time-machine alters
    # the real class from C, which cannot be seen from here, so its presence decides.
    name = (getattr(source, "__module__", None), getattr(source, "__qualname__", None))
    return name == ("datetime", "datetime") and "time_machine" not in sys.modules
