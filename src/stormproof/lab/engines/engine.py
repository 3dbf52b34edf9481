"""Base of the exact engine's two paths: time, the backend, the load, and the recorder."""

from __future__ import annotations

import gc
import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from ..._primitives.options import seconds
from ..model import arrivals
from ..model.backend import Backend, Refusal
from ..model.scenario import Scenario, depends_on_load
from ..model.spread import Spread
from ..results.recorder import Recorder
from .processes import Copier, RunClock

if TYPE_CHECKING:
    from ..._strategies.breaker.breaker import Breaker
    from ..results.recorder import Raw, SoFar

    class _Process(Protocol):
        """A process with a state of its own, which a run reads at the end of each step."""

        @property
        def budget(self) -> object: ...
        @property
        def breakers(self) -> list[Breaker]: ...

    class _Group(Protocol):
        """A class of clients; None stands for a process that has made no call yet."""

        @property
        def processes(self) -> Sequence[_Process | None]: ...


#: Processes of each class whose budgets and breakers are sampled: a reading settles a copy.
ASKED = 8

#: Beyond this the exact engine would run for minutes and fill the memory.
MOST_CALLS = 50_000_000


#: What an attempt's answer is given to: a refusal, or None for a success.
Reply = Callable[[Refusal | None], None]

#: When, the number that orders what happens at the same time, what happens, and with what.
Event = tuple[float, int, Callable[[Any], None], Any]


class _Stopped(Exception):
    """Raised when the progress callback ends the run."""


class Engine:
    """One run: a heap of events, each a function to be called with one argument when its time has come."""

    def __init__(self, scenario: Scenario, seed: int, progress: Callable[[SoFar], object] | None) -> None:
        self.scenario = scenario
        self.seed = seed
        self.clock = RunClock()
        self.heap: list[Event] = []
        self._number = 0
        #: The classes of clients, and the layers, whose processes are read.
        self.groups: Sequence[_Group] = ()
        self.backend = Backend(scenario, seed, self)
        #: Every draw of the policies comes from here.
        self.draw = Random(f"{seed} policy").random
        lost = self.backend if any(stretch.store for stretch in self.backend.row) else None
        self.copier = Copier(self.clock, self.draw, scenario.fleet, scenario.clients, lost)
        self.recorder = Recorder(scenario, self.backend.received, self._gauges, progress)
        self.latency = _network(scenario, seed, self._in_flight)
        #: True if the network takes no time at all.
        self.near = scenario.latency == 0.0 and not any(s.extra_s for s in self.backend.row)
        self._think = _thinking(scenario, seed)

    # Time.

    def at(self, when: float, act: Callable[[Any], None], what: object) -> None:
        """Let ``act(what)`` happen at ``when``; what was asked for first happens first."""
        self._number += 1
        heapq.heappush(self.heap, (when, self._number, act, what))

    def run(self) -> Raw:
        """Run to the end, or to where the watcher stopped it."""
        scenario, clock = self.scenario, self.clock
        self.at(min(scenario.step, scenario.duration), self._sample, 1)
        if scenario.closed_loop:
            for client in range(scenario.clients):
                self.at(self._think(client), self._call_again, client)
        until = scenario.duration
        try:
            self._pass()
        except _Stopped:
            until = clock.time
        finally:
            self.close()
        return self.recorder.raw(until)

    def _pass(self) -> None:
        """Let time pass, from one event to the next. What is due happens before a call that begins then."""
        heap, clock, begin, pop = self.heap, self.clock, self.begin, heapq.heappop
        # Never reached: there is always a next event to compare with.
        self.at(math.inf, self._sample, 0)
        end = (self.scenario.duration, -1, 0, 0)
        for when, group, client, key in chain(arrivals.calls(self.scenario, self.seed), (end,)):
            while heap[0][0] <= when:
                clock.time, _, act, what = pop(heap)
                act(what)
            if group < 0:
                return
            clock.time = when
            begin(when, group, client, key)

    def begin(self, now: float, group: int, client: int, key: int) -> None:
        """A call begins."""
        raise NotImplementedError

    def close(self) -> None:
        """The run is over."""

    def _sample(self, count: int) -> None:
        scenario = self.scenario
        if not self.recorder.sample(self.clock.time):
            raise _Stopped
        if self.clock.time < scenario.duration:
            self.at(min((count + 1) * scenario.step, scenario.duration), self._sample, count + 1)

    # Clients that make one call after the other.

    def ended(self, group: int, client: int) -> None:
        """A call of this client is over."""
        if group == 0 and self.scenario.closed_loop:
            self.at(self.clock.time + self._think(None), self._call_again, client)

    def _call_again(self, client: int) -> None:
        keys = self.scenario.keys
        self.begin(self.clock.time, 0, client, int(self.draw() * keys) if keys > 1 else 0)

    # The network.

    def send(self, place: float, gone_at: float, reply: Reply) -> None:
        """Send an attempt of a caller who is gone at ``gone_at``. ``reply`` is called with the answer."""
        half = 0.0
        if not self.near:
            half = (self.latency() + self.backend.at(self.clock.time).extra_s) / 2
            self.at(self.clock.time + half, self._arrive, (place, gone_at, half, reply))
        else:
            self._arrive((place, gone_at, half, reply))

    def _arrive(self, what: tuple[float, float, float, Reply]) -> None:
        place, gone_at, half, reply = what
        now = self.clock.time
        answer = self.backend.offer(now, place, gone_at, partial(self.answer_late, half, reply))
        if isinstance(answer, Refusal):
            answer = now, answer
        end, refusal = answer if isinstance(answer, tuple) else (answer, None)
        if end is not None and end < math.inf:
            self.at(end + half, reply, refusal)

    def answer_late(self, half: float, reply: Reply, refusal: Refusal | None) -> None:
        """The backend answers an attempt of which it did not know the end when it arrived."""
        if half:
            self.at(self.clock.time + half, reply, refusal)
        else:
            reply(refusal)

    def _in_flight(self) -> int:
        """Return the number of requests at the backend."""
        return self.backend.discipline.in_flight(self.clock.time)

    # Gauges.

    def _processes_read(self) -> list[_Process]:
        """Return the processes whose budgets and breakers are read."""
        return [process for group in self.groups for process in _some(group.processes)]

    def _balances(self, now: float) -> list[float]:
        """Return what the budgets hold that are read; one of the user's own may not know."""
        balances = [getattr(process.budget, "balance", None) for process in self._processes_read()]
        return [balance for balance in balances if balance is not None]

    def _gauges(self, now: float) -> tuple[float, float, float]:
        self.backend.at(now)
        balances = self._balances(now)
        balance = sum(balances) / len(balances) if balances else math.nan
        guarded = [process.breakers for process in self._processes_read() if process.breakers]
        broken = sum(any(breaker.is_open for breaker in row) for row in guarded)
        open_share = broken / len(guarded) if guarded else math.nan
        return float(self.backend.discipline.depth(now)), balance, open_share


