"""The limiter, at the stated bars: every window, the order of waiters, and what comes back.

Tasks run in virtual time; threads sleep on a clock that the test moves, so nothing here is a matter of luck.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from tests.support.loop_clock import LoopClock
from tests.support.loops import Loop, each_loop, watchdog
from tests.support.sizes import sized

import stormproof as sp

__all__ = ["watchdog"]

Measured = Callable[[str], None]
Maker = Callable[..., Any]

each_maker = pytest.mark.parametrize("make", [sp.Limiter, sp.Pacer], ids=["limiter", "pacer"])


def worst_window(admitted: list[tuple[float, int]], rate: float) -> float:
    """The largest ``tokens - rate * w`` of all windows [t, t + w] that begin and end with an admission."""
    worst = -math.inf
    taken, least = 0, math.inf
    for at, n in admitted:
        # A window that begins here, or with any earlier one, and ends here.
        least = min(least, taken - rate * at)
        taken += n
        worst = max(worst, taken - rate * at - least)
    return worst


def test_windows_are_counted_as_stated() -> None:
    """The short way to the worst window is the long one's: all pairs."""
    rng = random.Random(1)
    times = sorted(rng.choice([0, 1, 1.5, 2]) * rng.random() * 10 for _ in range(60))
    admitted = [(at, rng.randint(1, 3)) for at in times]
    pairs = (
        sum(n for _, n in admitted[i : j + 1]) - 2.0 * (admitted[j][0] - admitted[i][0])
        for i in range(60)
        for j in range(i, 60)
    )
    assert worst_window(admitted, 2.0) == pytest.approx(max(pairs))


# 14: in every window [t, t + w] admitted <= burst + rate w + 1.


@pytest.mark.proves("invariant 14")
@each_loop
@each_maker
@pytest.mark.parametrize(("rate", "burst"), [(0.7, 1), (10.0, 5), (1000 / 7, 40)])
def test_no_window_admits_more_than_allowed_under_random_tasks(
    loop: Loop, make: Maker, rate: float, burst: int, measured: Measured
) -> None:
    """1,500 tasks ask at once, wait, are cancelled at random and leave the line at any place of it."""
    rng = random.Random(f"{rate} {burst} {loop}")
    admitted: list[tuple[float, int]] = []
    cancelled = 0

    async def main() -> None:
        limiter = make(rate, burst, clock=LoopClock(loop))

        def caller() -> Any:
            arrives = rng.random() * 500 / rate
            patience = rng.expovariate(rate / 30) if rng.random() < 0.6 else math.inf
            asks = rng.random() < 0.3
            # A pacer's call of cost 3 starts like any other, and the next one waits for it.
            n = rng.randint(1, min(burst, 3)) if make is sp.Limiter else 1

            async def wait() -> None:
                await limiter.wait_async(n)
                admitted.append((loop.time(), n))

            async def call() -> None:
                nonlocal cancelled
                # Many come at the same moment: bursts are where a limit is broken.
                await loop.sleep(math.floor(arrives * rate / 50) * 50 / rate)
                if asks:
                    if limiter.allow(n):
                        admitted.append((loop.time(), n))
                elif math.isinf(patience):
                    await wait()
                else:
                    cut = await loop.cut(patience, wait)
                    cancelled += cut

            return call

        outcomes = await loop.together(*[caller() for _ in range(1500)])
        assert outcomes == [None] * 1500

    loop.run(main)
    worst = worst_window(admitted, rate)
    assert worst <= burst + 1
    assert len(admitted) > 300
    assert cancelled > 100
    measured(
        f"{make.__name__} {rate:.4g}/s burst {burst}: {len(admitted)} admitted, {cancelled} cancelled, "
        f"worst window {worst:.3f} over rate * w"
    )


