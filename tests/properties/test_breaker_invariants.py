"""The breaker, at the stated bars: no state refuses for ever, late and cancelled calls change nothing,
and no caller waits for a lock while another's call runs.

The probes of 64 threads and 1,000 tasks are in ``tests/faults/test_breaker_threads.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.loops import Loop, each_loop, watchdog

import stormproof as sp

__all__ = ["watchdog"]

Measured = Callable[[str], None]
HOUR = 3600.0


# 11: a lost probe frees its place within probe_timeout; no reachable state rejects for ever.


@pytest.mark.proves("invariant 11")
@pytest.mark.parametrize("lease", [0.001, 1.0, 30.0, 86_400.0])
@pytest.mark.parametrize("probes", [1, 3])
def test_lost_probe_frees_its_place_within_probe_timeout(lease: float, probes: int) -> None:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=1, probes=probes, probe_timeout=lease, clock=clock)
    breaker.admit().failure()
    clock.advance(2)
    began = clock.now()
    for _ in range(probes):
        breaker.admit()
    with pytest.raises(sp.CircuitOpen) as refused:
        breaker.admit()
    assert refused.value.retry_after == pytest.approx(lease)
    # The next float after the lease: the place is held for that long and not a moment longer.
    clock.advance(math.nextafter(began + lease, math.inf) - clock.now())
    clock.advance(max(0.0, math.nextafter(began + lease, math.inf) - clock.now()))
    for _ in range(probes):
        breaker.admit().success()
    assert breaker.state == "closed"


class Walk:
    """A breaker after the operations ``done``, replayed from the start: every branch is a real one."""

    OPTIONS: dict[str, Any] = {
        "consecutive": 1,
        "open_for": 2,
        "open_growth": 2,
        "open_max": 4,
        "probes": 2,
        "probe_timeout": 3,
        "ramp": 2,
        "window": 4,
        "bucket": 2,
    }
    OPERATIONS = (
        "admit",
        *(f"{end} {which}" for end in ("success", "failure", "cancel") for which in ("oldest", "newest")),
        "advance 1",
        "advance 5",
        f"advance -{HOUR:g}",
    )
    #: However unlucky the draws: the longest open time, one lease, the whole ramp, and a step.
    LONGEST = 4 + 3 + 2 + 0.25

    def __init__(self, done: tuple[str, ...]) -> None:
        self.clock = sp.testing.FakeClock(1e6)
        # Draws just below 1: while it ramps, nothing is admitted before the ramp is over.
        self.breaker = sp.Breaker(**self.OPTIONS, clock=self.clock, rng=lambda: 1 - 2**-53)
        self.tickets: list[Any] = []
        for operation in done:
            self.do(operation)

    def do(self, operation: str) -> None:
        name, _, what = operation.partition(" ")
        if name == "admit":
            try:
                self.tickets.append(self.breaker.admit())
            except sp.CircuitOpen:
                pass
        elif name == "advance":
            self.clock.advance(float(what))
        elif self.tickets:
            getattr(self.tickets.pop(0 if what == "oldest" else -1), name)()

    def fingerprint(self) -> tuple[Any, ...]:
        """Two walks with the same one go on alike, near enough to follow only one of them."""
        live, now = self.breaker._live, self.clock.now()
        circuit = live.circuit
        rows = () if circuit.window is None else circuit.window._rows
        return (
            circuit.state,
            max(-1.0, circuit.until - now),
            min(circuit.reopenings, 2),
            max(-3.0, circuit.closed_at - now),
            tuple(probe.lease - now for probe in circuit._waiting),
            (circuit._half.requests - circuit._half.excluded, circuit._half.successes),
            tuple((row.end - now, row.failures) for row in rows),
            circuit.counts().consecutive_failures,
            tuple(
                circuit._waiting.index(ticket.probe)
                if ticket.probe in circuit._waiting
                else 10 + rows.index(ticket.bucket)
                if ticket.bucket in rows
                else -1
                for ticket in self.tickets
            ),
        )

    def wait_until_admitted(self) -> float:
        """Return how long a caller that keeps asking is refused, while no open call ever ends."""
        waited = 0.0
        while True:
            try:
                self.breaker.admit()
                return waited
            except sp.CircuitOpen:
                assert waited <= self.LONGEST, "this state rejects for ever"
            self.clock.advance(0.25)
            waited += 0.25


@pytest.mark.proves("invariant 11")
def test_no_reachable_state_rejects_for_ever(measured: Measured) -> None:
    """Every state that ten operations can reach, a clock set back by an hour among them."""
    seen = {Walk(()).fingerprint()}
    level: list[tuple[str, ...]] = [()]
    longest, states = 0.0, set()
    for _ in range(10):
        following: list[tuple[str, ...]] = []
        for done in level:
            for operation in Walk.OPERATIONS:
                walk = Walk((*done, operation))
                found = walk.fingerprint()
                if found not in seen and len(walk.tickets) <= 3:
                    seen.add(found)
                    following.append((*done, operation))
                    states.add(walk.breaker.state)
                    longest = max(longest, walk.wait_until_admitted())
        level = following
    assert states == {"closed", "open", "half_open"}
    assert len(seen) > 1500
    assert longest >= 4, "no walk came into the longest open time"
    measured(f"{len(seen):,} states, refused for {longest:g} s at most (open 4 s, lease 3 s, ramp 2 s)")


# 12: results of an older generation change nothing; cancelled is neutral.

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"


def life(probes: int = 2) -> Iterator[tuple[str, Any, Any]]:
    """A breaker through three circles of its states: at each of them (state, breaker, clock)."""
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(
        consecutive=2, min_calls=1000, open_for=1, probes=probes, probe_timeout=50, window=None, clock=clock
    )
    for _ in range(3):
        yield CLOSED, breaker, clock
        breaker.admit().failure(ConnectionError("1"))
        yield CLOSED, breaker, clock
        breaker.admit().failure(ConnectionError("2"))
        yield OPEN, breaker, clock
        clock.advance(2)
        yield HALF_OPEN, breaker, clock
        breaker.admit().failure(ConnectionError("3"))
        yield OPEN, breaker, clock
        clock.advance(2)
        for _ in range(probes):
            yield HALF_OPEN, breaker, clock
            try:
                breaker.admit().success()
            except sp.CircuitOpen:
                # A caller keeps a place; its lease runs out.
                clock.advance(51)
                breaker.admit().success()


def look(breaker: sp.Breaker) -> tuple[Any, ...]:
    """All that a caller could notice."""
    circuit = breaker._live.circuit
    return (
        breaker.state,
        breaker.counts.as_dict(),
        breaker.last_failure,
        circuit.generation,
        circuit.reopenings,
        circuit.until,
        len(circuit._waiting),
    )


@pytest.mark.proves("invariant 12")
def test_results_of_an_older_generation_change_nothing(measured: Measured) -> None:
    """A ticket of every state, settled in every later generation, in every way."""
    tried = 0
    steps = len(list(life(3)))
    for taken_at in range(steps):
        for settled_at in range(taken_at + 1, steps):
            for way in ("success", "failure", "cancel"):
                ticket, generation = None, -1
                for step, (state, breaker, _) in enumerate(life(3)):
                    assert breaker.state == state
                    if step == taken_at and state != OPEN:
                        ticket, generation = breaker.admit(), breaker._live.circuit.generation
                    if step != settled_at:
                        continue
                    if ticket is None or generation == breaker._live.circuit.generation:
                        break
                    before = look(breaker)
                    getattr(ticket, way)()
                    assert look(breaker) == before, (taken_at, settled_at, way)
                    tried += 1
                    break
    assert tried > 500
    measured(f"{tried:,} late results in all pairs of states, 0 changes")


@pytest.mark.proves("invariant 12")
def test_late_result_of_a_decorated_call_changes_nothing() -> None:
    """The way of a closed circuit without a ticket: a call begun before it opened, ended after."""
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=1, clock=clock)
    policy = sp.Policy(breaker)
    for ending in (None, ConnectionError("late")):
        breaker.reset()
        before: list[Any] = []

        def call(ending: Exception | None = ending, before: list[Any] = before) -> None:
            breaker.admit().failure(ConnectionError("first"))
            clock.advance(2)
            assert breaker.state == HALF_OPEN
            before.append(look(breaker))
            if ending is not None:
                raise ending

        with contextlib.suppress(ConnectionError):
            policy.call(call)
        assert look(breaker) == before[0]


class Stop(BaseException):
    """An exit that no strategy may take for an answer."""


def neutral(before: dict[str, int], after: dict[str, int]) -> bool:
    """Return True if nothing but requests and exclusions was counted."""
    return all(after[name] == before[name] for name in before if name not in ("requests", "excluded"))


@pytest.mark.proves("invariant 12")
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, sp.Cancelled, Stop]
)
def test_interrupted_call_is_neutral_in_every_state(error: type[BaseException], measured: Measured) -> None:
    tried = 0
    for state, breaker, _ in life(3):
        if state == OPEN:
            continue
        before = breaker.counts.as_dict()
        with pytest.raises(error):
            sp.Policy(breaker).call(_raise, error)
        assert breaker.state == state
        after = breaker.counts.as_dict()
        assert neutral(before, after)
        assert after["requests"] - after["excluded"] == before["requests"] - before["excluded"]
        tried += 1
    measured(f"{tried} states, 0 changes by {error.__name__}")


def _raise(error: type[BaseException]) -> None:
    raise error


@pytest.mark.proves("invariant 12")
@each_loop
def test_cancelled_task_is_neutral_in_every_state(loop: Loop) -> None:
    async def main() -> int:
        tried = 0
        for state, breaker, _ in life(3):
            if state == OPEN:
                continue
            before = breaker.counts.as_dict()
            assert await loop.cut(1, sp.Policy(breaker).acall, loop.sleep, 100)
            assert breaker.state == state
            assert neutral(before, breaker.counts.as_dict())
            tried += 1
        return tried

    assert loop.run(main) > 10


# 13: no lock across user code: 10 parallel 0.1 s calls take <= 0.15 s.

GUARDS: dict[str, Callable[[], Any]] = {
    "closed": sp.Breaker,
    "slow calls": lambda: sp.Breaker(slow_call=60),
    "half-open": lambda: _breaker(HALF_OPEN),
    "observed": lambda: _breaker("observed"),
    "Bulkhead": lambda: sp.Bulkhead(10),
    "RateLimit": lambda: sp.RateLimit(sp.Limiter(0, 1000)),
    "Pacer": lambda: sp.RateLimit(sp.Pacer(1e9, 1000)),
    "Throttle": sp.Throttle,
    "AdaptiveLimit": sp.AdaptiveLimit,
    "Hedge": lambda: sp.Hedge(60, idempotent=True),
    "Retry": lambda: sp.Retry(attempts=2),
}
each_guard = pytest.mark.parametrize("name", GUARDS)


def _breaker(state: str) -> sp.Breaker:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=1, probes=10, clock=clock)
    if state == "observed":
        breaker.observe_only()
    breaker.admit().failure()
    clock.advance(2)
    return breaker


def ten_at_once(call: Callable[[], Any]) -> float:
    """Ten threads call at the same moment: seconds from there to the last one's end."""
    start = threading.Barrier(11)
    ends: list[float] = []
    errors: list[BaseException] = []

    def run() -> None:
        start.wait()
        try:
            call()
            ends.append(time.perf_counter())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return max(ends) - began


