"""The callers: tasks and threads that ask, wait, lose patience, and ask again."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any

import httpx

import stormproof as sp

from .outcomes import Ledger
from .policies import DEADLINE_S, READS_HTTP2
from .scheduler_lag import Lag
from .treatments import SILENT


@dataclass(frozen=True)
class Plan:
    """One call: what is asked, how long it may take, and when its caller calls it off, if at all."""

    client: str
    method: str
    path: str
    keyed: bool
    deadline_s: float
    called_off: str | None
    called_off_s: float
    pause_s: float

    @property
    def options(self) -> dict[str, Any]:
        if self.method == "GET":
            return {}
        told: dict[str, Any] = {} if self.keyed else {"idempotency_key": None}
        return {"content": b"order", "extensions": {"stormproof": told}}


def plan(dice: random.Random, caller: str, number: int, reads: str = "reads") -> Plan:
    """What ``caller`` does next: two thirds reads, the rest writes with and without a key."""
    kind = dice.random()
    write = kind > 0.67
    off = dice.random()
    return Plan(
        client="writes" if write else reads,
        method="POST" if write else "GET",
        path=f"/{caller}/{number}",
        keyed=kind < 0.9,
        deadline_s=dice.uniform(0.2, 3) if dice.random() < 0.15 else DEADLINE_S,
        called_off="task" if off < 0.06 else "scope" if off < 0.1 else None,
        called_off_s=dice.uniform(0, 3),
        pause_s=dice.uniform(0, 1),
    )


#: Whoever was refused without an attempt waits so many seconds before asking again.
_AFTER_REFUSAL_S = 2.0
#: The callers come one after the other, within so many seconds.
_ARRIVAL_S = 3.0


def _pause(own: Plan, name: str) -> float:
    refused = name in ("CircuitOpen", "RateLimited", "BulkheadFull")
    return own.pause_s + (_AFTER_REFUSAL_S if refused else 0.0)


class Tasks:
    """Callers that are asyncio tasks."""

    def __init__(self, clients: dict[str, httpx.AsyncClient], ledger: Ledger, lag: Lag, seed: int) -> None:
        self._clients = clients
        self._ledger = ledger
        self._lag = lag
        self._seed = seed
        self._stop = asyncio.Event()

    async def run(self, callers: int, stop: asyncio.Event) -> None:
        """Until ``stop``; every call under way is seen to its end."""
        self._stop = stop
        async with asyncio.TaskGroup() as group:
            for number in range(callers):
                reads = READS_HTTP2 if number % 2 else "reads"
                group.create_task(self._call_on(f"task{number}", reads))

    async def _call_on(self, caller: str, reads: str) -> None:
        dice = random.Random(f"{self._seed}:{caller}")
        # Two thousand first calls in one moment would be a test of something else.
        await asyncio.sleep(dice.uniform(0, _ARRIVAL_S))
        for number in count():
            own = plan(dice, caller, number, reads)
            name = await self._one(own)
            try:
                await asyncio.wait_for(self._stop.wait(), _pause(own, name))
                return
            except TimeoutError:
                pass

    async def _one(self, own: Plan) -> str:
        self._ledger.begin()
        loop = asyncio.get_running_loop()
        began, called_off = time.monotonic(), False
        outcome: Any
        off: asyncio.TimerHandle | None = None
        try:
            with sp.deadline(own.deadline_s) as scope:
                if own.called_off == "scope":
                    off = loop.call_later(own.called_off_s, scope.cancel)
                if own.called_off == "task":
                    task = asyncio.ensure_future(self._ask(own))
                    off = loop.call_later(own.called_off_s, task.cancel)
                    outcome = await task
                else:
                    outcome = await self._ask(own)
        except (Exception, asyncio.CancelledError) as error:
            outcome = error
        if off is not None:
            called_off = off.when() <= loop.time()
            off.cancel()
        late = time.monotonic() - began - own.deadline_s
        name = self._ledger.end(outcome, own.path, called_off)
        # An error's traceback holds this frame.
        del outcome
        if late > 0:
            self._ledger.was_late("tasks", late, name, self._lag)
        return name

    async def _ask(self, own: Plan) -> httpx.Response:
        return await self._clients[own.client].request(own.method, own.path, **own.options)


#: Requests of one burst, and the seconds between two.
_BURST, _BURST_EVERY_S = 60, 0.5


async def burst(clients: dict[str, httpx.AsyncClient], ledger: Ledger, stop: asyncio.Event) -> None:
    """Make many requests at once by each of ``clients`` until ``stop``; every other time none is answered."""

    async def one(client: httpx.AsyncClient, path: str) -> None:
        ledger.begin()
        outcome: Any
        try:
            outcome = await client.get(path)
        except Exception as error:
            outcome = error
        ledger.end(outcome, path, False)

    for number in count():
        for place, client in enumerate(clients.values()):
            root = f"{SILENT if number % 2 else '/'}burst{place}-{number}"
            await asyncio.gather(*(one(client, f"{root}/{each}") for each in range(_BURST)))
        try:
            await asyncio.wait_for(stop.wait(), _BURST_EVERY_S)
            return
        except TimeoutError:
            pass


class Impatience:
    """One thread that calls off what other threads do: scopes, each at its time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, sp.Scope]] = []
        self._numbers = count()
        self._ended = False
        self._thread = threading.Thread(target=self._serve, name="soak-impatience")
        self._thread.start()

    def add(self, scope: sp.Scope, after_s: float) -> None:
        with self._changed:
            heappush(self._due, (time.monotonic() + after_s, next(self._numbers), scope))
            self._changed.notify()

    def _serve(self) -> None:
        while (scope := self._next()) is not None:
            scope.cancel()

    def _next(self) -> sp.Scope | None:
        with self._changed:
            while not self._ended:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heappop(self._due)[2]
                self._changed.wait(left)
        return None

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()


class Threads:
    """Callers that are threads."""

    def __init__(self, clients: dict[str, httpx.Client], ledger: Ledger, lag: Lag, seed: int) -> None:
        self._clients = clients
        self._ledger = ledger
        self._lag = lag
        self._seed = seed
        self._stop = threading.Event()
        self._impatience = Impatience()
        self._threads: list[threading.Thread] = []

    def start(self, callers: int) -> None:
        for number in range(callers):
            name = f"thread{number}"
            thread = threading.Thread(target=self._call_on, args=(name,), name=f"soak-{name}")
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        """Let every call that is under way come to its end."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._impatience.end()

    def _call_on(self, caller: str) -> None:
        dice = random.Random(f"{self._seed}:{caller}")
        time.sleep(dice.uniform(0, _ARRIVAL_S))
        for number in count():
            own = plan(dice, caller, number)
            if self._stop.wait(_pause(own, self._one(own))):
                return

    def _one(self, own: Plan) -> str:
        self._ledger.begin()
        began = time.monotonic()
        outcome: Any
        scope = sp.deadline(own.deadline_s)
        try:
            with scope:
                if own.called_off is not None:
                    self._impatience.add(scope, own.called_off_s)
                outcome = self._clients[own.client].request(own.method, own.path, **own.options)
        except Exception as error:
            outcome = error
        late = time.monotonic() - began - own.deadline_s
        name = self._ledger.end(outcome, own.path, scope.cancelled)
        # An error's traceback holds this frame.
        del outcome
        if late > 0:
            self._ledger.was_late("threads", late, name, self._lag)
        return name
