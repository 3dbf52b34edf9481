"""Service of work: the amount of it, and the order in which workers take it.

In first-come order the end of a piece of work is known when it arrives, so serving it takes no event
of its own. The other orders are notified when a worker becomes free.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from ..._primitives.options import seconds
from .faults import ColdCache
from .scenario import Scenario, depends_on_load
from .spread import Spread
from .timeline import Capacity

if TYPE_CHECKING:

    class Agenda(Protocol):
        """Schedule of things that happen later."""

        def at(self, when: float, act: Callable[[Any], None], what: object) -> None: ...


class Work:
    """Draws how much work a request is, in seconds of one worker, cold caches included."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        mean = scenario.workers / scenario.capacity_rps
        rng = Random(f"{seed} service")
        service = scenario.service
        #: True if it depends on how many requests are in flight.
        self.loaded = depends_on_load(service)
        self._draw: Callable[[int], float]
        if isinstance(service, Spread):
            sample = service.sampler(rng, mean)
            self._draw = lambda in_flight: sample()
        elif self.loaded:
            self._draw = lambda in_flight: seconds("Scenario", "service", service(rng, in_flight))
        else:
            self._draw = lambda in_flight: seconds("Scenario", "service", service(rng))
        faults = sorted((f for f in scenario.faults if isinstance(f, ColdCache)), key=lambda fault: fault.at)
        self._cold = faults
        self._served = 0
        #: The work of every request, where it is always the same.
        self.fixed = mean if isinstance(service, Spread) and service.kind == "fixed" and not faults else None

    def amount(self, start: float, in_flight: int = 1) -> float:
        """Return the work of a request that is begun at ``start``, with ``in_flight`` at the backend."""
        work = self._draw(in_flight)
        cold = self._cold
        if cold and start >= cold[0].at:
            if len(cold) > 1 and start >= cold[1].at:
                self._cold = cold[1:]
                self._served = 0
                cold = self._cold
            left = 1.0 - self._served / cold[0].warm
            self._served += 1
            if left > 0.0:
                work *= 1.0 + (cold[0].cost - 1.0) * left
        return work


class FirstCome:
    """First come, first served, by any number of workers."""

    def __init__(self, scenario: Scenario, work: Work, capacity: Capacity) -> None:
        self._work = work
        self._capacity = capacity
        self._shed = scenario.shed
        self._queue = math.inf if scenario.queue is None else scenario.queue
        #: True if one that must wait may be turned away, or dropped.
        self._bounded = scenario.queue is not None or scenario.shed
        self._free = [0.0] * scenario.workers
        #: When those that wait, or waited, will be begun.
        self._starts: deque[float] = deque()
        self._turn(0.0)

    def _turn(self, start: float) -> None:
        """The speed may have changed: how long a request takes now (inf: look closer), until when."""
        factor, self._until = self._capacity.speed(start)
        fixed = self._work.fixed
        self._span = math.inf if fixed is None or factor == 0.0 else fixed / factor

    def depth(self, now: float) -> int:
        """Return the number of requests that wait."""
        starts = self._starts
        while starts and starts[0] <= now:
            starts.popleft()
        return len(starts)

    def in_flight(self, now: float) -> int:
        """Return how many are at the backend: those that wait, and those at work."""
        return self.depth(now) + sum(end > now for end in self._free)

    def serve(
        self, now: float, gone_at: float, done: Callable[[], None] | None, share: float = 1.0
    ) -> float | None:
        """Return when the work is done; inf: dropped, as its caller has gone by then; -1: no room.

        ``share`` of the usual work is done: less for a request that fails.
        """
        free = self._free
        start = free[0]
        if start <= now:
            start = now
        else:
            if self._bounded:
                if self.depth(now) >= self._queue:
                    return -1.0
                if self._shed and start >= gone_at:
                    self._starts.append(start)
                    return math.inf
            self._starts.append(start)
        if start >= self._until:
            self._turn(start)
        end = start + self._span * share
        if end >= self._until:
            work = self._work
            amount = work.amount(start) if work.fixed is None else work.fixed
            end = self._capacity.finish(start, amount * share)
        if len(free) == 1:
            free[0] = end
        else:
            heapq.heapreplace(free, end)
        return end