@pytest.mark.proves("invariant 14")
@pytest.mark.usefixtures("watchdog", "tiny_turns")
@each_maker
def test_no_window_admits_more_than_allowed_under_threads(make: Maker, measured: Measured) -> None:
    """16 threads ask for 1 to 3 tokens while the clock moves; what they get is written down."""
    rate, burst = 50.0, 10
    clock = sp.testing.FakeClock()
    limiter = make(rate, burst, clock=clock)
    rounds, threads_count = 150, 16
    meeting = threading.Barrier(threads_count)
    given: list[tuple[float, int]] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for number in range(rounds):
            if meeting.wait() == 0:
                clock.advance(random.Random(number).choice([0.0, 0.01, 0.05, 0.3]))
            meeting.wait()
            for _ in range(5):
                n = rng.randint(1, 3) if make is sp.Limiter else 1
                if limiter.allow(n):
                    given.append((clock.now(), n))
                elif rng.random() < 0.3:
                    limiter.reserve(n, 0.0).cancel()

    in_threads(threads_count, work)
    worst = worst_window(sorted(given), rate)
    assert worst <= burst + 1
    assert sum(n for _, n in given) > burst + 100
    asked = threads_count * rounds * 5
    measured(
        f"{make.__name__}: {asked:,} asks in 16 threads, worst window {worst:.3f} over rate * w, burst 10"
    )


