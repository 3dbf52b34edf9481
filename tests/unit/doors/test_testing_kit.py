"""Tools for users' tests: a clock moved by hand, free waits, a pytest fixture."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import trio
from tests.support.scripted import Boom

import stormproof as sp
from stormproof._runtime.clock import SYSTEM, Ambient, current


def always_fails() -> None:
    raise Boom


def slow(**options: Any) -> sp.Policy:
    """Would take hours on a real clock."""
    given = {"on": Boom, "attempts": 3, "backoff": sp.Constant(3600), "within": None}
    return sp.retry(**{**given, **options})


# FakeClock.


def test_fake_clock_stands_still_until_moved() -> None:
    clock = sp.testing.FakeClock()
    assert clock.now() == 0.0
    assert clock.now() == 0.0
    clock.advance(2.5)
    assert clock.now() == 2.5


def test_fake_clock_starts_as_given_and_may_run_backwards() -> None:
    clock = sp.testing.FakeClock(start=100)
    clock.advance(-150)
    assert clock.now() == -50


def test_fake_clock_s_sleep_is_instant_moves_it_and_is_recorded() -> None:
    clock = sp.testing.FakeClock()
    began = time.monotonic()
    clock.sleep(3600)
    clock.sleep(0)
    assert time.monotonic() - began < 60
    assert clock.sleeps == [3600, 0]
    assert clock.now() == 3600


def test_advance_takes_a_timedelta() -> None:
    clock = sp.testing.FakeClock()
    clock.advance(timedelta(minutes=1))
    clock.advance(timedelta(seconds=-20))
    assert clock.now() == 40


def test_advance_does_not_count_as_a_sleep() -> None:
    clock = sp.testing.FakeClock()
    clock.advance(5)
    assert clock.sleeps == []


def test_policy_on_a_fake_clock_sleeps_on_it() -> None:
    clock = sp.testing.FakeClock()
    with pytest.raises(Boom):
        slow(clock=clock).call(always_fails)
    assert clock.sleeps == [3600, 3600]
    assert clock.now() == 7200


@pytest.mark.parametrize("run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"])
def test_async_policy_on_a_fake_clock_sleeps_on_it(run: Any) -> None:
    clock = sp.testing.FakeClock()

    @slow(clock=clock)
    async def callee() -> None:
        raise Boom

    with pytest.raises(Boom):
        run(callee)
    assert clock.sleeps == [3600, 3600]


def test_fake_clock_serves_policy_budget_and_deadline() -> None:
    clock = sp.testing.FakeClock()
    budget = sp.RateBudget(rate=1 / 3600, burst=1, clock=clock)
    with pytest.raises(Boom):
        slow(clock=clock, budget=budget, backoff=sp.Constant(1800)).call(always_fails)
    assert clock.sleeps == [1800]
    clock.advance(3600)
    assert budget.balance == 1
    with pytest.raises(sp.DeadlineExceeded):
        sp.Policy(sp.Deadline(1000), slow().strategies[0], clock=clock).call(always_fails)


def test_limiter_on_a_fake_clock_sleeps_on_it() -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(rate=1, burst=1, clock=clock)
    limiter.wait()
    limiter.wait()
    assert clock.sleeps == [pytest.approx(1)]


def test_repr_shows_the_time() -> None:
    clock = sp.testing.FakeClock(5)
    clock.sleep(2)
    assert "7" in repr(clock)


# instant().


def test_instant_makes_every_wait_free_and_records_it() -> None:
    with sp.testing.instant() as clock, pytest.raises(Boom):
        slow().call(always_fails)
    assert clock.sleeps == [3600, 3600]


def test_instant_gives_a_fake_clock() -> None:
    with sp.testing.instant() as clock:
        assert isinstance(clock, sp.testing.FakeClock)


def test_instant_covers_policies_made_and_decorated_before() -> None:
    decorated = slow()(always_fails)
    with sp.testing.instant() as clock, pytest.raises(Boom):
        decorated()
    assert clock.sleeps == [3600, 3600]


def test_instant_covers_other_threads() -> None:
    def worker() -> None:
        with pytest.raises(Boom):
            slow().call(always_fails)

    with sp.testing.instant() as clock:
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
    assert clock.sleeps == [3600, 3600]


def test_instant_covers_deadlines_limiters_and_budgets() -> None:
    limiter, budget = sp.Limiter(rate=1, burst=1), sp.RateBudget(rate=1, burst=1)
    with sp.testing.instant() as clock:
        limiter.wait()
        limiter.wait()
        assert clock.sleeps == [pytest.approx(1, abs=0.5)]
        assert budget.withdraw() == 1
        assert budget.withdraw() == 0
        clock.advance(1)
        assert budget.withdraw() == 1
        with sp.deadline(5):
            clock.advance(2)
            assert sp.remaining() == 3


def test_instant_covers_generators_and_blocks() -> None:
    with sp.testing.instant() as clock:
        with pytest.raises(Boom):
            for attempt in slow().retrying():
                with attempt:
                    raise Boom
    assert clock.sleeps == [3600, 3600]


def test_clock_of_the_policy_s_own_is_not_replaced() -> None:
    own = sp.testing.FakeClock()
    with sp.testing.instant() as clock, pytest.raises(Boom):
        slow(clock=own).call(always_fails)
    assert own.sleeps == [3600, 3600]
    assert clock.sleeps == []


def test_instant_ends_with_its_block() -> None:
    with sp.testing.instant() as clock:
        pass
    before = clock.now()
    with pytest.raises(Boom):
        sp.retry(on=Boom, attempts=2, backoff=sp.Constant(0.001)).call(always_fails)
    assert clock.sleeps == []
    assert clock.now() == before


def test_instant_ends_when_the_block_raises() -> None:
    with pytest.raises(Boom), sp.testing.instant() as clock:
        raise Boom
    with sp.deadline(3600):
        # On the fake clock, not a moment would pass between the two.
        time.sleep(0.001)
        left = sp.remaining()
    assert left is not None and left < 3600
    assert clock.sleeps == []


def test_instant_inside_instant_restores_the_outer_clock() -> None:
    with sp.testing.instant() as outer:
        with sp.testing.instant() as inner, pytest.raises(Boom):
            slow().call(always_fails)
        assert inner.sleeps == [3600, 3600]
        assert outer.sleeps == []
        with pytest.raises(Boom):
            slow().call(always_fails)
    assert outer.sleeps == [3600, 3600]


def test_instants_may_end_in_any_order() -> None:
    """As those of two threads or two fixtures do: each takes back its own."""
    first, second = sp.testing.instant(), sp.testing.instant()
    outer, inner = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(Boom):
        slow().call(always_fails)
    second.__exit__(None, None, None)
    assert (outer.sleeps, inner.sleeps) == ([], [3600, 3600])
    assert current() is SYSTEM


def test_clock_that_is_not_in_force_cannot_be_taken_back() -> None:
    ambient = Ambient()
    ours, stranger = sp.testing.FakeClock(5), sp.testing.FakeClock(7)
    ambient.override(ours)
    ambient.restore(stranger)
    assert ambient.clock is ours and ambient.now() == 5
    ambient.restore(ours)
    ambient.restore(ours)
    assert repr(ambient.clock) == "SystemClock()"


def test_time_under_instant_goes_on_from_the_real_one() -> None:
    """Readings before the block and inside it can be compared."""
    with sp.deadline(3600):
        with sp.testing.instant():
            left = sp.remaining()
    assert left is not None and 3000 < left <= 3600


# run(): an event loop whose time jumps.


def test_run_gives_the_result_and_waits_for_nothing() -> None:
    async def main(clock: sp.testing.FakeClock) -> str:
        began = clock.now()
        await asyncio.sleep(3600)
        assert clock.now() - began == pytest.approx(3600)
        return "done"

    began = time.monotonic()
    assert sp.testing.run(main) == "done"
    assert time.monotonic() - began < 60


def test_run_records_waits_of_plain_functions_and_advances_timers() -> None:
    async def main(clock: sp.testing.FakeClock) -> tuple[list[float], float]:
        @slow()
        def callee() -> None:
            raise Boom

        timer = asyncio.ensure_future(asyncio.sleep(7000))
        await asyncio.sleep(0)
        with pytest.raises(Boom):
            callee()
        assert not timer.done()
        await timer
        return clock.sleeps, clock.now()

    sleeps, now = sp.testing.run(main)
    assert sleeps == [3600, 3600]
    # The timer was over during the second wait.
    assert now == pytest.approx(7200)


def test_run_records_the_waits_of_policies() -> None:
    async def main(clock: sp.testing.FakeClock) -> list[float]:
        @slow()
        async def callee() -> None:
            raise Boom

        with pytest.raises(Boom):
            await callee()
        return clock.sleeps

    assert sp.testing.run(main) == [3600, 3600]


def test_run_ends_a_call_at_its_deadline() -> None:
    """Invariant 3: back by the deadline, to the moment, when the callee honours cancellation."""

    async def main(clock: sp.testing.FakeClock) -> float:
        calls: list[int] = []

        @sp.Policy(sp.Deadline(60), sp.Retry(on=Boom, backoff=sp.Constant(10), budget=None))
        async def callee() -> None:
            calls.append(1)
            if len(calls) == 1:
                raise Boom
            await asyncio.sleep(3600)

        began = clock.now()
        with pytest.raises(sp.DeadlineExceeded) as caught:
            await callee()
        assert isinstance(caught.value.__cause__, Boom)
        assert len(calls) == 2
        return clock.now() - began

    assert sp.testing.run(main) == pytest.approx(60)


def test_run_keeps_many_tasks_in_order() -> None:
    async def main(clock: sp.testing.FakeClock) -> list[int]:
        order: list[int] = []

        async def task(number: int) -> None:
            await asyncio.sleep(number * 100)
            order.append(number)

        await asyncio.gather(*map(task, [5, 3, 4, 1, 2]))
        return order

    assert sp.testing.run(main) == [1, 2, 3, 4, 5]


def test_run_passes_errors_on_and_gives_the_clock_back() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        raise Boom

    with pytest.raises(Boom):
        sp.testing.run(main)
    with sp.deadline(3600):
        time.sleep(0.001)
        left = sp.remaining()
    assert left is not None and left < 3600


# The fixture.

TEST_FILE = """
import stormproof as sp
import pytest

