"""What Holdfast offers to its users' tests: a clock moved by hand, free waits, a pytest fixture."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
import trio
from tests.scripted import Boom

import holdfast as hf
from holdfast._drive.clock import SYSTEM, Ambient, current


def always_fails() -> None:
    raise Boom


def slow(**options: Any) -> hf.Policy:
    """Would take hours on a real clock."""
    given = {"on": Boom, "attempts": 3, "backoff": hf.Constant(3600), "within": None}
    return hf.retry(**{**given, **options})


# FakeClock.


def test_a_fake_clock_stands_still_until_moved() -> None:
    clock = hf.testing.FakeClock()
    assert clock.now() == 0.0
    assert clock.now() == 0.0
    clock.advance(2.5)
    assert clock.now() == 2.5


def test_a_fake_clock_starts_where_told_and_runs_backwards_too() -> None:
    clock = hf.testing.FakeClock(start=100)
    clock.advance(-150)
    assert clock.now() == -50


def test_a_fake_clock_s_sleep_is_instant_moves_it_and_is_recorded() -> None:
    clock = hf.testing.FakeClock()
    began = time.monotonic()
    clock.sleep(3600)
    clock.sleep(0)
    assert time.monotonic() - began < 60
    assert clock.sleeps == [3600, 0]
    assert clock.now() == 3600


def test_advancing_is_no_sleep() -> None:
    clock = hf.testing.FakeClock()
    clock.advance(5)
    assert clock.sleeps == []


def test_a_policy_on_a_fake_clock() -> None:
    clock = hf.testing.FakeClock()
    with pytest.raises(Boom):
        slow(clock=clock).call(always_fails)
    assert clock.sleeps == [3600, 3600]
    assert clock.now() == 7200


@pytest.mark.parametrize("run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"])
def test_an_async_policy_on_a_fake_clock(run: Any) -> None:
    clock = hf.testing.FakeClock()

    @slow(clock=clock)
    async def callee() -> None:
        raise Boom

    with pytest.raises(Boom):
        run(callee)
    assert clock.sleeps == [3600, 3600]


def test_one_fake_clock_for_policy_budget_and_deadline() -> None:
    clock = hf.testing.FakeClock()
    budget = hf.RateBudget(rate=1 / 3600, burst=1, clock=clock)
    with pytest.raises(hf.BudgetExhausted):
        slow(clock=clock, budget=budget, backoff=hf.Constant(1800)).call(always_fails)
    assert clock.sleeps == [1800]
    clock.advance(3600)
    assert budget.balance == 1
    with pytest.raises(hf.DeadlineExceeded):
        hf.Policy(hf.Deadline(1000), slow().strategies[0], clock=clock).call(always_fails)


def test_a_limiter_on_a_fake_clock() -> None:
    clock = hf.testing.FakeClock()
    limiter = hf.Limiter(rate=1, burst=1, clock=clock)
    limiter.wait()
    limiter.wait()
    assert clock.sleeps == [pytest.approx(1)]


def test_the_repr_tells_the_time() -> None:
    clock = hf.testing.FakeClock(5)
    clock.sleep(2)
    assert "7" in repr(clock)


# instant().


def test_instant_makes_every_wait_free_and_records_it() -> None:
    with hf.testing.instant() as clock, pytest.raises(Boom):
        slow().call(always_fails)
    assert clock.sleeps == [3600, 3600]


def test_instant_gives_a_fake_clock() -> None:
    with hf.testing.instant() as clock:
        assert isinstance(clock, hf.testing.FakeClock)


def test_instant_covers_policies_made_and_decorated_before() -> None:
    decorated = slow()(always_fails)
    with hf.testing.instant() as clock, pytest.raises(Boom):
        decorated()
    assert clock.sleeps == [3600, 3600]


def test_instant_covers_other_threads() -> None:
    def worker() -> None:
        with pytest.raises(Boom):
            slow().call(always_fails)

    with hf.testing.instant() as clock:
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
    assert clock.sleeps == [3600, 3600]


def test_instant_covers_deadlines_limiters_and_budgets() -> None:
    limiter, budget = hf.Limiter(rate=1, burst=1), hf.RateBudget(rate=1, burst=1)
    with hf.testing.instant() as clock:
        limiter.wait()
        limiter.wait()
        assert clock.sleeps == [pytest.approx(1, abs=0.5)]
        assert budget.withdraw() == 1
        assert budget.withdraw() == 0
        clock.advance(1)
        assert budget.withdraw() == 1
        with hf.deadline(5):
            clock.advance(2)
            assert hf.remaining() == 3


def test_instant_covers_generators_and_blocks() -> None:
    with hf.testing.instant() as clock:
        with pytest.raises(Boom):
            for attempt in slow().retrying():
                with attempt:
                    raise Boom
    assert clock.sleeps == [3600, 3600]


def test_a_clock_of_the_policy_s_own_is_not_replaced() -> None:
    own = hf.testing.FakeClock()
    with hf.testing.instant() as clock, pytest.raises(Boom):
        slow(clock=own).call(always_fails)
    assert own.sleeps == [3600, 3600]
    assert clock.sleeps == []


def test_instant_ends_with_its_block() -> None:
    with hf.testing.instant() as clock:
        pass
    before = clock.now()
    with pytest.raises(Boom):
        hf.retry(on=Boom, attempts=2, backoff=hf.Constant(0.001)).call(always_fails)
    assert clock.sleeps == []
    assert clock.now() == before


def test_instant_ends_when_the_block_raises() -> None:
    with pytest.raises(Boom), hf.testing.instant() as clock:
        raise Boom
    with hf.deadline(3600):
        # On the fake clock, not a moment would pass between the two.
        time.sleep(0.001)
        left = hf.remaining()
    assert left is not None and left < 3600
    assert clock.sleeps == []


def test_instant_nests() -> None:
    with hf.testing.instant() as outer:
        with hf.testing.instant() as inner, pytest.raises(Boom):
            slow().call(always_fails)
        assert inner.sleeps == [3600, 3600]
        assert outer.sleeps == []
        with pytest.raises(Boom):
            slow().call(always_fails)
    assert outer.sleeps == [3600, 3600]


def test_instants_may_end_in_any_order() -> None:
    """As those of two threads or two fixtures do: each takes back its own."""
    first, second = hf.testing.instant(), hf.testing.instant()
    outer, inner = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(Boom):
        slow().call(always_fails)
    second.__exit__(None, None, None)
    assert (outer.sleeps, inner.sleeps) == ([], [3600, 3600])
    assert current() is SYSTEM


def test_a_clock_that_is_not_in_force_cannot_be_taken_back() -> None:
    ambient = Ambient()
    ours, stranger = hf.testing.FakeClock(5), hf.testing.FakeClock(7)
    ambient.override(ours)
    ambient.restore(stranger)
    assert ambient.clock is ours and ambient.now() == 5
    ambient.restore(ours)
    ambient.restore(ours)
    assert repr(ambient.clock) == "SystemClock()"


def test_time_under_instant_goes_on_from_the_real_one() -> None:
    """So that what was read before the block and what is read in it can be compared."""
    with hf.deadline(3600):
        with hf.testing.instant():
            left = hf.remaining()
    assert left is not None and 3000 < left <= 3600


# run(): an event loop whose time jumps.


def test_run_gives_the_result_and_waits_for_nothing() -> None:
    async def main(clock: hf.testing.FakeClock) -> str:
        began = clock.now()
        await asyncio.sleep(3600)
        assert clock.now() - began == pytest.approx(3600)
        return "done"

    began = time.monotonic()
    assert hf.testing.run(main) == "done"
    assert time.monotonic() - began < 60


def test_run_records_the_waits_of_plain_functions_too_and_timers_keep_up_with_them() -> None:
    async def main(clock: hf.testing.FakeClock) -> tuple[list[float], float]:
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

    sleeps, now = hf.testing.run(main)
    assert sleeps == [3600, 3600]
    # The timer was over during the second wait.
    assert now == pytest.approx(7200)


def test_run_records_the_waits_of_policies() -> None:
    async def main(clock: hf.testing.FakeClock) -> list[float]:
        @slow()
        async def callee() -> None:
            raise Boom

        with pytest.raises(Boom):
            await callee()
        return clock.sleeps

    assert hf.testing.run(main) == [3600, 3600]


def test_run_drives_deadlines() -> None:
    """Invariant 3: back by the deadline, to the moment, when the callee honours cancellation."""

    async def main(clock: hf.testing.FakeClock) -> float:
        calls: list[int] = []

        @hf.Policy(hf.Deadline(60), hf.Retry(on=Boom, backoff=hf.Constant(10), budget=None))
        async def callee() -> None:
            calls.append(1)
            if len(calls) == 1:
                raise Boom
            await asyncio.sleep(3600)

        began = clock.now()
        with pytest.raises(hf.DeadlineExceeded) as caught:
            await callee()
        assert isinstance(caught.value.__cause__, Boom)
        assert len(calls) == 2
        return clock.now() - began

    assert hf.testing.run(main) == pytest.approx(60)


def test_run_keeps_many_tasks_in_order() -> None:
    async def main(clock: hf.testing.FakeClock) -> list[int]:
        order: list[int] = []

        async def task(number: int) -> None:
            await asyncio.sleep(number * 100)
            order.append(number)

        await asyncio.gather(*map(task, [5, 3, 4, 1, 2]))
        return order

    assert hf.testing.run(main) == [1, 2, 3, 4, 5]


def test_run_passes_errors_on_and_gives_the_clock_back() -> None:
    async def main(clock: hf.testing.FakeClock) -> None:
        raise Boom

    with pytest.raises(Boom):
        hf.testing.run(main)
    with hf.deadline(3600):
        time.sleep(0.001)
        left = hf.remaining()
    assert left is not None and left < 3600


# The fixture.

TEST_FILE = """
import holdfast as hf
import pytest

@hf.retry(on=OSError, attempts=3, backoff=hf.Constant(3600), within=None)
def fetch():
    raise OSError

def test_waits_are_free(holdfast_instant):
    with pytest.raises(OSError):
        fetch()
    assert holdfast_instant.sleeps == [3600, 3600]

def test_each_test_starts_afresh(holdfast_instant):
    assert holdfast_instant.sleeps == []
"""

pytest_plugins = ["pytester"]


def test_the_pytest_fixture(pytester: pytest.Pytester, pytestconfig: pytest.Config) -> None:
    pytester.makepyfile(TEST_FILE)
    # Installed, the plugin is found by its entry point; from a source tree it has to be named.
    named = [] if pytestconfig.pluginmanager.has_plugin("holdfast") else ["-p", "holdfast.pytest_plugin"]
    result = pytester.runpytest_inprocess(*named, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)