@pytest.fixture
def tiny_turns() -> Iterator[None]:
    """Threads change places as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# 14: FIFO.


@pytest.mark.proves("invariant 14")
@each_loop
@each_maker
def test_thousand_waiting_tasks_are_served_in_order_of_arrival(
    loop: Loop, make: Maker, measured: Measured
) -> None:
    """Every third of them is called off while it waits, wherever it stands."""
    rng = random.Random(3)
    served: list[int] = []

    async def main() -> None:
        limiter = make(10, 3, clock=LoopClock(loop))

        def caller(number: int) -> Any:
            async def wait() -> None:
                await limiter.wait_async()
                served.append(number)

            async def call() -> None:
                await loop.sleep(number / 64)
                if number % 3:
                    await wait()
                else:
                    await loop.cut(rng.random() * 20, wait)

            return call

        assert await loop.together(*[caller(number) for number in range(1000)]) == [None] * 1000

    loop.run(main)
    assert served == sorted(served)
    assert len(served) > 667
    measured(f"{make.__name__}: {len(served)} of 1,000 tasks served, 0 out of order")


@pytest.mark.proves("invariant 14")
@pytest.mark.usefixtures("watchdog", "tiny_turns")
@each_maker
def test_threads_are_granted_tokens_in_order(make: Maker) -> None:
    """A later asker never gets an earlier time than an earlier one: 16 threads, 3,200 places."""
    clock = sp.testing.FakeClock()
    limiter = make(10, 3, clock=clock)
    turns: list[tuple[float, int]] = []
    order = threading.Lock()

    def work(seed: int) -> None:
        for _ in range(200):
            # Held by the test, so that "asked before" has a meaning between threads.
            with order:
                turns.append((limiter.reserve().delay, len(turns)))

    in_threads(16, work)
    delays = [delay for delay, _ in turns]
    assert delays == sorted(delays)
    assert delays[-1] == pytest.approx((3200 - 3) / 10)


# 14: permits back to the initial count after 10^5 random cancels and timeouts.


@pytest.mark.proves("invariant 14")
@pytest.mark.sized
@pytest.mark.parametrize(
    ("make", "waves"), [(sp.Limiter, sized(500, 50)), (sp.Pacer, sized(25, 5))], ids=["limiter", "pacer"]
)
def test_all_tokens_are_back_after_many_cancelled_tasks(make: Maker, waves: int, measured: Measured) -> None:
    """Waves of 200 tasks: cancelled, timed out by asyncio or by a scope of Stormproof, in any order."""
    rng = random.Random(7)
    ends: dict[str, int] = {}

    async def main(clock: Any) -> list[float]:
        # Too slow to serve a waiter while a wave lasts: nothing hides behind a refill.
        limiter = make(1e-7, 4)
        for _ in range(4):
            assert limiter.allow()
        owed = [limiter.tokens()]

        async def wait(kind: str, after: float) -> None:
            try:
                if kind == "timeout":
                    async with asyncio.timeout(after):
                        await limiter.wait_async()
                elif kind == "scope":
                    with sp.deadline(None) as scope:
                        asyncio.get_running_loop().call_later(after, scope.cancel)
                        await limiter.wait_async()
                else:
                    await limiter.wait_async()
            except BaseException as error:
                ends[type(error).__name__] = ends.get(type(error).__name__, 0) + 1
                raise

        for _ in range(waves):
            tasks = []
            for _ in range(200):
                kind = rng.choices(["cancel", "timeout", "scope"], [8, 1, 1])[0]
                after = rng.choice([0.0, 0.25, 0.5, 0.75, 1.0])
                task = asyncio.ensure_future(wait(kind, after))
                if kind == "cancel":
                    asyncio.get_running_loop().call_later(after, task.cancel)
                tasks.append(task)
            await asyncio.gather(*tasks, return_exceptions=True)
            owed.append(limiter.tokens())
        return owed

    owed = sp.testing.run(main)
    assert sum(ends.values()) == waves * 200
    assert set(ends) == {"CancelledError", "TimeoutError", "Cancelled"}
    # At most 500 s have passed, which are 5e-5 tokens.
    off = max(abs(level - owed[0]) for level in owed)
    assert off <= 1e-4
    measured(
        f"{make.__name__}: {sum(ends.values()):,} cancels and timeouts of tasks, "
        f"{off:.5f} tokens off (refill included)"
    )


class Cut(Exception):
    """The wait was cut off."""


class Shears(sp.testing.FakeClock):
    """Every sleep on it is cut off, some of them in the middle."""

    def sleep(self, seconds: float) -> None:
        raise Cut if random.random() < 0.5 else TimeoutError


@pytest.mark.proves("invariant 14")
@pytest.mark.sized
@pytest.mark.usefixtures("watchdog", "tiny_turns")
@each_maker
def test_all_tokens_are_back_after_many_cut_off_threads(make: Maker, measured: Measured) -> None:
    """20 threads, each wait cut off or timed out; others stand in line meanwhile."""
    waits = sized(5_000, 500)
    limiter = make(1, 50, clock=Shears())
    for _ in range(50):
        assert limiter.allow()
    cut = [0] * 20

    def work(seed: int) -> None:
        for _ in range(waits):
            try:
                limiter.wait()
            except (Cut, TimeoutError):
                cut[seed] += 1

    in_threads(20, work)
    assert sum(cut) == 20 * waits
    assert limiter.tokens() == pytest.approx(0, abs=1e-6)
    assert limiter.reserve().delay == pytest.approx(1)
    measured(f"{make.__name__}: {sum(cut):,} cut-off waits of 20 threads, 0 tokens missing")


@pytest.mark.proves("invariant 14")
@each_loop
@each_maker
def test_limiter_is_full_again_after_served_and_cancelled_waits(loop: Loop, make: Maker) -> None:
    """Mixed: after a quiet time the initial count is there, and not one token more."""
    rng = random.Random(5)

    async def main() -> None:
        limiter = make(100, 8, clock=LoopClock(loop))

        def caller() -> Any:
            async def call() -> None:
                await loop.sleep(rng.random() * 10)
                with contextlib.suppress(sp.DeadlineExceeded):
                    if rng.random() < 0.5:
                        await loop.cut(rng.random() / 10, limiter.wait_async)
                    else:
                        with sp.deadline(rng.random()):
                            await limiter.wait_async()

            return call

        await loop.together(*[caller() for _ in range(2000)])
        owed = limiter.burst - limiter.tokens()
        await loop.sleep(max(0.0, owed) / limiter.rate + 1e-9)
        assert limiter.tokens() == pytest.approx(8)
        assert [limiter.allow() for _ in range(9)] == [True] * 8 + [False]

    loop.run(main)


def test_trio_cancels_give_back_every_token() -> None:
    """The waves of above with trio's own cancel scopes; 5,000 of them."""
    rng = random.Random(9)

    async def main() -> None:
        limiter = sp.Limiter(1e-6, 4, clock=LoopClock(Loop("trio")))
        assert limiter.allow(4)

        async def wait() -> None:
            with trio.move_on_after(rng.choice([0.0, 0.25, rng.random()])):
                await limiter.wait_async()

        for _ in range(5):
            async with trio.open_nursery() as nursery:
                for _ in range(1000):
                    nursery.start_soon(wait)
            assert limiter.tokens() == pytest.approx(0, abs=1e-4)

    Loop("trio").run(main)
