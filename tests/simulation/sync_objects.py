"""Objects that the threads of a world wait on."""

from __future__ import annotations

from queue import Empty
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .world import Actor, World

#: The one reason to wait with a lock in one's hands.
FOR_A_LOCK = "waits for a lock"

#: Looks at the clock in one moment after which it moves on by itself.
MANY_LOOKS = 1000


class WorldClock:
    """The machine's clock. ``world.offset_s`` is how far it has been set."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        world = self._world
        world.looks += 1
        if world.looks > MANY_LOOKS:
            # A thread that polls the clock makes time pass, as it would.
            world.now_s += 1e-7
            if world.looks > 20 * MANY_LOOKS:
                raise AssertionError("a thread spins, looking at the clock")
        return world.now_s + world.offset_s

    def sleep(self, seconds: float, /) -> None:
        self._world.sleep(seconds)


class Thread:
    """A started thread."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world = world
        self.actor = actor

    def join(self, timeout: float | None = None) -> None:
        end = None if timeout is None else self._world.now_s + timeout
        while not self.actor.done and not self._world.over:
            left = None if end is None else end - self._world.now_s
            if left is not None and left <= 0:
                return
            self.actor.joiners.append(self._world.me)
            self._world.park(left, f"joins {self.actor}")


class Lock:
    """A reentrant lock. Only in a fine-grained world anybody ever waits for one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._owner: Actor | None = None
        self._depth = 0
        self._waiting: list[Actor] = []

    def __enter__(self) -> None:
        world = self._world
        me = world.me
        if self._owner is not me:
            world.pause()
            while self._owner is not None and not world.over:
                self._waiting.append(me)
                world.park(None, FOR_A_LOCK)
        self._owner = me
        self._depth += 1
        me.locks += 1

    def __exit__(self, *exc: object) -> None:
        world = self._world
        world.me.locks -= 1
        self._depth -= 1
        if not self._depth:
            self._owner = None
            waiting, self._waiting = self._waiting, []
            for actor in waiting:
                world.wake(actor)
            world.pause()


class Gate:
    """A gate at which one thread waits until another opens it, once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open = False
        self._waiting: Actor | None = None

    def acquire(self, timeout: float = -1) -> bool:
        if not self._open:
            self._waiting = self._world.me
            try:
                self._world.park(None if timeout < 0 else timeout, "waits at a gate")
            finally:
                self._waiting = None
        passed, self._open = self._open, False
        return passed

    def release(self) -> None:
        if self._open:
            raise RuntimeError("release unlocked lock")
        self._open = True
        if self._waiting is not None:
            self._world.wake(self._waiting)
        self._world.pause()


class Mailbox:
    """A queue for one reader."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._items: list[Any] = []
        self._reader: Actor | None = None

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._reader is not None:
            self._world.wake(self._reader)
        self._world.pause()

    def get(self, timeout: float | None = None) -> Any:
        if not self._items:
            self._reader = self._world.me
            try:
                self._world.park(timeout, "is idle")
            finally:
                self._reader = None
        if not self._items:
            raise Empty
        return self._items.pop(0)