@pytest.mark.proves("invariant 13")
@pytest.mark.usefixtures("watchdog")
@each_guard
def test_ten_calls_are_inside_together(name: str) -> None:
    """They meet inside the call: with a lock held there, the meeting would never be complete."""
    meeting = threading.Barrier(10)
    ten_at_once(sp.Policy(GUARDS[name]())(lambda: meeting.wait(15)))


@pytest.mark.proves("invariant 13")
@pytest.mark.usefixtures("watchdog")
@each_guard
def test_ten_parallel_calls_take_less_time_than_one_after_the_other(name: str, measured: Measured) -> None:
    """A lock held during the call would make each round last 1 s: one faster round shows there is none."""
    took = math.inf
    end = time.monotonic() + 15
    while took > 0.5 and time.monotonic() < end:
        took = min(took, ten_at_once(sp.Policy(GUARDS[name]())(lambda: time.sleep(0.1))))
    assert took <= 0.5
    measured(f"10 parallel calls of 0.1 s under {name}: {took:.3f} s")


@pytest.mark.proves("invariant 13")
@each_loop
@each_guard
def test_ten_tasks_of_a_tenth_of_a_second_take_exactly_that(name: str, loop: Loop) -> None:
    guard = GUARDS[name]()

    async def main() -> float:
        outcomes = await loop.together(*[lambda: sp.Policy(guard).acall(loop.sleep, 0.1) for _ in range(10)])
        assert outcomes == [None] * 10
        return loop.time()

    assert loop.run(main) == pytest.approx(0.1)
