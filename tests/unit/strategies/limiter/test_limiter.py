"""The limiter by example: what it grants, when, and what waiting for it means.

Any sequence of operations is compared with Go's semantics in ``tests/properties/test_limiter_go_model.py``.
"""

from __future__ import annotations

import math
import pickle
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, each_loop

import stormproof as sp


@pytest.fixture
def clock() -> sp.testing.FakeClock:
    return sp.testing.FakeClock(100.0)


# Taking tokens.


def test_limiter_starts_full_and_refills_with_time(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(2, 3, clock=clock)
    assert [limiter.allow() for _ in range(4)] == [True, True, True, False]
    clock.advance(0.5)
    assert [limiter.allow() for _ in range(2)] == [True, False]
    clock.advance(3600)
    assert limiter.tokens() == 3


def test_several_tokens_are_taken_at_once(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 5, clock=clock)
    assert limiter.allow(3)
    assert not limiter.allow(3)
    assert limiter.allow(2)
    assert limiter.tokens() == 0


def test_refusal_takes_nothing(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 2, clock=clock)
    assert not limiter.allow(3)
    assert not limiter.reserve(3).ok
    limiter.allow(2)
    assert not limiter.reserve(1, max_wait=0.5).ok
    assert limiter.tokens() == 0


def test_request_for_0_tokens_is_granted_without_waiters(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 0, clock=clock)
    assert limiter.allow(0)
    assert not limiter.allow(1)


def test_infinite_rate_ignores_the_burst(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(math.inf, 0, clock=clock)
    assert all(limiter.allow(1000) for _ in range(100))
    assert limiter.reserve(10**9).delay == 0
    limiter.wait(10**9)
    assert clock.sleeps == []


def test_rate_of_zero_gives_the_burst_once(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(0, 2, clock=clock)
    assert limiter.allow(2)
    clock.advance(10**9)
    assert not limiter.allow()
    assert not limiter.reserve().ok
    with pytest.raises(sp.RateLimited, match="never"):
        limiter.wait()


# Reservations.


def test_reservations_queue_up(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(4, 1, clock=clock)
    delays = [limiter.reserve().delay for _ in range(4)]
    assert delays == [0, 0.25, 0.5, 0.75]
    assert limiter.tokens() == -3
    assert not limiter.allow()


def test_delay_of_a_reservation_shrinks_to_zero(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 1, clock=clock)
    limiter.allow()
    reservation = limiter.reserve()
    clock.advance(0.25)
    assert reservation.delay == 0.75
    clock.advance(10)
    assert reservation.delay == 0


def test_refused_reservation_has_an_infinite_delay(clock: sp.testing.FakeClock) -> None:
    refused = sp.Limiter(1, 1, clock=clock).reserve(2)
    assert not refused.ok
    assert refused.delay == math.inf
    refused.cancel()


def test_cancelling_the_last_one_gives_all_back(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 2, clock=clock)
    limiter.allow(2)
    first, last = limiter.reserve(2), limiter.reserve(1)
    last.cancel()
    assert limiter.tokens() == -2
    first.cancel()
    assert limiter.tokens() == 0


def test_cancelled_reservation_with_others_behind_gives_back_the_rest(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 3, clock=clock)
    limiter.allow(3)
    first, behind = limiter.reserve(3), limiter.reserve(1)
    assert behind.delay == 4
    first.cancel()
    # Of its three tokens, the one behind counts on one second of waiting.
    assert limiter.tokens() == -2


def test_cancelling_twice_gives_back_once(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 2, clock=clock)
    limiter.allow(2)
    limiter.reserve(1)
    last = limiter.reserve(1)
    last.cancel()
    before = limiter.tokens()
    last.cancel()
    assert limiter.tokens() == before


def test_cancelling_after_its_time_gives_nothing_back(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 1, clock=clock)
    limiter.allow()
    reservation = limiter.reserve()
    clock.advance(1.5)
    reservation.cancel()
    assert limiter.tokens() == 0.5


# Changing it.


def test_new_rate_counts_from_now_on(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 10, clock=clock)
    limiter.allow(10)
    clock.advance(2)
    limiter.set_rate(4)
    assert limiter.tokens() == 2
    clock.advance(1)
    assert limiter.tokens() == 6
    assert limiter.rate == 4


def test_smaller_burst_cuts_the_level(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 10, clock=clock)
    limiter.set_burst(4)
    assert limiter.tokens() == 4
    limiter.set_burst(10)
    assert limiter.tokens() == 4
    assert limiter.burst == 10


# Waiting.


def test_wait_sleeps_exactly_until_the_tokens_are_available(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(4, 2, clock=clock)
    for _ in range(4):
        limiter.wait()
    assert clock.sleeps == [0.25, 0.25]
    limiter.wait(2)
    assert clock.sleeps[2:] == [0.5]


def test_waiting_for_more_than_the_burst_fails_at_once(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 2, clock=clock)
    with pytest.raises(sp.RateLimited, match=r"n must be <= burst \(2\), got 3"):
        limiter.wait(3)
    assert limiter.tokens() == 2
    assert clock.sleeps == []


def test_wait_past_the_deadline_fails_at_once(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 1, clock=clock)
    limiter.allow()
    with sp.deadline(0.5, clock=clock), pytest.raises(sp.DeadlineExceeded):
        limiter.wait()
    assert clock.sleeps == []
    assert limiter.tokens() == 0


def test_wait_that_ends_with_the_deadline_is_refused_or_made_but_never_overshoots(
    clock: sp.testing.FakeClock,
) -> None:
    limiter = sp.Limiter(1, 1, clock=clock)
    limiter.allow()
    with sp.deadline(1.5, clock=clock):
        limiter.wait()
    assert clock.sleeps == [1.0]


def test_deadline_that_has_passed_takes_nothing(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 1, clock=clock)
    with sp.deadline(0, clock=clock), pytest.raises(sp.DeadlineExceeded):
        limiter.wait()
    assert limiter.tokens() == 1


def test_request_beyond_the_burst_is_refused_before_the_deadline_check(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 1, clock=clock)
    with sp.deadline(0, clock=clock), pytest.raises(sp.RateLimited):
        limiter.wait(2)


def test_wait_cut_off_in_a_thread_gives_its_tokens_back() -> None:
    class Cancelling(sp.testing.FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds / 2)
            scope.cancel()

    clock = Cancelling()
    limiter = sp.Limiter(1, 1, clock=clock)
    limiter.allow()
    with sp.deadline(None, clock=clock) as scope, pytest.raises(sp.Cancelled):
        limiter.wait()
    assert limiter.tokens() == 0.5


def test_interrupted_sleep_gives_its_tokens_back() -> None:
    class Interrupted(sp.testing.FakeClock):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    limiter = sp.Limiter(1, 1, clock=Interrupted())
    limiter.allow()
    with pytest.raises(KeyboardInterrupt):
        limiter.wait()
    assert limiter.tokens() == 0


@each_loop
def test_tasks_are_served_in_order_at_the_rate(loop: Loop) -> None:
    async def scenario() -> None:
        limiter = sp.Limiter(4, 2, clock=LoopClock(loop))
        served: list[tuple[int, float]] = []

        def worker(number: int) -> Any:
            async def work() -> None:
                await limiter.wait_async()
                served.append((number, loop.time()))

            return work

        for number in range(3):
            await limiter.wait_async()
            served.append((number, loop.time()))
        await loop.together(*[worker(number) for number in range(3, 7)])
        times = [at - served[0][1] for _, at in served]
        assert sorted(times) == pytest.approx([0, 0, 0.25, 0.5, 0.75, 1, 1.25], abs=1e-9)

    loop.run(scenario)


@each_loop
def test_cancelled_task_gives_its_tokens_back(loop: Loop) -> None:
    async def scenario() -> None:
        limiter = sp.Limiter(1, 1, clock=LoopClock(loop))
        await limiter.wait_async()
        began = loop.time()
        assert await loop.cut(0.25, limiter.wait_async)
        assert limiter.tokens() == pytest.approx(0.25)
        await limiter.wait_async()
        assert loop.time() - began == pytest.approx(1)

    loop.run(scenario)


@each_loop
def test_task_does_not_wait_past_its_deadline(loop: Loop) -> None:
    async def scenario() -> None:
        clock = LoopClock(loop)
        limiter = sp.Limiter(1, 1, clock=clock)
        limiter.allow()
        began = loop.time()
        with pytest.raises(sp.DeadlineExceeded):
            async with sp.deadline(0.5, clock=clock):
                await limiter.wait_async()
        assert loop.time() == began
        assert limiter.tokens() == 0

    loop.run(scenario)


# Sharing it.


@pytest.fixture
def busy_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(count: int, work: Any) -> None:
    start = threading.Barrier(count)

    def run() -> None:
        start.wait()
        work()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("busy_switching")
def test_threads_never_share_a_token() -> None:
    limiter = sp.Limiter(0, 100_000)
    admitted: list[int] = []
    in_threads(8, lambda: admitted.append(sum(limiter.allow() for _ in range(20_000))))
    assert sum(admitted) == 100_000
    assert limiter.tokens() == 0


@pytest.mark.usefixtures("busy_switching")
def test_threads_that_take_reserve_and_cancel_lose_nothing() -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(1.0, 40_000, clock=clock)
    taken: list[int] = []

    def work() -> None:
        mine = 0
        for turn in range(3000):
            mine += limiter.allow()
            if turn % 3 == 0:
                # Without a wait to come, what is cancelled at its own moment comes back whole.
                limiter.reserve(2).cancel()
        taken.append(mine)

    in_threads(8, work)
    assert limiter.tokens() == 40_000 - sum(taken)


# Making it.


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rate": -1}, "rate must be >= 0, got -1"),
        ({"rate": math.nan}, "rate must be a number, not NaN, got nan"),
        ({"rate": True}, "rate must be a number, got True"),
        ({"rate": "10"}, "rate must read like .*, got '10'"),
        ({"rate": "10/s", "burst": 5}, "burst must be part of the text"),
        ({"rate": 1, "rng": "dice"}, "rng must be"),
        ({"rate": 1, "burst": -1}, "burst must be >= 0, got -1"),
        ({"rate": 1, "burst": 1.5}, "burst must be a whole number, got 1.5"),
        ({"rate": 1, "clock": 5}, "clock must have now"),
    ],
)
def test_invalid_option_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        sp.Limiter(**options)


@pytest.mark.parametrize("n", [-1, 1.5, True, "1", None])
def test_invalid_number_of_tokens_is_refused(n: Any) -> None:
    limiter = sp.Limiter(1, 5)
    for method in (limiter.allow, limiter.reserve, limiter.wait):
        with pytest.raises((TypeError, ValueError), match="n must be"):
            method(n)
    assert limiter.tokens() == 5


@pytest.mark.parametrize("max_wait", [-1, math.nan, "1", True])
def test_invalid_max_wait_is_refused(max_wait: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="max_wait must be"):
        sp.Limiter(1, 5).reserve(1, max_wait)


def test_wait_may_be_a_timedelta(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 1, clock=clock)
    limiter.allow()
    assert not limiter.reserve(max_wait=timedelta(milliseconds=999)).ok
    assert limiter.reserve(max_wait=timedelta(seconds=1)).ok


def test_reservation_repr_shows_its_outcome(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(1, 3, clock=clock)
    assert repr(limiter.reserve(3)) == "<reservation of 3: ok>"
    assert repr(limiter.reserve(2, max_wait=1)) == "<reservation of 2: refused>"


def test_copy_is_full_and_on_its_own(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(2, 3, clock=clock)
    limiter.allow(3)
    for copy in (
        limiter.fresh(),
        pickle.loads(pickle.dumps(limiter)),
        eval(repr(limiter), {"Limiter": sp.Limiter}),
    ):
        assert (copy.rate, copy.burst, copy.tokens()) == (2, 3, 3)
    assert limiter.describe() == {"kind": "Limiter", "rate": 2.0, "burst": 3, "tokens": 0.0}


def test_limiter_takes_the_policys_clock_and_keeps_its_tokens(clock: sp.testing.FakeClock) -> None:
    limiter = sp.Limiter(0.001, 3)
    limiter.allow(2)
    limiter.use_clock(clock)
    assert limiter.tokens() == pytest.approx(1, abs=0.01)
    clock.advance(1000)
    assert limiter.tokens() == pytest.approx(2, abs=0.01)
    other = sp.testing.FakeClock()
    limiter.use_clock(other)
    assert limiter.clock is clock


def test_keyed_limiters_are_independent() -> None:
    limiters = sp.keyed(sp.Limiter(0, 1), limit=2)
    assert limiters["a"].allow() and not limiters["a"].allow()
    assert limiters["b"].allow()
