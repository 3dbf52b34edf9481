"""A clock set back by 1 h or ahead by 10 years: at most one window more to wait, one burst more admitted.

Each test runs the same script twice, on a clock that jumps and on one that does not; the true time is
what the script advances both by. The jump itself is tested in ``tests/faults/test_clock_jumps.py``.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.loops import watchdog
from tests.support.scripted import Boom

import stormproof as sp

__all__ = ["watchdog"]

pytestmark = pytest.mark.proves("invariant 15")

Measured = Callable[[str], None]
HOUR, TEN_YEARS = 3600.0, 10 * 365 * 86_400.0
each_jump = pytest.mark.parametrize("jump", [-HOUR, TEN_YEARS], ids=["back 1 h", "ahead 10 y"])


def waits(admitted: list[bool], step: float) -> float:
    """The longest time without an admission."""
    longest = run = 0
    for ok in admitted:
        run = 0 if ok else run + 1
        longest = max(longest, run)
    return longest * step


@each_jump
@pytest.mark.parametrize("make", [sp.Limiter, sp.Pacer], ids=["limiter", "pacer"])
def test_limiters_after_a_jump_admit_at_most_one_burst_more(
    make: Any, jump: float, measured: Measured
) -> None:
    """100 runs: random calls of allow and of wait; the jump comes at any time."""
    most_extra, longest_extra = 0, 0.0
    for seed in range(100):
        rng = random.Random(seed)
        rate, burst = rng.choice([0.5, 4.0, 32.0]), rng.randint(1, 20)
        step = 1 / rate / 4
        asks = [rng.choice([0, 0, 1, 3]) for _ in range(burst * 4 + 200)]
        jumps_at = rng.randrange(len(asks))
        lives = []
        for jumped in (False, True):
            clock = sp.testing.FakeClock(1e9)
            limiter = make(rate, burst, clock=clock)
            counts, admitted, foreseen = 0, [], 0.0
            for place, times in enumerate(asks):
                clock.advance(step)
                if jumped and place == jumps_at:
                    clock.advance(jump)
                got = sum(limiter.allow() for _ in range(times))
                counts += got
                admitted.append(got > 0 or times == 0)
                if seed % 2:
                    # The others only ask: a limiter must recover without a waiter.
                    waiting = limiter.reserve()
                    foreseen = max(foreseen, waiting.delay)
                    waiting.cancel()
            lives.append((counts, waits(admitted, step), foreseen))
        (plain, plain_wait, plain_hint), (other, other_wait, other_hint) = lives
        window = burst / rate
        assert other <= plain + burst, seed
        assert other >= plain - burst, seed
        assert max(other_wait - plain_wait, other_hint - plain_hint) <= window + step, seed
        most_extra = max(most_extra, other - plain)
        longest_extra = max(longest_extra, (other_wait - plain_wait) / window)
    measured(
        f"{make.__name__}, 100 jumps of {jump:+g} s: {most_extra} extra admissions at most (burst 1 to 20), "
        f"{longest_extra:.2f} windows of extra wait at most"
    )


BUDGETS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "Budget": (lambda clock: sp.Budget(ratio=0.5, burst=5, window=10, clock=clock), 55, 10),
    "WindowBudget": (lambda clock: sp.WindowBudget(ratio=0.5, floor=0.5, window=10, clock=clock), 55, 10),
    "QuotaBudget": (
        lambda clock: sp.QuotaBudget(5, retry_cost=1, timeout_cost=1, success_credit=1, clock=clock),
        5,
        10,
    ),
    "ThrottleBudget": (lambda clock: sp.ThrottleBudget(5, token_ratio=1, clock=clock), 5, 10),
    "RateBudget": (lambda clock: sp.RateBudget(0.5, 5, clock=clock), 5, 10),
}


@each_jump
@pytest.mark.parametrize("name", BUDGETS)
def test_budgets_after_a_jump_pay_at_most_one_burst_more(name: str, jump: float, measured: Measured) -> None:
    """Ten calls a second that succeed, and asks for more than can be paid; each has a burst of 5."""
    make, full, window = BUDGETS[name]
    most_extra, longest_extra = 0, 0.0
    for jumps_at in range(40, 160, 7):
        lives = []
        for jumped in (False, True):
            clock = sp.testing.FakeClock(1e9)
            budget = make(clock)
            paid, given = 0, []
            for place in range(400):
                clock.advance(0.1)
                if jumped and place == jumps_at:
                    clock.advance(jump)
                budget.started()
                budget.success()
                got = 0
                for _ in range(2):
                    if budget.withdraw():
                        budget.failure()
                        got += 1
                paid += got
                given.append(got > 0)
                assert 0 <= budget.balance <= full
            lives.append((paid, waits(given, 0.1)))
        (plain, plain_wait), (other, other_wait) = lives
        assert other - plain <= 5, jumps_at
        assert other_wait - plain_wait <= window, jumps_at
        most_extra = max(most_extra, other - plain)
        longest_extra = max(longest_extra, other_wait - plain_wait)
    measured(
        f"{name}, jump of {jump:+g} s: {most_extra} extra payments at most, {longest_extra:.1f} s more wait"
    )


def _open(breaker: sp.Breaker, clock: Any) -> None:
    breaker.admit().failure()


def _lost(breaker: sp.Breaker, clock: Any) -> None:
    breaker.admit().failure()
    clock.advance(11)
    for _ in range(2):
        breaker.admit()


def _ramping(breaker: sp.Breaker, clock: Any) -> None:
    breaker.admit().failure()
    clock.advance(11)
    for ticket in [breaker.admit(), breaker.admit()]:
        ticket.success()


@each_jump
@pytest.mark.parametrize(
    ("state", "window"), [(_open, 10), (_lost, 7), (_ramping, 6)], ids=["open", "lost probes", "ramping"]
)
def test_breaker_after_a_jump_refuses_at_most_one_window_longer(
    state: Any, window: float, jump: float, measured: Measured
) -> None:
    """It admits again at most one more open time, lease or ramp later, and then no more probes than ever."""
    longest = 0.0
    for jumps_at in (0.0, 0.1, window / 2, window):
        lives = []
        for jumped in (False, True):
            clock = sp.testing.FakeClock(1e9)
            breaker = sp.Breaker(
                consecutive=1,
                open_for=10,
                probes=2,
                probe_timeout=7,
                ramp=6,
                clock=clock,
                rng=lambda: 1 - 2**-53,
            )
            state(breaker, clock)
            waited = 0.0
            while waited < 1000:
                if jumped and waited >= jumps_at:
                    jumped = False
                    clock.advance(jump)
                admitted = 0
                try:
                    for _ in range(5):
                        breaker.admit()
                        admitted += 1
                except sp.CircuitOpen:
                    pass
                if admitted:
                    assert admitted <= 2 or breaker.state == "closed"
                    break
                clock.advance(0.125)
                waited += 0.125
            lives.append(waited)
        assert lives[1] <= lives[0] + window + 0.125, jumps_at
        longest = max(longest, lives[1] - lives[0])
    measured(f"{state.__name__[1:]}, jump of {jump:+g} s: {longest:g} s of extra wait (bar {window} s)")


@each_jump
def test_throttle_after_a_jump_refuses_at_most_one_window_longer(jump: float, measured: Measured) -> None:
    """It stops refusing at most one window later than it would have."""
    longest = 0.0
    for jumps_at in range(0, 30, 3):
        lives = []
        for jumped in (False, True):
            clock = sp.testing.FakeClock(1e9)
            throttle = sp.Throttle(window=20, clock=clock)
            for _ in range(100):
                with pytest.raises((Boom, sp.Throttled)):
                    sp.Policy(throttle).call(_boom)
            assert throttle.rejection > 0.5
            waited = 0
            while throttle.rejection > 0:
                clock.advance(1)
                waited += 1
                if jumped and waited == jumps_at:
                    clock.advance(jump)
                assert waited < 1000
            lives.append(waited)
        assert lives[1] <= lives[0] + 20
        longest = max(longest, lives[1] - lives[0])
    measured(f"jump of {jump:+g} s: refused for {longest:g} s longer at most (window 20 s)")


def _boom() -> None:
    raise Boom


@each_jump
def test_bulkhead_of_tasks_is_unaffected_by_clock_jumps(jump: float, measured: Measured) -> None:
    """A place that comes free goes to the next in line at once, and never more are inside than places."""
    inside = most = served = 0

    async def main(clock: Any) -> None:
        bulkhead = sp.Bulkhead(3, queue=50)
        gates = [asyncio.Event() for _ in range(50)]

        async def work(gate: asyncio.Event) -> None:
            nonlocal inside, most, served
            inside += 1
            most = max(most, inside)
            await gate.wait()
            inside -= 1
            served += 1

        tasks = [asyncio.ensure_future(sp.Policy(bulkhead).acall(work, gate)) for gate in gates]
        for _ in range(5):
            await asyncio.sleep(0)
        assert (inside, bulkhead.queued) == (3, 47)
        for place, gate in enumerate(gates):
            if place in (10, 20):
                clock.advance(jump)
            before = clock.now()
            gate.set()
            for _ in range(5):
                await asyncio.sleep(0)
            assert clock.now() == before, "a call waited for the clock"
            assert inside == min(3, 49 - place)
        await asyncio.gather(*tasks)
        assert (bulkhead.in_use, bulkhead.queued) == (0, 0)

    sp.testing.run(main)
    assert (most, served) == (3, 50)
    measured(
        f"two jumps of {jump:+g} s: {served} of 50 served, {most} inside at most (3 places), 0 s more wait"
    )


@each_jump
@pytest.mark.usefixtures("watchdog")
def test_bulkhead_of_threads_is_unaffected_by_clock_jumps(jump: float) -> None:
    """Its queue uses no clock that could be set: the wait ends when the place is there."""
    with sp.testing.instant() as clock:
        bulkhead = sp.Bulkhead(1, queue=1, max_wait=15)
        policy = sp.Policy(bulkhead)
        inside, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            inside.set()
            assert go_on.wait(15)

        served: list[str] = []
        holder = threading.Thread(target=policy.call, args=(hold,), daemon=True)
        holder.start()
        assert inside.wait(15)
        waiter = threading.Thread(target=policy.call, args=(served.append, "served"), daemon=True)
        waiter.start()
        while bulkhead.queued < 1:
            threading.Event().wait(0.001)
        clock.advance(jump)
        with pytest.raises(sp.BulkheadFull):
            policy.call(served.append, "too many")
        go_on.set()
        holder.join()
        waiter.join()
    assert served == ["served"]
    assert (bulkhead.in_use, bulkhead.queued) == (0, 0)
