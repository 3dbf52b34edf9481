"""One run of the simulation."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import re
import sys
from random import Random
from typing import Any

import stormproof as sp

# Loaded before the first run: what a module makes when it is loaded must not be a world's.
import stormproof._fleet.bulkhead
import stormproof._fleet.limiter
from stormproof import events
from stormproof._drivers import threads
from stormproof._events import bus
from stormproof._runtime import interrupts, platform, randomness

from .callbacks import Callbacks
from .callers import Scene
from .event_loop import Loop
from .fake_store import FakeServer, store_on
from .oracles import Verdict
from .random_policies import Stage, Yard
from .world import Over, World

assert all(hasattr(sp, name) for name in sp.__all__)
assert stormproof._fleet.bulkhead and stormproof._fleet.limiter and events

#: Longer than any callee takes, and than anything is held or refused.
AFTERMATH_S = 30.0
LONG_AFTER_S = 700.0


class Report:
    """The outcome of a run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.faults: list[str] = []
        self.log: list[str] = []
        self.calls = 0
        self.attempts = 0
        self.events = 0
        self.turns = 0
        self.virtual_s = 0.0

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.log).encode()).hexdigest()

    def __str__(self) -> str:
        found = "\n  ".join(self.faults[:5])
        return f"seed {self.seed}: {found}\nto see it: python -m tests.simulation --seed {self.seed} --log"


def play(seed: int) -> Report:
    """Run the world of ``seed``, and judge it."""
    report = Report(seed)
    play_ = _Play(seed, report)
    collecting = gc.isenabled()
    # What a collection would finalize, and when, is nothing that a seed decides.
    gc.disable()
    try:
        play_.run()
    finally:
        if collecting:
            gc.enable()
    return report


class _Play:
    def __init__(self, seed: int, report: Report) -> None:
        self.rng = Random(seed)
        self.report = report
        fine = self.rng.choice([0.0, 0.0, 0.0, 0.05, 0.3])
        self.world = World(self.rng, self.rng.choice([0.0, 0.2, 0.5, 0.9]), fine)
        self.events: list[Any] = []

    def run(self) -> None:
        world, report = self.world, self.report
        hook, draws = sys.unraisablehook, randomness._own.getstate()
        before = platform.put(world)
        threads._renew()
        randomness._own.seed(self.rng.getrandbits(64))
        bus.log_by_default(False)
        # Other subscribers in this process have locks that this world does not know.
        others = [(subscribers, subscribers[:]) for subscribers in (bus.watchers, bus.first_try_subscribers)]
        for subscribers, _ in others:
            subscribers.clear()
        stops: list[Any] = []
        try:
            self._set_up(stops)
            world.watch()
            self._perform()
        except Over:
            world.faults.append(f"stuck: {world.stuck}")
        finally:
            sys.setprofile(None)
            for stop in stops:
                stop()
            world.end()
            for subscribers, kept in others:
                subscribers[:] = kept
            bus.log_by_default(True)
            randomness._own.setstate(draws)
            platform.put(before)
            threads._renew()
            interrupts._renew()
            sys.unraisablehook = hook
        world.faults += [f"a thread died of {crash!r}" for crash in world.crashes]
        report.faults, report.log = world.faults, self.scene.log
        report.calls = len(self.scene.calls)
        report.attempts = sum(len(call.invoked_s) for call in self.scene.calls)
        report.events, report.turns = len(self.events), world.turns
        report.virtual_s = world.now_s - 1000.0

    def _set_up(self, stops: list[Any]) -> None:
        rng, world = self.rng, self.world
        self.callbacks = Callbacks(world)
        self.server = FakeServer(world) if rng.random() < 0.35 else None
        self.store = None if self.server is None else store_on(self.server, rng)
        self.yard = Yard(world, self.callbacks, self.store)
        self.callbacks.yard = self.yard
        stages = [Stage(self.yard, number) for number in range(rng.randint(1, 3))]
        self.scene = Scene(world, stages)
        self.scene.decorate()
        self.verdict = Verdict(self.scene, self.yard, [])
        for stage in stages:
            self.scene.record(re.sub(" at 0x[0-9a-f]+", "", repr(stage.policy)))
        sys.unraisablehook = self._unraisable
        stops.append(sp.subscribe(self._note))
        stops.append(sp.subscribe(self.callbacks.watch))
        if self.callbacks._slow:
            for _, door in self.yard.breakers:
                # Between the breaker's decision and our look at it time may pass.
                door.exact = False

    def _note(self, event: Any) -> None:
        self.events.append(event)
        fields = event.as_dict()
        fields.pop("latency", None)
        self.scene.record(str(fields))

    def _unraisable(self, args: Any) -> None:
        self.callbacks.reported += 1
        if type(args.exc_value).__name__ != "Hooked":
            self.world.faults.append(f"reported as unraisable: {args.exc_value!r}")

    def _unhandled(self, loop: Any, context: dict[str, Any]) -> None:
        # Tasks of a world that got stuck are never finished.
        if not self.world.over:
            self.world.faults.append(f"the loop has to report: {context}")

    def _perform(self) -> None:
        rng, world, scene = self.rng, self.world, self.scene
        callers = rng.choice([0, 1, 2, 4])
        tasks = rng.choice([0, 2, 5]) if callers else rng.choice([2, 5])
        scene.callers = callers + tasks
        started = [world.start(scene.caller, "caller", daemon=False) for _ in range(callers)]
        loop = Loop(world)
        loop.set_exception_handler(self._unhandled)
        try:
            loop.run_until_complete(self._tasks(tasks, rng.random() < 0.2))
        finally:
            if not world.over:
                loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        for thread in started:
            thread.join()
        self._rest()

    async def _tasks(self, count: int, jumps: bool) -> None:
        scene = self.scene
        running = [asyncio.ensure_future(scene.task()) for _ in range(count)]
        running.append(asyncio.ensure_future(scene.gremlin(jumps, self.server)))
        for task in running:
            await task
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            self.world.faults.append(f"{len(left)} tasks are left behind")

    def _rest(self) -> None:
        world = self.world
        world.sleep(AFTERMATH_S)
        verdict = self.verdict = Verdict(self.scene, self.yard, self.events)
        verdict.judge()
        verdict.at_rest()
        if self.store is not None:
            self.store.close()
        world.sleep(LONG_AFTER_S)
        verdict.at_the_end()
