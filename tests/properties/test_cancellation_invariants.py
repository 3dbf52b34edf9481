"""Invariant 5: cancelled at any turn of its loop a call ends within one tick, calls no more, holds nothing.

One call goes through every place where it can wait: a bulkhead's queue, a limiter, the attempt, the sleep
before a retry. It is run once to count the turns of the loop that it takes; then once more for each turn,
and cancelled there.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
import trio.testing
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, VirtualLoop, each_loop
from tests.support.scripted import Boom

import stormproof as sp

Measured = Callable[[str], None]

BURST, RATE = 2, 0.25
ATTEMPT_S = 0.5


class Stage:
    """A policy of everything that can be held, the call under it, and what is held afterwards."""

    def __init__(self, loop: Loop, breaker: sp.Breaker, fails: int, budget: Any = None) -> None:
        self.loop = loop
        self.clock = LoopClock(loop)
        self.fails = fails
        self.holding = True
        self.calls = 0
        self.began: list[float] = []
        self.budget = budget or sp.Budget(burst=10, clock=sp.testing.FakeClock())
        self.breaker = breaker
        self.bulkhead = sp.Bulkhead(1, queue=3, max_wait=None)
        self.limiter = sp.Limiter(RATE, BURST, clock=self.clock)
        self.policy = sp.Policy(
            sp.Deadline(500),
            sp.Retry(on=Boom, attempts=6, backoff=sp.Constant(1), within=None, budget=self.budget),
            breaker,
            self.bulkhead,
            sp.RateLimit(self.limiter, max_wait=None),
            sp.Timeout(20),
            clock=self.clock,
        )
        self.events: list[Any] = []
        self.done = False
        self.outcome: BaseException | str | None = None
        self.left: tuple[Any, Any] | None = None
        #: When the budget's next token would have come, as seen at the end of the call.
        self.next_token = 0.0

    async def callee(self) -> str:
        self.calls += 1
        self.began.append(self.loop.time())
        await self.loop.sleep(ATTEMPT_S)
        if self.calls <= self.fails:
            raise Boom
        return "ok"

    async def holder(self) -> None:
        """Another caller's call, so that ours begins in the queue."""
        await sp.Policy(self.bulkhead).acall(self.loop.sleep, 0.25)
        self.holding = False

    async def run(self, turns: Turns) -> None:
        turns.counting = True
        try:
            self.outcome = await self.policy.acall(self.callee)
        except BaseException as error:
            self.outcome = error
            raise
        finally:
            self.left = sp.attempt(), sp.remaining()
            self.done = True

    def held(self, now: float) -> None:
        """Complain of anything that is still held."""
        assert self.left == (None, None)
        assert self.bulkhead.queued == 0
        assert self.bulkhead.in_use == self.holding
        # The limiter is owed for the calls that began and for nothing else.
        tokens, last = float(BURST), 0.0
        for began in self.began:
            tokens, last = min(BURST, tokens + RATE * (began - last)) - 1, began
        assert self.limiter.tokens() == pytest.approx(min(BURST, tokens + RATE * (now - last)), abs=1e-9)
        # Another thread asks for the locks: this one might own them.
        free: list[bool] = []
        locks = [part._lock for part in (self.budget, self.breaker, self.bulkhead, self.limiter)]

        def ask() -> None:
            for lock in locks:
                free.append(lock.acquire(blocking=False))
                if free[-1]:
                    lock.release()

        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(20)
        assert free == [True] * len(locks)


class Turns:
    """Counts the turns of a loop and strikes at the beginning of one of them."""

    def __init__(self, stage: Stage, at: int | None) -> None:
        self.stage = stage
        self.at = at
        self.number = 0
        self.strike: Callable[[], object] = lambda: None
        self.struck: tuple[float, int] | None = None
        #: In how many turns it ended: 1 is the turn in which the cancellation came, 2 is one tick later.
        self.took = 0
        self.counting = False

    @property
    def in_time(self) -> bool:
        """asyncio cuts in at once. trio lets a task that was woken already go on to its next checkpoint."""
        return self.took <= (2 if self.stage.loop.name == "trio" else 1)

    def begin(self, now: Callable[[], float]) -> None:
        if not self.counting or self.stage.done:
            return
        self.number += 1
        if self.number == self.at:
            self.struck = now(), self.stage.calls
            self.strike()
        if self.struck is not None:
            self.took += 1


class StruckLoop(VirtualLoop):
    turns: Turns | None = None

    def _run_once(self) -> None:
        if self.turns is not None:
            self.turns.begin(self.time)
        super()._run_once()  # type: ignore[misc]


