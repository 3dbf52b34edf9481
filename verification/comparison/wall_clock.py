"""Sets the wall clock of this process, as an administrator or NTP would: the monotonic clock goes on.

Has to run before the probed library is imported, which may keep `time.time` under a name of its own.
"""

from __future__ import annotations

import datetime
import time

_offset_s = 0.0
_time, _time_ns = time.time, time.time_ns


class _Moved(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> datetime.datetime:  # type: ignore[override]
        return cls.now(datetime.UTC).replace(tzinfo=None)


def take_over() -> None:
    time.time = lambda: _time() + _offset_s
    time.time_ns = lambda: _time_ns() + int(_offset_s * 1e9)
    datetime.datetime = _Moved  # type: ignore[misc]


def move(seconds: float) -> None:
    global _offset_s
    _offset_s += seconds
