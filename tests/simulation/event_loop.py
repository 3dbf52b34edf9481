"""The asyncio loop of a world: it waits as any other thread there does."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

from .world import World


class _Selector(selectors.BaseSelector):
    """Knows no sockets. Instead of waiting for them it lets the other threads go on."""

    def __init__(self) -> None:
        self.loop: Loop

    def select(self, timeout: float | None = None) -> list[Any]:
        world = self.loop.world
        if timeout == 0 or self.loop.rung:
            world.pause()
        else:
            world.park(timeout, "has no task to run")
        self.loop.rung = False
        return []

    def register(self, *args: Any) -> Any: ...

    def unregister(self, *args: Any) -> Any: ...

    def get_map(self) -> Any: ...


class Loop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.actor = world.me
        #: Whether another thread has left something to do.
        self.rung = False
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.world.now_s

    def _make_self_pipe(self) -> None: ...

    def _close_self_pipe(self) -> None: ...

    def _write_to_self(self) -> None:
        self.rung = True
        self.world.wake(self.actor)
        self.world.pause()
