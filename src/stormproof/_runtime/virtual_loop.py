"""An asyncio event loop whose time jumps to the next timer instead of passing."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


class _Selector(selectors.BaseSelector):
    """Looks at real events without waiting for them; a wait moves the loop's time instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._real = selectors.DefaultSelector()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = self._real.select(0)
        if ready or timeout is None:
            # Without a timer to jump to, only another thread can end the wait.
            return ready or self._real.select(None)
        self._loop.jump(max(0.0, timeout))
        return ready

    def register(self, *args: Any, **kwargs: Any) -> Any:
        return self._real.register(*args, **kwargs)

    def unregister(self, *args: Any, **kwargs: Any) -> Any:
        return self._real.unregister(*args, **kwargs)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Any:
        return self._real.get_map()


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._virtual_now = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._virtual_now

    def jump(self, seconds: float) -> None:
        """Move time."""
        self._virtual_now += seconds