class StruckTrio(trio.abc.Instrument):
    """trio's turn: it waits for I/O, then runs every task that is ready."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def after_io_wait(self, timeout: float) -> None:
        self.turns.begin(trio.current_time)


async def in_asyncio(stage: Stage, turns: Turns, after: Callable[[], None]) -> None:
    holding = asyncio.create_task(stage.holder())
    await asyncio.sleep(0)
    task = asyncio.create_task(stage.run(turns))
    turns.strike = task.cancel
    await asyncio.wait([task])
    after()
    # No caller comes back: an hour later there is only ours.
    await asyncio.sleep(3600)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert holding.done()
    if not task.cancelled():
        task.result()


async def in_trio(stage: Stage, turns: Turns, after: Callable[[], None]) -> None:
    async def run() -> None:
        with scope:
            await stage.run(turns)
        after()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.holder)
        await trio.testing.wait_all_tasks_blocked()
        scope = trio.CancelScope()
        turns.strike = scope.cancel
        nursery.start_soon(run)
    await trio.sleep(3600)


def play(make: Callable[[Loop], Stage], loop: Loop, at: int | None) -> tuple[Stage, Turns]:
    """Run the stage's call and cancel it at the turn ``at`` (None: let it end)."""
    stages: list[tuple[Stage, Turns]] = []

    def prepare() -> tuple[Stage, Turns]:
        stage = make(loop)
        stages.append((stage, Turns(stage, at)))
        return stages[0]

    def after() -> None:
        stage, turns = stages[0]
        now = loop.time()
        stage.held(now)
        if isinstance(stage.budget, sp.RateBudget):
            stage.next_token = now + stage.budget.reserve(None).delay
        if turns.struck is not None:
            assert now == turns.struck[0], "time passed between the cancellation and the end"

    if loop.name == "trio":

        async def main() -> None:
            stage, turns = prepare()
            trio.lowlevel.add_instrument(StruckTrio(turns))
            await in_trio(stage, turns, after)

        with recorded() as events:
            trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    else:
        struck = StruckLoop()

        async def main() -> None:
            stage, struck.turns = prepare()
            await in_asyncio(stage, struck.turns, after)

        with recorded() as events, asyncio.Runner(loop_factory=lambda: struck) as runner:
            runner.run(main())
    stages[0][0].events = events
    return stages[0]


@contextlib.contextmanager
def recorded() -> Iterator[list[Any]]:
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        yield events
    finally:
        stop()


def closed(loop: Loop) -> Stage:
    return Stage(loop, sp.Breaker(consecutive=100, clock=sp.testing.FakeClock()), fails=3)


def sweep(make: Callable[[Loop], Stage], loop: Loop, result: Any) -> Iterator[tuple[Stage, Turns]]:
    """The call cancelled at each of its turns in turn."""
    whole, turns = play(make, loop, None)
    assert whole.outcome == result
    for at in range(1, turns.number + 1):
        stage, turns = play(make, loop, at)
        if turns.struck is None or stage.outcome == result:
            # trio runs what is ready in any order, so a run may be a turn shorter than the one before.
            assert at >= turns.number
            continue
        yield stage, turns


@pytest.mark.proves("invariant 5")
@each_loop
def test_call_cancelled_at_any_turn_ends_in_time_and_holds_nothing(loop: Loop, measured: Measured) -> None:
    places, slowest = 0, 0
    where: set[tuple[int, int]] = set()
    for stage, turns in sweep(closed, loop, "ok"):
        assert isinstance(stage.outcome, (asyncio.CancelledError, trio.Cancelled))
        assert turns.struck is not None and turns.in_time, f"it ended in turn {turns.took}"
        assert stage.calls == turns.struck[1], "a call was made after the cancellation"
        kinds = [type(event).__name__ for event in stage.events]
        assert set(kinds) <= {"Retrying"}
        assert stage.budget.balance == 10 - len(kinds)
        # Neutral for the breaker: it knows of the failures that there were, and has nothing running.
        counts = stage.breaker.counts
        assert (counts.failures, counts.successes) == (len(kinds), 0)
        places, slowest = places + 1, max(slowest, turns.took)
        where.add((stage.calls, len(kinds)))
    # In the queue, then in each of four attempts and in each of three waits between them.
    assert {(calls, calls - 1) for calls in (1, 2, 3, 4)} | {(0, 0), (1, 1), (2, 2), (3, 3)} <= where
    measured(
        f"{loop.name}: cancelled at each of {places} turns of one call (queue, limiter, attempt, sleep): "
        f"ended {slowest - 1} ticks later at the latest, 0 further calls, 0 permits held"
    )


def half_open(loop: Loop) -> Stage:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=30, probes=1, probe_timeout=None, clock=clock)
    breaker.admit().failure(Boom())
    clock.advance(31)
    return Stage(loop, breaker, fails=0)


