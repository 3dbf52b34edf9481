"""The bulkhead, at the stated bars: never more inside than places, first come first served, and every place
back after 10^5 random cancels and timeouts, of tasks in virtual time and of real threads.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.loops import Loop, each_loop, watchdog
from tests.support.sizes import sized

import stormproof as sp

__all__ = ["watchdog"]

Measured = Callable[[str], None]

#: Cancels and timeouts after which every place must be back.
CUTS = sized(100_000, 10_000)


@pytest.mark.proves("invariant 14")
@pytest.mark.sized
def test_all_places_are_back_after_many_cancels_and_timeouts_of_tasks(measured: Measured) -> None:
    """Calls end, fail, are cancelled inside or in the queue, and time out there: more than half of them."""
    rng = random.Random(11)
    bulkhead = sp.Bulkhead(4, queue=200, max_wait=0.5)
    inside = most = cut = ended = 0
    moments = [0.0, 0.25, 0.5, 0.75]

    @sp.Policy(bulkhead)
    async def call(seconds: float, fails: bool) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        try:
            await asyncio.sleep(seconds)
            if fails:
                raise ConnectionError
        finally:
            inside -= 1

    async def main(clock: Any) -> None:
        nonlocal cut, ended
        loop = asyncio.get_running_loop()
        while cut < CUTS:
            tasks = []
            for _ in range(204):
                # Whole quarters: cancels, timeouts and handovers meet at the very same moments.
                task = asyncio.ensure_future(call(rng.choice(moments), rng.random() < 0.2))
                if rng.random() < 0.5:
                    loop.call_later(rng.choice(moments), task.cancel)
                tasks.append(task)
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, asyncio.CancelledError | sp.BulkheadFull):
                    cut += 1
                else:
                    assert outcome is None or isinstance(outcome, ConnectionError)
                    ended += 1
            assert (bulkhead.in_use, bulkhead.queued) == (0, 0)

    sp.testing.run(main)
    assert most == 4
    assert ended > 0.03 * CUTS
    assert len(bulkhead._permits) == 4
    measured(f"{cut:,} cancels and timeouts among {cut + ended:,} calls of tasks, 4 of 4 places back")


@pytest.mark.proves("invariant 14")
@pytest.mark.sized
def test_all_places_are_back_after_many_cancels_and_timeouts_of_threads(measured: Measured) -> None:
    """6 threads wait microseconds at most while others hold the places; grants race with the time limit."""
    bulkhead = sp.Bulkhead(2, queue=64, max_wait=30e-6)
    policy = sp.Policy(bulkhead)
    lock = threading.Lock()
    inside = most = 0
    over = threading.Event()
    #: Per thread: timeouts of the queue, of a deadline, cancelled scopes, and calls that were made.
    ends = [[0, 0, 0, 0] for _ in range(6)]
    errors: list[BaseException] = []

    def work(turns: int) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        for _ in range(turns):
            # Others come to their turn while this one is inside.
            over.wait(0)
        with lock:
            inside -= 1

    def enough() -> bool:
        """The number of each end depends on the machine, so the threads go on until every kind was seen."""
        totals = [sum(end[kind] for end in ends) for kind in range(4)]
        return sum(totals[:3]) >= CUTS and min(totals) >= CUTS / 100

    def one(rng: random.Random, mine: list[int]) -> None:
        try:
            with sp.deadline(None if rng.random() < 0.4 else rng.random() * 50e-6) as scope:
                if rng.random() < 0.3:
                    scope.cancel()
                policy.call(work, rng.choice([0, 1, 5]))
            mine[3] += 1
        except sp.BulkheadFull:
            mine[0] += 1
        except sp.DeadlineExceeded:
            mine[1] += 1
        except sp.Cancelled:
            mine[2] += 1

    def run(number: int) -> None:
        rng = random.Random(number)
        mine = ends[number]
        try:
            while not over.is_set():
                one(rng, mine)
                if sum(mine) % 64 == 0 and enough():
                    over.set()
        except BaseException as error:
            errors.append(error)
            over.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    sys.setswitchinterval(before)
    assert not errors, errors
    assert not any(thread.is_alive() for thread in threads)
    assert enough()
    full, late, cancelled, _made = (sum(end[kind] for end in ends) for kind in range(4))
    assert most <= 2
    assert (bulkhead.in_use, bulkhead.queued, len(bulkhead._permits)) == (0, 0, 2)
    measured(
        f"{full + late:,} timeouts ({full:,} of the queue, {late:,} of deadlines) and {cancelled:,} cancels "
        f"of 6 threads, {most} inside at most, 2 of 2 places back"
    )


@pytest.mark.proves("invariant 14")
@each_loop
def test_thousand_queued_tasks_are_served_in_order(loop: Loop, measured: Measured) -> None:
    """Every third of them is called off while it waits, wherever it stands."""
    rng = random.Random(3)
    served: list[int] = []

    async def main() -> None:
        bulkhead = sp.Bulkhead(3, queue=1000)
        policy = sp.Policy(bulkhead)

        async def work(number: int) -> None:
            served.append(number)
            await loop.sleep(rng.random() / 10)

        def caller(number: int) -> Any:
            async def call() -> None:
                await loop.sleep(number / 64)
                if number % 3:
                    await policy.acall(work, number)
                else:
                    await loop.cut(rng.random() * 5, policy.acall, work, number)

            return call

        assert await loop.together(*[caller(number) for number in range(1000)]) == [None] * 1000
        assert (bulkhead.in_use, bulkhead.queued) == (0, 0)

    loop.run(main)
    assert served == sorted(served)
    assert 667 < len(served) < 1000
    measured(f"{len(served)} of 1,000 tasks served, 0 out of order")


@pytest.mark.proves("invariant 14")
@pytest.mark.usefixtures("watchdog")
def test_queued_threads_are_served_in_order(measured: Measured) -> None:
    """40 threads queue up one after the other behind one that is inside."""
    bulkhead = sp.Bulkhead(1, queue=64)
    policy = sp.Policy(bulkhead)
    served: list[int] = []
    go_on = threading.Event()
    first = threading.Thread(target=policy.call, args=(go_on.wait, 15), daemon=True)
    first.start()
    while bulkhead.in_use < 1:
        pass
    threads = []
    for number in range(40):
        thread = threading.Thread(target=policy.call, args=(served.append, number), daemon=True)
        thread.start()
        threads.append(thread)
        while bulkhead.queued <= number:
            # It stands in line before the next one comes.
            threading.Event().wait(0.0005)
    go_on.set()
    for thread in [first, *threads]:
        thread.join()
    assert served == list(range(40))
    assert bulkhead.in_use == 0
    measured(f"{len(served)} queued threads served, 0 out of order")
