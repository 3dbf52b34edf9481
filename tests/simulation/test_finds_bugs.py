"""The simulation can fail: each of these defects, put in on purpose, is found within a few dozen seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.run import play

import stormproof as sp
from stormproof._drivers import race
from stormproof._drivers import waiter as queue
from stormproof._events import bus
from stormproof._runtime import interrupts
from stormproof._strategies.breaker.rules.circuit import Circuit
from stormproof._strategies.hedge import hedge
from stormproof._strategies.limiter.rules.bucket import Bucket
from stormproof._strategies.retry import sync_loop
from stormproof._strategies.retry.rules.decision import Course

#: More than any of them needs.
SEEDS = 150


def leaked_place(patch: pytest.MonkeyPatch) -> None:
    """A waiter that is cancelled in the queue stays in it."""
    patch.setattr(sp.Bulkhead, "_withdraw", lambda self, waiter: None)


def lost_wakeup(patch: pytest.MonkeyPatch) -> None:
    """A place is handed over, and the thread that waits for it is not woken."""
    patch.setattr(queue.Waiter, "grant", lambda self: setattr(self, "granted", True))


def retry_past_the_deadline(patch: pytest.MonkeyPatch) -> None:
    before = Course.next

    def next_(self: Any, verdict: Any, now: float, draw: Any, scope: Any) -> Any:
        first = now if self.first_failure_at is None else self.first_failure_at
        return before(self, verdict, first, draw, None)

    patch.setattr(Course, "next", next_)
    for arm in (interrupts._AsyncioArm, interrupts._QueuedArm):
        patch.setattr(arm, "fire", lambda self: None)


def one_attempt_too_many(patch: pytest.MonkeyPatch) -> None:
    before = Course.next

    def next_(self: Any, *given: Any) -> Any:
        self.number -= 1
        try:
            return before(self, *given)
        finally:
            self.number += 1

    patch.setattr(Course, "next", next_)


def retries_for_free(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sp.Budget, "withdraw", lambda self, timeout=False: 1.0)


def probe_never_given_back(patch: pytest.MonkeyPatch) -> None:
    """A cancelled probe keeps its place."""
    before = Circuit.settle_probe

    def settle(self: Any, probe: Any, outcome: str, now: float) -> bool:
        return False if outcome == "excluded" else before(self, probe, outcome, now)

    patch.setattr(Circuit, "settle_probe", settle)


def too_many_probes(patch: pytest.MonkeyPatch) -> None:
    before = Circuit.admit_probe

    def admit(self: Any, now: float) -> Any:
        self._half.requests = 0
        return before(self, now)

    patch.setattr(Circuit, "admit_probe", admit)


def generous_limiter(patch: pytest.MonkeyPatch) -> None:
    """A waiter that leaves the queue of a limiter gives back twice what it took."""
    before = Bucket.leave

    def leave(self: Any, grant: Any, now: float) -> None:
        before(self, grant, now)
        self.level += 2 * grant.n

    patch.setattr(Bucket, "leave", leave)


def losers_not_awaited(patch: pytest.MonkeyPatch) -> None:
    async def in_asyncio(asyncio: Any, one: Any) -> Any:
        started = one.launch()
        first = asyncio.ensure_future(race._run(*started))
        extra = one.launch()
        if extra is not None:
            asyncio.ensure_future(race._run(*extra))
        error, value = await asyncio.shield(first)
        if error is not None:
            raise error
        return value

    patch.setattr(race, "_in_asyncio", in_asyncio)


def hedges_without_end(patch: pytest.MonkeyPatch) -> None:
    before = hedge.Race.launch

    def launch(self: Any) -> Any:
        self.launched = min(self.launched, 1)
        return before(self)

    patch.setattr(hedge.Race, "launch", launch)


def event_not_emitted(patch: pytest.MonkeyPatch) -> None:
    before = bus.publish

    def publish(kind: str, /, **fields: Any) -> None:
        if kind != "GaveUp":
            before(kind, **fields)

    patch.setattr(bus, "publish", publish)


def attempt_left_behind(patch: pytest.MonkeyPatch) -> None:
    """The mark of the running attempt stays in the context."""
    patch.setattr(sync_loop, "reset_running", lambda token: None)


def lock_held_across_a_callback(patch: pytest.MonkeyPatch) -> None:
    before = sp.Breaker._emit_change

    def emit(self: Any, *args: Any, **kwargs: Any) -> None:
        with self._lock:
            before(self, *args, **kwargs)

    patch.setattr(sp.Breaker, "_emit_change", emit)


#: Found only after dozens of seeds.
RARE = (lock_held_across_a_callback, probe_never_given_back)
COMMON: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    attempt_left_behind,
    event_not_emitted,
    generous_limiter,
    hedges_without_end,
    leaked_place,
    losers_not_awaited,
    lost_wakeup,
    one_attempt_too_many,
    retries_for_free,
    retry_past_the_deadline,
    too_many_probes,
)


@pytest.mark.parametrize(
    "defect",
    [*COMMON, *(pytest.param(defect, marks=pytest.mark.long) for defect in RARE)],
    ids=lambda defect: defect.__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_simulation_finds_the_defect(
    defect: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str], None],
) -> None:
    defect(monkeypatch)
    for seed in range(SEEDS):
        report = play(seed)
        if report.faults:
            measured(f"found by seed {seed}: {report.faults[0][:80]}")
            return
    pytest.fail(f"{SEEDS} seeds did not find it")