@pytest.mark.proves("invariant 5")
@each_loop
def test_cancelled_probe_frees_its_place(loop: Loop, measured: Measured) -> None:
    freed = 0
    for stage, turns in sweep(half_open, loop, "ok"):
        assert turns.in_time
        assert stage.breaker.state == "half_open"
        # There is one place, leased for ever: it is free again, or this raises CircuitOpen.
        stage.breaker.admit().success()
        assert stage.breaker.state == "closed"
        freed += 1
    assert freed >= 3
    measured(
        f"{loop.name}: a probe cancelled at each of {freed} turns: its place was free when the call ended"
    )


def rated(loop: Loop) -> Stage:
    budget = sp.RateBudget(rate=0.1, burst=1, wait=True, clock=LoopClock(loop))
    return Stage(loop, sp.Breaker(consecutive=100), fails=2, budget=budget)


@pytest.mark.proves("invariant 5")
@each_loop
def test_token_that_a_cancelled_retry_waited_for_is_back(loop: Loop, measured: Measured) -> None:
    given_back = 0
    for stage, turns in sweep(rated, loop, "ok"):
        assert turns.in_time
        kinds = [type(event).__name__ for event in stage.events]
        if len(kinds) == stage.calls == 2:
            # The first token went at 0.75 s and one comes every 10 s: the next is there for the next one.
            assert stage.next_token == pytest.approx(10.75)
            given_back += 1
    assert given_back, "never cancelled in the wait for a token"
    measured(f"{loop.name}: cancelled at {given_back} turns of a wait for a budget's token: it came back")


# Threads: what interrupts them is raised in the middle, by a signal or by the scope's cancel().


class Struck(sp.testing.FakeClock):
    """Raises ``strike`` in the sleep of the number ``at``, after ``share`` of it."""

    def __init__(self, at: int, strike: Callable[[], object], share: float) -> None:
        super().__init__()
        self.at, self.strike, self.share = at, strike, share

    def sleep(self, seconds: float) -> None:
        if len(self.sleeps) + 1 == self.at:
            self.asked(seconds)
            self.advance(seconds * self.share)
            self.strike()
        else:
            super().sleep(seconds)


def in_a_thread(where: str, at: int, end: str) -> tuple[int, int, int]:
    """Interrupt a sync call in its ``at``-th sleep or attempt: (calls before, calls after, sleeps)."""
    calls: list[float] = []
    scopes: list[Any] = []

    def strike() -> None:
        if end == "cancel":
            scopes[0].cancel()
        else:
            raise KeyboardInterrupt

    clock = Struck(at if where == "sleep" else 0, strike, share=0.5 if end == "signal" else 1.0)
    budget = sp.Budget(burst=10, clock=clock)
    breaker, bulkhead = sp.Breaker(consecutive=100, clock=clock), sp.Bulkhead(1)
    limiter = sp.Limiter(RATE, BURST, clock=clock)

    @sp.Policy(
        sp.Retry(on=Boom, attempts=7, backoff=sp.Constant(1), within=None, budget=budget),
        breaker,
        bulkhead,
        sp.RateLimit(limiter, max_wait=None),
        clock=clock,
    )
    def callee() -> None:
        calls.append(clock.now())
        if where == "attempt" and len(calls) == at:
            strike()
        raise Boom

    kind = sp.Cancelled if end == "cancel" else KeyboardInterrupt
    with recorded() as events, sp.deadline(None, clock=clock) as scope:
        scopes.append(scope)
        with pytest.raises(kind):
            callee()
        assert sp.attempt() is None
    retried = sum(type(event).__name__ == "Retrying" for event in events)
    assert (bulkhead.in_use, bulkhead.queued) == (0, 0)
    assert budget.balance == 10 - retried
    tokens, last = float(BURST), 0.0
    for began in calls:
        tokens, last = min(BURST, tokens + RATE * (began - last)) - 1, began
    assert limiter.tokens() == pytest.approx(min(BURST, tokens + RATE * (clock.now() - last)), abs=1e-9)
    assert breaker.counts.failures == len(calls) - (where == "attempt" and end == "signal")
    before = at if where == "attempt" else len([began for began in calls if began < clock.now()])
    return before, len(calls), len(clock.sleeps)


@pytest.mark.proves("invariant 5")
@pytest.mark.parametrize("end", ["signal", "cancel"])
def test_thread_interrupted_anywhere_calls_no_more_and_holds_nothing(end: str, measured: Measured) -> None:
    # Attempts begin with or without a wait for the limiter: 1, sleep, 2, sleep, wait, 3, sleep, wait, ...
    places = [("attempt", at) for at in range(1, 7)] + [("sleep", at) for at in range(1, 9)]
    for where, at in places:
        before, after, sleeps = in_a_thread(where, at, end)
        assert after == before, f"a further call after {where} {at}"
        if where == "sleep":
            assert sleeps == at, "a further sleep"
    measured(
        f"sync, {end}: stopped in each of {len(places)} attempts and waits, 0 further calls, 0 permits held"
    )
