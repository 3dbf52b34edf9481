"""Invariants 7, 8 and 9: what retries and hedges may add to the load, in a calm and in a total outage.

The counts of a budget by itself are in test_budget_exact.py; here whole policies spend it.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.loops import Loop, VirtualLoop, each_loop
from tests.support.scripted import Boom, every_way, retry

import stormproof as sp

Measured = Callable[[str], None]

N = 10_000
ASYNCIO, TRIO = Loop("asyncio"), Loop("trio")
RATIOS = [(ASYNCIO, 0.0001), (ASYNCIO, 0.1), (ASYNCIO, 0.29), (ASYNCIO, 0.9999), (TRIO, 0.0001), (TRIO, 0.07)]

# 7. Frozen clock, N successes: retries + hedges allowed = floor(pN) + burst +-1.


def earned(ratio: float, burst: int) -> sp.Budget:
    """A budget in frozen time after N calls that succeeded under a policy."""
    budget = sp.Budget(ratio=ratio, burst=burst, clock=sp.testing.FakeClock(1e6))
    call = sp.Policy(sp.Retry(on=Boom, budget=budget))(lambda: "ok")
    for _ in range(N):
        call()
    return budget


@pytest.mark.proves("invariant 7")
@pytest.mark.parametrize(("loop", "ratio"), RATIOS)
def test_retries_and_hedges_together_stay_within_the_budget(
    loop: Loop, ratio: float, measured: Measured
) -> None:
    """Calls that fail for good, each hedged once and retried once, for as long as anything is paid."""
    budget = earned(ratio, burst=10)
    allowed = math.floor(Fraction(ratio) * N) + 10
    counts = {"call": 0, "attempt": 0, "hedge": 0, "retry": 0}

    async def backend() -> None:
        counts["attempt"] += 1
        await loop.sleep(2)
        raise Boom

    def count_event(event: Any) -> None:
        counts["retry"] += type(event).__name__ == "Retrying"
        counts["hedge"] += type(event).__name__ == "Hedged"

    call = sp.Policy(
        sp.Retry(on=Boom, attempts=2, backoff=sp.Constant(0), within=None, budget=budget),
        sp.Hedge(after=1, idempotent=True, budget=budget),
    )(backend)

    async def once() -> None:
        counts["call"] += 1
        with pytest.raises((Boom, sp.BudgetExhausted)):
            await call()

    async def main() -> None:
        # Some at a time; the last round pays for nothing any more.
        for _ in range(allowed // 100 + 5):
            before = counts["attempt"] - counts["call"]
            await loop.together(*[once] * 100)
            if counts["attempt"] - counts["call"] == before:
                return
        pytest.fail("it pays without end")

    stop = sp.subscribe(count_event)
    try:
        loop.run(main)
    finally:
        stop()
    extra = counts["attempt"] - counts["call"]
    assert extra == counts["hedge"] + counts["retry"]
    assert counts["hedge"] > 0 and counts["retry"] >= 0
    assert abs(extra - allowed) <= 1
    measured(
        f"{loop.name}, p = {ratio:g}: {counts['retry']:,} retries + {counts['hedge']:,} hedges "
        f"= {extra:,}; floor(pN) + burst = {allowed:,}"
    )


THREADS, OPERATIONS = 16, 10_000


@pytest.fixture
def switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.proves("invariant 7")
@pytest.mark.usefixtures("switching")
def test_balance_seen_by_sixteen_threads_is_never_beyond_the_earnings(measured: Measured) -> None:
    """The cap is what was earned so far, not what will have been: it is tight at every moment."""
    ratio, burst = 0.25, 50
    budget = sp.Budget(ratio=ratio, burst=burst, clock=sp.testing.FakeClock())
    successes, paid = [0] * THREADS, [0] * THREADS
    lowest, highest = [math.inf] * THREADS, [0.0] * THREADS
    outside: list[tuple[float, float]] = []
    barrier = threading.Barrier(THREADS)

    def worker(place: int) -> None:
        draw = random.Random(place).random
        barrier.wait(60)
        for turn in range(OPERATIONS):
            if draw() < 0.7:
                successes[place] += 1
                budget.success()
            else:
                paid[place] += budget.withdraw() > 0
            if turn % 4 == place % 4:
                balance = budget.balance
                cap = burst + ratio * sum(successes)
                if not 0.0 <= balance <= cap + 1e-6:
                    outside.append((balance, cap))
                lowest[place] = min(lowest[place], balance)
                highest[place] = max(highest[place], balance)

    threads = [threading.Thread(target=worker, args=(place,)) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not any(thread.is_alive() for thread in threads)
    assert outside == []
    earned_in_all = burst + ratio * sum(successes)
    assert sum(paid) + budget.balance == pytest.approx(earned_in_all, abs=1e-3)
    assert min(lowest) < 1, "it was never near its floor"
    measured(
        f"{THREADS} threads x {OPERATIONS:,} operations, {THREADS * OPERATIONS // 4:,} balances seen from "
        f"{min(lowest):.3g} to {max(highest):.3g}, none outside [0, cap]; paid + held = earned"
    )


# 8. Total outage: load on the server <= offered + what was held when it began; nested layers pay once.


class Backend:
    """A server that counts, and is down or not."""

    def __init__(self) -> None:
        self.load = 0
        self.down = False
        self.wins: list[float] = []

    def serve(self, now: float) -> str:
        self.load += 1
        if self.down:
            raise Boom
        self.wins.append(now)
        return "ok"


class Fleet:
    """Processes that each have their own policies, in layers, with a budget for each layer."""

    def __init__(self, processes: int, layers: int, ratio: float, burst: int, window: float) -> None:
        self.clock = sp.testing.FakeClock()
        self.backend = Backend()
        self.ratio, self.burst, self.window = ratio, burst, window
        self.budgets = [
            [sp.Budget(ratio, burst=burst, window=window, clock=self.clock) for _ in range(layers)]
            for _ in range(processes)
        ]
        self.calls = [self._layered(row) for row in self.budgets]

    def _layered(self, budgets: list[sp.Budget]) -> Callable[[], Any]:
        call: Callable[[], Any] = lambda: self.backend.serve(self.clock.now())  # noqa: E731
        for budget in budgets:

            def layer(below: Callable[[], Any] = call) -> Any:
                return below()

            call = sp.retry(
                on=Exception, attempts=5, backoff=sp.Exponential(0.01), budget=budget, clock=Still(self.clock)
            )(layer)
        return call

    def held(self) -> float:
        """Return the balance of the innermost layers: those further out are never asked."""
        return sum(row[0].balance for row in self.budgets)

    def offer(self, seconds: float, rate: float, look: bool = False) -> int:
        """Make ``rate`` calls a second in every process for the given time; return their number.

        ``look`` has the budgets do their sums all the time, instead of once when something fails.
        """
        offered = 0
        for _ in range(round(seconds * rate)):
            if look:
                self.held()
            for call in self.calls:
                offered += 1
                try:
                    call()
                except (Boom, sp.BudgetExhausted):
                    pass
            self.clock.advance(1 / rate)
        return offered


class Still(sp.testing.FakeClock):
    """Another clock's time; a wait takes none of it, as if all calls of the process waited at once."""

    def __init__(self, clock: sp.testing.FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def now(self) -> float:
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        self.asked(seconds)


@pytest.mark.proves("invariant 8")
def test_outage_adds_at_most_the_held_budget(measured: Measured) -> None:
    seen: list[tuple[int, int, float]] = []

    @settings(max_examples=25)
    @given(
        processes=st.integers(1, 3),
        layers=st.integers(1, 3),
        ratio=st.floats(0, 1),
        burst=st.integers(0, 20),
        window=st.sampled_from([1.0, 5.0, 10.0]),
        rate=st.sampled_from([1, 7, 20]),
        look=st.booleans(),
    )
    @example(processes=3, layers=3, ratio=0.1, burst=10, window=10.0, rate=20, look=False)
    @example(processes=1, layers=1, ratio=0.1, burst=10, window=10.0, rate=20, look=True)
    def check(
        processes: int, layers: int, ratio: float, burst: int, window: float, rate: int, look: bool
    ) -> None:
        fleet = Fleet(processes, layers, ratio, burst, window)
        backend = fleet.backend
        assert backend.load == 0
        offered = fleet.offer(12, rate, look)
        assert backend.load == offered
        now = fleet.clock.now()
        # A success counts from the reading after it on, to a slice of 1/20 of the window, rounded: when the
        # sums are made all the time, it counts for up to one and a half slices more than the window.
        span = window * (1 + 1.5 / 20) if look else window
        lately = sum(at > now - span - 1e-9 for at in backend.wins) / processes
        most = processes * (burst + ratio * lately)
        if look:
            held = fleet.held()
            assert held <= most + 1e-6
            most = held
        backend.load, backend.down = 0, True
        offered = fleet.offer(12, rate)
        extra = backend.load - offered
        assert 0 <= extra <= most + 1e-6
        seen.append((offered, extra, most))
        backend.load = 0
        offered = fleet.offer(5, rate)
        assert backend.load == offered, "it must have ended by itself"
        if layers > 1:
            spent = [[burst_held(budget, fleet) for budget in row[1:]] for row in fleet.budgets]
            assert all(not any(row) for row in spent), "an outer layer paid"

    def burst_held(budget: sp.Budget, fleet: Fleet) -> bool:
        """Return True if it has paid: untouched, the window runs dry and the burst is left."""
        return budget.balance < fleet.burst - 1e-6

    check()
    offered, extra, most = max(seen, key=lambda row: row[2])
    measured(
        f"{len(seen)} outages, 1 to 3 processes, 1 to 3 layers: in the largest {offered:,} calls were "
        f"offered and {extra} retries added; {most:.1f} were held when it began"
    )


@pytest.mark.proves("invariant 8")
def test_nested_layers_pay_once(measured: Measured) -> None:
    """Three layers at work around one call: one of them pays, and the server sees 5 calls, not 125."""
    fleet = Fleet(1, 3, ratio=0.0, burst=10, window=10)
    fleet.backend.down = True
    with pytest.raises(Boom):
        fleet.calls[0]()
    inner, *outer = (budget.balance for budget in fleet.budgets[0])
    assert fleet.backend.load == 5
    assert inner == 6.0
    assert outer == [10.0, 10.0]
    measured(
        f"3 layers of 5 attempts: {fleet.backend.load} calls; the innermost paid {10 - inner:g}, the others "
        f"{20 - sum(outer):g}"
    )


@pytest.mark.proves("invariant 8")
@each_loop
def test_outage_met_by_many_tasks_adds_at_most_the_held_budget(loop: Loop, measured: Measured) -> None:
    """A whole policy: deadline, retries, hedges, a limit to one attempt; 500 calls meet it together."""
    clock = sp.testing.FakeClock()
    budget = sp.Budget(ratio=0.1, burst=10, window=10, clock=clock)
    attempts = wins = 0

    async def backend(answers: bool) -> str:
        nonlocal attempts, wins
        attempts += 1
        if answers:
            await loop.sleep(0.01)
            wins += 1
            return "ok"
        await loop.sleep(3600)
        return "never"

    call = sp.Policy(
        sp.Deadline(20),
        sp.Retry(on=sp.transient, attempts=4, budget=budget, within=None),
        sp.Hedge(after=0.2, idempotent=True),
        sp.Timeout(0.5),
    )(backend)

    async def main() -> list[Any]:
        await loop.together(*[lambda: call(True)] * 1_000)
        return await loop.together(*[lambda: call(False)] * 500)

    answers = loop.run(main)
    extra = attempts - 1_500
    held = 10 + 0.1 * wins
    assert wins == 1_000
    assert len(answers) == 500 and all(isinstance(answer, Exception) for answer in answers)
    assert 0 < extra <= held + 1e-6
    assert extra >= held - 1, "what was held was there to be used"
    measured(f"{loop.name}: 500 calls offered to a dead server, {extra} retries and hedges of {held:g} held")


# 9. A denial returns at once with the cause attached and never sleeps first.


#: One retry each, and no second one for a long time.
KINDS: dict[str, Callable[[], Any]] = {
    "Budget": lambda: sp.Budget(ratio=0.1, burst=1),
    "WindowBudget": lambda: sp.WindowBudget(ratio=0, floor=0.1, window=10),
    "QuotaBudget": lambda: sp.QuotaBudget(capacity=5),
    "ThrottleBudget": lambda: sp.ThrottleBudget(max_tokens=3, token_ratio=0.1),
    "RateBudget": lambda: sp.RateBudget(rate=0.001, burst=1),
    "RateBudget that waits": lambda: sp.RateBudget(rate=0.001, burst=1, wait=True),
}


@pytest.mark.proves("invariant 9")
@every_way
@pytest.mark.parametrize("kind", KINDS)
def test_denial_takes_no_time(play: Any, kind: str, measured: Measured) -> None:
    """One retry is paid for; the second is denied in the instant in which its attempt failed."""
    policy = retry(budget=KINDS[kind](), attempts=10, within=100)
    seen = play(policy, Boom, ...).stopped_for("budget")
    seen.made(2).slept(1)
    passed = seen.script.clock.now() - seen.started - seen.times[-1]
    assert passed == 0.0
    assert seen.kinds() == ["Retrying", "GaveUp"]
    assert seen.events[-1].reason == "budget"
    assert any("budget" in note for note in seen.last.__notes__)
    measured(f"{len(seen.sleeps)} sleep before the retry that was paid for, {passed:g} s before the denial")


class CountedLoop(VirtualLoop):
    turns = 0

    def _run_once(self) -> None:
        self.turns += 1
        super()._run_once()  # type: ignore[misc]


@pytest.mark.proves("invariant 9")
def test_denial_comes_in_the_same_turn_of_the_loop(measured: Measured) -> None:
    loop = CountedLoop()
    failed: list[int] = []
    waited: list[int] = []

    async def fail() -> None:
        await asyncio.sleep(0.1)
        failed.append(loop.turns)
        raise Boom

    async def main() -> None:
        call = sp.Policy(sp.Deadline(60), sp.Retry(on=Boom, budget=sp.Budget(burst=0)))(fail)
        for _ in range(200):
            with pytest.raises(Boom) as caught:
                await call()
            waited.append(loop.turns - failed[-1])
            why = sp.stopped(caught.value)
            assert why is not None and (why.reason, why.attempts) == ("budget", 1)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    assert set(waited) == {0}
    measured(f"{len(waited)} denials, each {max(waited)} turns of the loop after its attempt failed")


@pytest.mark.proves("invariant 9")
def test_denial_never_asks_the_machine_to_sleep(monkeypatch: pytest.MonkeyPatch, measured: Measured) -> None:
    """By the real clock, with waits of an hour: the time it takes is only reported."""
    slept: list[Any] = []
    monkeypatch.setattr("stormproof._drivers.sync.sleep", lambda *args: slept.append(args))
    call = sp.retry(on=Boom, backoff=sp.Constant(3600), within=None, budget=sp.Budget(burst=0))(_boom)
    longest = 0.0
    for _ in range(1_000):
        began = time.perf_counter()
        with pytest.raises(Boom) as caught:
            call()
        longest = max(longest, time.perf_counter() - began)
        why = sp.stopped(caught.value)
        assert why is not None and (why.reason, why.attempts) == ("budget", 1)
    assert slept == []
    measured(
        f"1,000 denials by the real clock: {len(slept)} sleeps, the longest took {longest * 1e6:,.0f} us"
    )


def _boom() -> None:
    raise Boom
