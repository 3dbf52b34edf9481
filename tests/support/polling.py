"""Waiting for what another thread, task or process brings about: by looking, never by a fixed sleep.

The limits only bound a test that fails: a test that passes returns as soon as the condition holds, however
busy the machine is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

#: Far more than any condition takes on a busy machine.
TIMEOUT_S = 30.0


def eventually(condition: Callable[[], Any], what: str = "", within: float = TIMEOUT_S) -> Any:
    """Return ``condition()`` as soon as it is true; fail after ``within`` seconds, naming ``what``."""
    end = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {within:g} s: {what or 'the condition'}"
        time.sleep(0.001)
    return value


async def eventually_async(condition: Callable[[], Any], what: str = "", within: float = TIMEOUT_S) -> Any:
    """Do the same in an asyncio task, letting others run."""
    end = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {within:g} s: {what or 'the condition'}"
        await asyncio.sleep(0.001)
    return value
