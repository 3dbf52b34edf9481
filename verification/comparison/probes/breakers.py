"""What a circuit breaker does under concurrency and cancellation."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

from ..model import Probe, counted, seconds
from ..setups.breakers import BREAKERS, FAILURES, Circuit, Pybreaker, TornadoPybreaker

#: Open for longer than any probe runs.
LONG = 60.0

Make = Callable[..., Circuit]


def _async_calls(make: Make) -> int:
    calls = 0

    @make().guard
    async def down() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    async def scenario() -> None:
        for _ in range(10):
            try:
                await down()
            except Exception:
                pass

    asyncio.run(scenario())
    return calls


def _judge_async(seen: int | tuple[int, int | None]) -> tuple[str, bool]:
    calls, by_tornado = seen if isinstance(seen, tuple) else (seen, None)
    more = "" if by_tornado is None else f" ({by_tornado} as a Tornado call)"
    return counted(calls, "call") + more, calls == FAILURES


async_function = Probe(
    "async-function",
    "breaker",
    "A decorated `async def` that always fails, called 10 times under asyncio.",
    "3 calls get through, then it is open.",
    _judge_async,
)
async_function.on(BREAKERS, _async_calls)


@async_function.by("pybreaker")
def _async_pybreaker() -> tuple[int, int | None]:
    """As its decorator, and the way it documents for Tornado, if Tornado is there."""
    import pybreaker

    return _async_calls(Pybreaker), _async_calls(TornadoPybreaker) if pybreaker.HAS_TORNADO_SUPPORT else None


def _threads(count: int, work: Callable[[], Any]) -> list[threading.Thread]:
    gate = threading.Barrier(count)

    def one() -> None:
        gate.wait()
        try:
            work()
        except Exception:
            pass

    threads = [threading.Thread(target=one, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def _serial(make: Make) -> float:
    slow = make().guard(lambda: time.sleep(0.2))
    start = time.monotonic()
    for thread in _threads(5, slow):
        thread.join()
    return time.monotonic() - start


side_by_side = Probe(
    "side-by-side",
    "breaker",
    "5 threads make a call of 0.2 s at once, the breaker is closed.",
    "they run side by side: 0.2 s in all (0.3 s are allowed for a busy machine).",
    lambda spent: ("side by side", True) if spent < 0.5 else (f"{seconds(spent)} in all", False),
)
side_by_side.on(BREAKERS, _serial)


def _crowd(make: Make) -> int:
    """How many of 50 threads were in the function before the first one came out."""
    circuit = make()
    circuit.half_open()
    numbers = itertools.count()
    done = threading.Event()
    entered = []

    @circuit.guard
    def call() -> None:
        if not done.is_set():
            entered.append(1)
        if next(numbers) == 0:
            time.sleep(0.5)
            done.set()

    for thread in _threads(50, call):
        thread.join(3)
    return len(entered)


half_open_crowd = Probe(
    "half-open-crowd",
    "breaker",
    "50 threads call at the moment the breaker would let a call try.",
    "1 gets in before it is known how that went.",
    lambda n: (f"{n} of 50", n == 1),
)
half_open_crowd.on(BREAKERS, _crowd)


def _cancelled(make: Make) -> str:
    circuit = make()
    circuit.half_open()

    async def scenario() -> None:
        task = asyncio.create_task(circuit.guard(asyncio.sleep)(30))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(scenario())
    return _state_by_calls(circuit)


def _state_by_calls(circuit: Circuit) -> str:
    """One failure re-opens a half-open breaker, and not a closed one that takes three."""

    @circuit.guard
    def down() -> None:
        raise ConnectionError

    for first in (True, False):
        try:
            down()
        except circuit.refusal:
            return "still refuses" if first else "gives the place back"
        except ConnectionError:
            pass
    return "closes the circuit"


cancelled_probe = Probe(
    "cancelled-probe",
    "breaker",
    "The one call that may try is an asyncio task, and it is cancelled.",
    "it counts neither way: the next call may try, and the breaker is not closed.",
    lambda seen: (seen, seen == "gives the place back"),
)
cancelled_probe.on(BREAKERS, _cancelled, without={"pybreaker": "no asyncio of its own"})


def _lost(make: Make) -> str:
    circuit = make()
    circuit.half_open()
    threading.Thread(target=circuit.guard(lambda: time.sleep(60)), daemon=True).start()
    time.sleep(0.1)
    seen = []

    def try_for_2_s() -> None:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            if circuit.lets_in():
                seen.append("lets another try")
                return
            time.sleep(0.05)
        seen.append("refuses for 2 s")

    other = threading.Thread(target=try_for_2_s, daemon=True)
    other.start()
    other.join(3)
    return seen[0] if seen else "every call waits for it"


lost_probe = Probe(
    "lost-probe",
    "breaker",
    "The one call that may try hangs for ever (Stormproof: `probe_timeout=0.5`).",
    "within 2 s another call may try.",
    lambda seen: (seen, seen == "lets another try"),
)
lost_probe.on(BREAKERS, _lost)


def _late(make: Make) -> str:
    circuit = make(open_for=LONG)
    release, running = threading.Event(), threading.Event()

    @circuit.guard
    def slow() -> None:
        running.set()
        release.wait(5)

    late = threading.Thread(target=slow, daemon=True)
    late.start()
    running.wait()
    tripping = threading.Thread(target=circuit.trip, daemon=True)
    tripping.start()
    tripping.join(1)
    if tripping.is_alive():
        return "does not arise: one call at a time"
    release.set()
    late.join()
    return "closes the circuit" if circuit.lets_in() else "changes nothing"


late_success = Probe(
    "late-success",
    "breaker",
    "A call that began before the breaker opened succeeds after it.",
    "it changes nothing: the breaker stays open.",
    lambda seen: (seen, seen != "closes the circuit"),
)
late_success.on(BREAKERS, _late)


PROBES = [async_function, side_by_side, half_open_crowd, cancelled_probe, lost_probe, late_success]