@sp.retry(on=OSError, attempts=3, backoff=sp.Constant(3600), within=None)
def fetch():
    raise OSError

def test_waits_are_free(stormproof_instant):
    with pytest.raises(OSError):
        fetch()
    assert stormproof_instant.sleeps == [3600, 3600]

def test_each_test_starts_afresh(stormproof_instant):
    assert stormproof_instant.sleeps == []
"""

pytest_plugins = ["pytester"]


def test_pytest_fixture_is_installed(pytester: pytest.Pytester, pytestconfig: pytest.Config) -> None:
    pytester.makepyfile(TEST_FILE)
    # Installed, the plugin is found by its entry point; from a source tree it has to be named.
    named = [] if pytestconfig.pluginmanager.has_plugin("stormproof") else ["-p", "stormproof.pytest_plugin"]
    result = pytester.runpytest_inprocess(*named, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)


# A clock that blocks.


def test_blocking_clock_keeps_a_thread_until_it_is_advanced_past_its_wait() -> None:
    clock = sp.testing.FakeClock(blocking=True)
    script: list[Any] = [ConnectionError(), "ok"]
    got: list[Any] = []

    def call() -> Any:
        answer = script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    policy = sp.retry(on=ConnectionError, backoff=sp.Constant(30), within=None, clock=clock)
    thread = threading.Thread(target=lambda: got.append(policy.call(call)))
    thread.start()
    clock.wait_for_sleepers()
    clock.advance(29.5)
    assert (clock.sleeping, got, script) == (1, [], ["ok"])
    clock.advance(0.5)
    thread.join(10)
    assert (clock.sleeping, got, clock.sleeps) == (0, ["ok"], [30])


def test_blocking_clock_wakes_each_thread_at_its_own_time() -> None:
    clock = sp.testing.FakeClock(blocking=True)
    woken: list[float] = []

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        woken.append(seconds)

    threads = [threading.Thread(target=sleep, args=(seconds,)) for seconds in (3.0, 1.0, 2.0)]
    for thread in threads:
        thread.start()
    clock.wait_for_sleepers(3)
    for left in (2, 1, 0):
        clock.advance(1)
        while clock.sleeping > left:
            time.sleep(0.001)
    for thread in threads:
        thread.join(10)
    assert woken == [1.0, 2.0, 3.0]


def test_blocking_clock_in_an_event_loop_names_testing_run() -> None:
    async def main() -> None:
        sp.testing.FakeClock(blocking=True).sleep(1)

    with pytest.raises(RuntimeError, match=r"use testing\.run\(main\)$"):
        asyncio.run(main())


def test_wait_for_sleepers_needs_a_blocking_clock_and_times_out() -> None:
    with pytest.raises(RuntimeError, match="blocking=True"):
        sp.testing.FakeClock().wait_for_sleepers()
    with pytest.raises(TimeoutError, match=r"^0 of 2 threads sleep after 0.01 s$"):
        sp.testing.FakeClock(blocking=True).wait_for_sleepers(2, timeout=0.01)
    with pytest.raises(TypeError, match=r"^FakeClock: blocking must be True or False, got 1$"):
        sp.testing.FakeClock(blocking=1)  # type: ignore[arg-type]
