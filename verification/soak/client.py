"""The process under measurement: `python -m verification.soak.client` with a `Wish` as JSON on standard
input.

It says "storm over" when its callers have ended, waits for a line (the store is up again), lets what is
shared recover, closes everything, and prints what it found as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import httpcore  # noqa: F401 - httpx would load it later, after what is there has been counted
import httpx

import stormproof as sp
from stormproof._drivers import threads as worker_threads

from . import process_resources
from .callers import Tasks, Threads, burst
from .outcomes import Ledger
from .policies import BURST, Fleet, async_clients, clients, impatient_clients, slots
from .scheduler_lag import Lag

#: How long what is shared may take to be as it was in the beginning, and how many rounds of calls, which
#: on a busy machine take longer.
_RECOVERY_S, _RECOVERY_ROUNDS = 40.0, 30
#: Objects that must not outlive the calls they were made for.
_PASSING = (
    "stormproof._http",
    "stormproof._context.deadlines",
    "stormproof._strategies.breaker.ticket",
    "stormproof._drivers.race",
    "httpx",
    "httpcore",
)


@dataclass(frozen=True)
class Wish:
    """What is to be run."""

    server: str
    h2_server: str
    redis: str
    seconds: float
    tasks: int
    threads: int
    seed: int
    #: What the budget holds in the beginning.
    retries: int
    #: Seconds after which an idle worker thread of Stormproof ends.
    idle_s: float
    sample_s: float = 2.0
    #: Say on standard error how it goes.
    verbose: bool = False


@dataclass
class Found:
    """What was measured.

    Samples are (seconds, MB, descriptors outside of httpx's pools, tasks, threads, calls in flight, MB free,
    connections in the pools, lost ones among them).
    """

    samples: list[tuple[float, float, int, int, int, int, float, int, int]] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    late: dict[str, list[tuple[float, float, str]]] = field(default_factory=dict)
    lag: dict[str, float] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    store: dict[str, Any] = field(default_factory=dict)
    #: Whatever is not as it was in the beginning, in words.
    held: list[str] = field(default_factory=list)
    #: Clients of which not every connection or stream served when all were asked for at once, in words.
    slots: list[str] = field(default_factory=list)
    left: dict[str, dict[str, int]] = field(default_factory=dict)
    complaints: int = 0
    heard: list[str] = field(default_factory=list)
    cpu_s: float = 0.0
    stopping_s: float = 0.0


class Soak:
    """One run."""

    def __init__(self, wish: Wish, complaints: process_resources.Complaints) -> None:
        self._wish = wish
        self._complaints = complaints
        self._ledger = Ledger()
        self._loop_lag, self._thread_lag = Lag(), Lag()
        self._events: Counter[str] = Counter()
        self.found = Found()

    async def run(self) -> None:
        self._complaints.hear_loop(asyncio.get_running_loop())
        fleet = Fleet(self._wish.redis, self._wish.retries)
        sync = clients(fleet, self._wish.server)
        aio = async_clients(fleet, self._wish.server, self._wish.h2_server)
        unsubscribe = sp.subscribe(lambda event: self._events.update([_told(event)]), first_tries=False)
        impatient = impatient_clients(self._wish.server, self._wish.h2_server)
        await self._storm(sync, aio, impatient)
        print("storm over", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        self.found.held = await self._recover(fleet, sync, aio)
        unsubscribe()
        aio |= impatient
        self.found.slots = [*await asyncio.to_thread(_dead_slots, sync), *await _dead_async_slots(aio)]
        for client in sync.values():
            client.close()
        for async_client in aio.values():
            await async_client.aclose()
        self.found.store = fleet.store.stats()
        fleet.store.close()
        await asyncio.sleep(0.1)
        extra = asyncio.all_tasks() - {asyncio.current_task()}
        self.found.left["tasks"] = dict(Counter(repr(task.get_coro()) for task in extra))

    async def _storm(
        self,
        sync: dict[str, httpx.Client],
        aio: dict[str, httpx.AsyncClient],
        impatient: dict[str, httpx.AsyncClient],
    ) -> None:
        wish = self._wish
        stop, quiet = asyncio.Event(), threading.Event()
        beat = asyncio.ensure_future(self._loop_lag.of_loop())
        listener = threading.Thread(target=self._thread_lag.of_threads, args=(quiet,), name="soak-lag")
        listener.start()
        threads = Threads(sync, self._ledger, self._thread_lag, wish.seed)
        threads.start(wish.threads)
        callers = Tasks(aio, self._ledger, self._loop_lag, wish.seed)
        tasks = asyncio.ensure_future(callers.run(wish.tasks, stop))
        bursts = asyncio.ensure_future(burst(impatient, self._ledger, stop))
        pools = process_resources.Pools([*sync.values(), *aio.values(), *impatient.values()])
        began = time.monotonic()
        while (now := time.monotonic() - began) < wish.seconds:
            await asyncio.sleep(min(wish.sample_s, wish.seconds - now))
            self._sample(time.monotonic() - began, pools)
        stop.set()
        await asyncio.gather(tasks, bursts, asyncio.to_thread(threads.end))
        self.found.stopping_s = time.monotonic() - began - wish.seconds
        quiet.set()
        beat.cancel()
        await asyncio.gather(beat, asyncio.to_thread(listener.join), return_exceptions=True)

    def _sample(self, at_s: float, pools: process_resources.Pools) -> None:
        connections, lost = pools.look()
        others = sum(process_resources.descriptors().values()) - connections
        held = (others, len(asyncio.all_tasks()), threading.active_count(), self._ledger.in_flight)
        sample = (
            at_s,
            process_resources.resident_mb(),
            *held,
            process_resources.free_mb(),
            connections,
            lost,
        )
        self.found.samples.append(sample)
        if self._wish.verbose:
            words = (
                "{:5.0f} s: {:.1f} MB, {} descriptors, {} tasks, {} threads, {} calls under way, "
                "{:.1f} MB free, {} connections, {} lost, {} ended"
            )
            print(words.format(*sample, self._ledger.ended.total()), file=sys.stderr)

    async def _recover(
        self, fleet: Fleet, sync: dict[str, httpx.Client], aio: dict[str, httpx.AsyncClient]
    ) -> list[str]:
        """Let the server answer well, and wait until nothing is held any more: what still is, in words."""
        end, rounds = time.monotonic() + _RECOVERY_S, 0
        await asyncio.to_thread(_calm, self._wish.server)
        while held := await asyncio.to_thread(_held, fleet):
            rounds += 1
            if rounds > _RECOVERY_ROUNDS and time.monotonic() > end:
                break
            if fleet.budget.balance < fleet.budget.burst or any(b.state != "closed" for b in fleet.breakers):
                # These come back by calls that succeed; the rest, when there are none.
                await asyncio.gather(*(_nudge(client) for client in aio.values() for _ in range(20)))
                await asyncio.gather(*(asyncio.to_thread(_nudge_sync, client) for client in sync.values()))
            await asyncio.sleep(0.25)
        return held

    def conclude(self, base: dict[str, Counter[str]]) -> Found:
        """The end, when even the event loop is closed."""
        found, ledger = self.found, self._ledger
        found.ended, found.failed, found.failures = dict(ledger.ended), ledger.failed, ledger.failures
        found.late = ledger.late
        found.lag = {"loop": self._loop_lag.most, "threads": self._thread_lag.most}
        found.events = dict(self._events)
        found.left["objects"] = dict(process_resources.survivors(*_PASSING) - base["objects"])
        # Idle workers of ours end by themselves, some time after their last job.
        end = time.monotonic() + self._wish.idle_s + 10
        while (more := process_resources.threads() - base["threads"]) and time.monotonic() < end:
            time.sleep(0.1)
        found.left["threads"] = dict(more)
        found.left["descriptors"] = dict(process_resources.descriptors() - base["descriptors"])
        found.complaints, found.heard = self._complaints.count, self._complaints.heard
        found.cpu_s = time.process_time()
        return found


def _told(event: Any) -> str:
    name = type(event).__name__
    return f"{name} {event.after}" if name == "BreakerChanged" else name


def _calm(server: str) -> None:
    """Have the server answer well; it may reset this connection too."""
    with httpx.Client(transport=httpx.HTTPTransport(retries=5), trust_env=False) as plain:
        while True:
            try:
                plain.get(f"{server}/_mood/calm")
                return
            except httpx.TransportError:
                time.sleep(0.1)


async def _nudge(client: httpx.AsyncClient) -> None:
    try:
        await client.get("/nudge")
    except sp.StormproofError:
        await asyncio.sleep(0.2)


def _nudge_sync(client: httpx.Client) -> None:
    try:
        client.get("/nudge")
    except sp.StormproofError:
        time.sleep(0.2)


#: For requests past the policies of the run: the pools alone are asked.
_PLAIN = {"stormproof": {"policy": sp.Policy(sp.Deadline(10.0), sp.Retry(attempts=1))}}


def _dead_slots(sync: dict[str, httpx.Client]) -> list[str]:
    """Ask every client for as many answers at once as it has connections: what did not come, in words."""
    found = []
    for name, client in sync.items():
        with ThreadPoolExecutor(slots(name), thread_name_prefix="soak-slots") as threads:
            ends = list(threads.map(lambda _, client=client: _end_of(client), range(slots(name))))
        found += _dead("threads", name, ends)
    return found


def _end_of(client: httpx.Client) -> str:
    try:
        return str(client.get("/slot", extensions=_PLAIN).status_code)
    except Exception as error:
        return type(error).__name__


async def _dead_async_slots(aio: dict[str, httpx.AsyncClient]) -> list[str]:
    """`_dead_slots` for tasks; over HTTP/2 with as many requests as there are streams."""

    async def end_of(client: httpx.AsyncClient) -> str:
        try:
            return str((await client.get("/slot", extensions=_PLAIN)).status_code)
        except Exception as error:
            return type(error).__name__

    found = []
    for name, client in aio.items():
        found += _dead("tasks", name, await asyncio.gather(*(end_of(client) for _ in range(slots(name)))))
    return found


def _dead(who: str, name: str, ends: list[str]) -> list[str]:
    bad = Counter(ends)
    del bad["200"]
    return [f"{who}, {name}: {dict(bad)} of {len(ends)}"] if bad else []


def _held(fleet: Fleet) -> list[str]:
    """What is still taken of what is shared, here and in the store."""
    held = []
    bulkhead, budget = fleet.bulkhead, fleet.budget
    if bulkhead.in_use or bulkhead.queued:
        held.append(f"bulkhead: {bulkhead.in_use} in use, {bulkhead.queued} queued")
    # What was earned in its last ten seconds comes on top.
    if budget.balance < budget.burst:
        held.append(f"budget: {budget.balance:g} of {budget.burst:g}")
    for breaker in fleet.breakers:
        live = breaker._live
        if breaker.state != "closed" or live.circuit._waiting or live.running:
            held.append(f"breaker: {breaker.state}, probes out {len(live.circuit._waiting)}")
    held += [f"limiter: owes {-tokens:g}" for each in fleet.limiters if (tokens := each.tokens()) < 0]
    for entry in fleet.store.inspect():
        state, kind = entry["state"], entry["kind"]
        if kind == "limiter" and state["level"] < BURST - 1e-6:
            held.append(f"store, limiter: {state['level']} of {BURST}")
        if kind == "bulkhead" and state["places"] > 1:
            held.append(f"store, bulkhead: {state['places']} places leased")
        if kind == "breaker" and (state["state"] not in ("closed", None) or state["probes"]):
            held.append(f"store, breaker: {state['state']}, {state['probes']} probes leased")
        if entry["ttl"] is None:
            held.append(f"store, {kind}: stays for ever")
    return held


def main() -> None:
    complaints = process_resources.Complaints()
    complaints.listen()
    wish = Wish(**json.loads(sys.stdin.readline()))
    base = {
        "threads": process_resources.threads(),
        "descriptors": process_resources.descriptors(),
        "objects": process_resources.survivors(*_PASSING),
    }
    worker_threads._IDLE_S = wish.idle_s
    soak = Soak(wish, complaints)
    asyncio.run(soak.run())
    print(json.dumps(asdict(soak.conclude(base))), flush=True)


if __name__ == "__main__":
    main()
