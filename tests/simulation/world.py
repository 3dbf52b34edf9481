"""The machine of a simulation: real threads, of which exactly one runs at a time, and a time of its own.

A thread runs until it waits for something, or until the seed lets another one go first: before a lock is
taken and after it is given back, and when a thread is woken. In a fine-grained world it does so also where
CPython itself may change threads in code that shares state: on entering a function, and after a call of a
built-in one. Time stands still while a thread can run, and then jumps to the next awaited moment.
"""

from __future__ import annotations

import heapq
import sys
import threading
from collections.abc import Callable
from random import Random
from types import FrameType

from stormproof._runtime.platform import Machine

from .sync_objects import FOR_A_LOCK, Gate, Lock, Mailbox, Thread, WorldClock

#: A run that takes more turns than this goes round in circles.
MOST_TURNS = 60_000

#: Seconds without a step of a user's thread after which background threads no longer count as progress.
STALL_S = 200.0


#: Where threads meet. What is cached for the whole process is not among it: a second run would differ.
SHARED = (
    *(
        "bucket",
        "budget",
        "bulkhead",
        "breaker",
        "circuit",
        "deadlines",
        "hedge",
        "leases",
        "limiter",
        "quotas",
    ),
    *(
        "rate_limit",
        "throttle",
        "tickets",
        "timeouts",
        "adaptive",
        "interrupt",
        "queue",
        "race",
        "threads",
        "sync",
    ),
    *("exchange", "holder", "memory"),
)


class Over(BaseException):
    """The world has ended; thrown into the threads that are left."""


class Actor:
    """A thread of the world. ``daemon``: a worker of the library's, which may wait for ever."""

    def __init__(self, number: int, name: str, daemon: bool) -> None:
        self.number = number
        self.name = name
        self.daemon = daemon
        self.go = threading.Lock()
        self.go.acquire()
        self.done = False
        self.locks = 0
        #: The number of its present wait; 0 while it can run.
        self.waits = 0
        self.because = ""
        self.joiners: list[Actor] = []
        self.real: threading.Thread | None = None

    def __repr__(self) -> str:
        return self.name