@contextmanager
def no_collection() -> Iterator[None]:
    """Leave cyclic garbage alone meanwhile.

    A run without tasks makes none worth speaking of, and a collector that visits every client again and
    again takes a third of the time where there are 100,000.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _some(processes: Sequence[_Process | None]) -> list[_Process]:
    """At most `ASKED` of the processes that have been made, evenly chosen."""
    step = max(1, len(processes) // ASKED)
    return [process for process in processes[::step] if process is not None]


def _network(scenario: Scenario, seed: int, in_flight: Callable[[], int]) -> Callable[[], float]:
    """Draws round trips."""
    latency, rng = scenario.latency, Random(f"{seed} network")
    if isinstance(latency, Spread):
        return latency.sampler(rng, latency.scale or 0.0)
    if isinstance(latency, float):
        fixed = latency
        return lambda: fixed
    if depends_on_load(latency):
        return lambda: seconds("Scenario", "latency", latency(rng, in_flight()))
    return lambda: seconds("Scenario", "latency", latency(rng))


def _thinking(scenario: Scenario, seed: int) -> Callable[[int | None], float]:
    """Return the closed loop's draw: a think time, or, given a client's index, the time of its first call."""
    if not scenario.closed_loop:
        return lambda client: 0.0
    mean, rng = scenario.think_s, Random(f"{seed} thinking")
    if scenario.arrivals == "even":
        return lambda client: mean if client is None else mean * (client + 0.5) / scenario.clients
    return lambda client: -math.log(1.0 - rng.random()) * mean
