"""How late the machine itself is: a sleeper measures by how much it oversleeps."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque

_EVERY_S = 0.02
#: About a minute.
_KEPT = 3000


class Lag:
    """The oversleeps of the last minute, and the worst of all."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._due = time.monotonic()
        self.most = 0.0

    def _note(self) -> float:
        now = time.monotonic()
        late = max(0.0, now - self._due)
        self._seen.append((now, late))
        self.most = max(self.most, late)
        self._due = now + _EVERY_S
        return _EVERY_S

    def worst(self, within_s: float) -> float:
        """The worst of the last ``within_s`` seconds, the one that is still going on included."""
        now = time.monotonic()
        since = now - within_s
        worst = now - self._due
        for at, late in reversed(self._seen.copy()):
            if at < since:
                break
            worst = max(worst, late)
        return max(0.0, worst)

    async def of_loop(self) -> None:
        """Measure the event loop until cancelled."""
        self._due = time.monotonic()
        while True:  # noqa: ASYNC110 - the sleep is what is measured
            await asyncio.sleep(self._note())

    def of_threads(self, stop: threading.Event) -> None:
        """Measure how long a thread waits for its turn, until ``stop``."""
        self._due = time.monotonic()
        while not stop.wait(self._note()):
            pass