class Evented:
    """Base of the orders in which the end of a piece of work is not known when it arrives."""

    def __init__(self, scenario: Scenario, work: Work, capacity: Capacity, agenda: Agenda) -> None:
        self._work = work
        self._capacity = capacity
        self._agenda = agenda
        self._queue = math.inf if scenario.queue is None else scenario.queue
        self._workers = scenario.workers


class Queued(Evented):
    """Workers that take the next request when they become free: the oldest of those that wait, or the newest.

    How much work it is may depend on how many there are then.
    """

    def __init__(self, scenario: Scenario, work: Work, capacity: Capacity, agenda: Agenda) -> None:
        super().__init__(scenario, work, capacity, agenda)
        self._newest = scenario.order == "lifo"
        self._shed = scenario.shed
        self._busy = 0
        self._waiting: deque[tuple[float, Callable[[], None], float]] = deque()

    def depth(self, now: float) -> int:
        return len(self._waiting)

    def in_flight(self, now: float) -> int:
        """Return how many are at the backend: those that wait, and those at work."""
        return len(self._waiting) + self._busy

    def serve(
        self, now: float, gone_at: float, done: Callable[[], None] | None, share: float = 1.0
    ) -> float | None:
        """Queue a call: None (``done`` is called after ``share`` of the usual work), or -1 for no room."""
        assert done is not None
        if self._busy < self._workers:
            self._busy += 1
            self._begin(now, done, share)
        elif len(self._waiting) >= self._queue:
            return -1.0
        else:
            self._waiting.append((gone_at, done, share))
        return None

    def _begin(self, now: float, done: Callable[[], None], share: float) -> None:
        end = self._capacity.finish(now, self._work.amount(now, self.in_flight(now)) * share)
        if end < math.inf:
            self._agenda.at(end, self._ended, (end, done))

    def _ended(self, what: tuple[float, Callable[[], None]]) -> None:
        now, done = what
        done()
        while self._waiting:
            gone_at, waiting, share = self._waiting.pop() if self._newest else self._waiting.popleft()
            if not (self._shed and now >= gone_at):
                self._begin(now, waiting, share)
                return
        self._busy -= 1


class Shared(Evented):
    """Processor sharing: all that is there is served at once, each at the same speed.

    With ``workers`` or fewer of them, each has a worker to itself.
    """

    def __init__(self, scenario: Scenario, work: Work, capacity: Capacity, agenda: Agenda) -> None:
        super().__init__(scenario, work, capacity, agenda)
        #: (what ``_done`` must reach, number, callback)
        self._jobs: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._version = 0
        #: Work done so far for each job that was there all the time, and until when.
        self._done = 0.0
        self._last = 0.0

    def depth(self, now: float) -> int:
        return max(0, len(self._jobs) - self._workers)

    def in_flight(self, now: float) -> int:
        """Return how many are at the backend."""
        return len(self._jobs)

    def serve(
        self, now: float, gone_at: float, done: Callable[[], None] | None, share: float = 1.0
    ) -> float | None:
        """Queue a call: None (``done`` is called after ``share`` of the usual work), or -1 for no room."""
        assert done is not None
        if self.depth(now) >= self._queue and len(self._jobs) >= self._workers:
            return -1.0
        self._advance(now)
        self._count += 1
        work = self._work.amount(now, len(self._jobs) + 1) * share
        heapq.heappush(self._jobs, (self._done + work, self._count, done))
        self._plan(now)
        return None

    def _share(self) -> float:
        return min(1.0, self._workers / len(self._jobs)) if self._jobs else 1.0

    def _advance(self, now: float) -> None:
        self._done += (self._capacity.done(now) - self._capacity.done(self._last)) * self._share()
        self._last = now

    def _plan(self, now: float) -> None:
        self._version += 1
        if self._jobs:
            left = max(0.0, self._jobs[0][0] - self._done)
            end = self._capacity.finish(now, left / self._share())
            if end < math.inf:
                self._agenda.at(end, self._ended, (end, self._version))

    def _ended(self, what: tuple[float, int]) -> None:
        now, version = what
        if version != self._version:
            return
        self._advance(now)
        goal, _, done = heapq.heappop(self._jobs)
        # The sums of many small steps miss the goal by a rounding error, which must not add up.
        self._done = goal
        self._plan(now)
        done()
