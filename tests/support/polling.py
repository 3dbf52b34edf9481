"""Waiting for what another thread or process brings about: by looking, never by a fixed sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def eventually(found: Callable[[], Any], within: float = 5.0) -> Any:
    """What ``found()`` gives, as soon as it is true; fails after ``within`` seconds."""
    end = time.monotonic() + within
    while not (value := found()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)
    return value