class World(Machine):
    """See the module. The thread that makes it is its first actor."""

    nap_s = float("inf")

    def __init__(self, rng: Random, eager: float, fine: float = 0.0) -> None:
        self.rng = rng
        #: How likely a thread changes places at any point where CPython may let it.
        self.fine = fine
        self._is_shared: dict[str, bool] = {}
        #: How likely a thread that could go on lets another one go first.
        self.eager = eager
        self.now_s = 1000.0
        self.offset_s = 0.0
        self.over = False
        self.stuck: str | None = None
        self.faults: list[str] = []
        self.crashes: list[BaseException] = []
        self.turns = 0
        self.looks = 0
        self._parks = 0
        self._progress_s = self.now_s
        self.stall_s = STALL_S
        self._ready: list[Actor] = []
        self._timers: list[tuple[float, int, Actor]] = []
        self.actors: list[Actor] = []
        self.me = self._actor("main", False)
        self._clock = WorldClock(self)

    @property
    def clock(self) -> WorldClock:
        return self._clock

    def _actor(self, name: str, daemon: bool) -> Actor:
        actor = Actor(len(self.actors), name, daemon)
        self.actors.append(actor)
        return actor

    # The thread whose turn it is.

    def _next(self) -> Actor:
        """Return the thread to run now; let time pass when none can."""
        self.turns += 1
        if self.turns > MOST_TURNS:
            return self._give_up("it goes round in circles")
        while not self._ready:
            while self._timers and self._timers[0][2].waits != self._timers[0][1]:
                heapq.heappop(self._timers)
            if not self._timers:
                return self._give_up("deadlock: no call can continue, and nothing is scheduled")
            self.now_s, self.looks = max(self.now_s, self._timers[0][0]), 0
            while self._timers and self._timers[0][0] <= self.now_s:
                _, park, actor = heapq.heappop(self._timers)
                if actor.waits == park:
                    self._rouse(actor)
            if self.now_s - self._progress_s > self.stall_s and not self._has_timed_waiter():
                return self._give_up(f"only background threads did anything for {self.stall_s:g} s")
        # In the order of their numbers: a thread that wakes several does so in no certain order.
        self._ready.sort(key=lambda actor: actor.number)
        actor = self._ready.pop(self.rng.randrange(len(self._ready)) if len(self._ready) > 1 else 0)
        if not actor.daemon:
            self._progress_s = self.now_s
        return actor

    def _has_timed_waiter(self) -> bool:
        return any(
            not a.daemon and (not a.waits or _timed(self._timers, a)) for a in self.actors if not a.done
        )

    def _give_up(self, why: str) -> Actor:
        if self.stuck is None:
            waiting = [f"{a} {a.because}" for a in self.actors if not a.done and a.waits]
            self.stuck = f"{why}: {', '.join(waiting)}"
        self.over = True
        return self.actors[0]

    def _hand_over(self, me: Actor) -> None:
        chosen = self._next()
        if chosen is not me:
            self.me = chosen
            chosen.go.release()
            me.go.acquire()
        if self.over:
            raise Over

    def pause(self) -> None:
        """Let the seed choose the next thread."""
        if self.over or not self._ready or self.rng.random() >= self.eager:
            return
        self._give_way()

    def _give_way(self) -> None:
        me = self.me
        if not me.locks or self.fine:
            self._ready.append(me)
            self._hand_over(me)

    def watch(self) -> None:
        """In a fine-grained world: let the seed interrupt the thread that calls this."""
        if self.fine:
            sys.setprofile(self._step)

    def _step(self, frame: FrameType, event: str, arg: object) -> None:
        if event not in ("call", "c_return") or self.over or not self._ready:
            return
        if frame.f_code.co_name == "<module>":
            # A template, compiled for the first time.
            return
        file = frame.f_code.co_filename
        shared = self._is_shared.get(file)
        if shared is None:
            name = file.rpartition("/")[2].removesuffix(".py")
            shared = self._is_shared[file] = file.startswith("stormproof ") or (
                "/stormproof/" in file and name in SHARED
            )
        if shared and self.rng.random() < self.fine:
            self._give_way()

    def park(self, seconds: float | None, because: str) -> None:
        """Wait until another thread wakes this one, but no longer than ``seconds``."""
        if self.over:
            raise Over
        me = self.me
        if me.locks and because != FOR_A_LOCK:
            self.faults.append(f"{me} waits ({because}) with a lock in its hands")
        self._parks += 1
        me.waits, me.because = self._parks, because
        if seconds is not None and seconds != float("inf"):
            # No wait is shorter than a tick: less would not move the sums.
            end = self.now_s + max(1e-9, seconds) if seconds > 0 else self.now_s
            heapq.heappush(self._timers, (end, me.waits, me))
        self._hand_over(me)

    def _rouse(self, actor: Actor) -> None:
        actor.waits = 0
        self._ready.append(actor)

    def wake(self, actor: Actor) -> None:
        """End its wait."""
        if actor.waits and not self.over:
            self._rouse(actor)

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass for this thread; nothing ends that early."""
        end = self.now_s + seconds
        while self.now_s < end:
            self.park(end - self.now_s, "sleeps")

    # What Stormproof asks of a machine.

    def lock(self) -> Lock:
        return Lock(self)

    def gate(self) -> Gate:
        return Gate(self)

    def mailbox(self) -> Mailbox:
        return Mailbox(self)

    def start(self, target: Callable[[], None], name: str, daemon: bool = True) -> Thread:
        actor = self._actor(f"{name}-{len(self.actors)}", daemon)
        actor.real = threading.Thread(target=self._live, args=(actor, target), name=name, daemon=True)
        actor.real.start()
        self._ready.append(actor)
        self.pause()
        return Thread(self, actor)

    def _live(self, actor: Actor, target: Callable[[], None]) -> None:
        actor.go.acquire()
        self.watch()
        try:
            if not self.over:
                target()
        except Over:
            pass
        except BaseException as error:
            self.crashes.append(error)
        sys.setprofile(None)
        actor.done = True
        for joiner in actor.joiners:
            self.wake(joiner)
        if not self.over:
            self.me = chosen = self._next()
            chosen.go.release()

    def end(self) -> None:
        """Throw out the threads that are left, one after the other. By the first actor, at the end."""
        self.over = True
        for actor in self.actors[1:]:
            if not actor.done:
                self.me = actor
                actor.go.release()
            assert actor.real is not None
            actor.real.join()
        self.me = self.actors[0]


def _timed(timers: list[tuple[float, int, Actor]], actor: Actor) -> bool:
    return any(entry[2] is actor and entry[1] == actor.waits for entry in timers)
