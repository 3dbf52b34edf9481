"""Calls on a bulkhead are cancelled, time out and lose their loop at random: every place comes back."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest
import trio

import stormproof as sp

pytestmark = pytest.mark.usefixtures("watchdog")


@pytest.mark.parametrize("seed", range(4))
def test_permits_come_back_after_many_random_cancels(seed: int) -> None:
    """10,000 calls in all: some end, some fail, some are cancelled inside or in the queue, some time out."""
    rng = random.Random(seed)
    bulkhead = sp.Bulkhead(4, queue=40, max_wait=1)
    inside = most = 0

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

    async def main(clock: Any) -> dict[str, int]:
        ends: dict[str, int] = {}
        tasks = []
        for _ in range(2500):
            task = asyncio.ensure_future(call(rng.random(), rng.random() < 0.2))
            tasks.append(task)
            if rng.random() < 0.5:
                # Whole quarters: many of these meet a handover at the very same moment.
                clock_at = rng.choice([0, 0, 0.25, 0.5, 1])
                asyncio.get_running_loop().call_later(clock_at, task.cancel)
            await asyncio.sleep(rng.choice([0, 0, 0.05, 0.1]))
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            name = type(outcome).__name__
            ends[name] = ends.get(name, 0) + 1
        return ends

    ends = sp.testing.run(main)
    assert set(ends) == {"NoneType", "ConnectionError", "CancelledError", "BulkheadFull"}
    assert most == 4
    assert (bulkhead.in_use, bulkhead.queued) == (0, 0)


def test_place_handed_to_a_task_cancelled_at_that_moment_is_passed_on() -> None:
    bulkhead = sp.Bulkhead(1, queue=2)
    policy = sp.Policy(bulkhead)

    async def main(clock: Any) -> None:
        first = asyncio.ensure_future(policy.acall(asyncio.sleep, 1))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(policy.acall(asyncio.sleep, 1))
        await asyncio.sleep(0)
        third = asyncio.ensure_future(policy.acall(asyncio.sleep, 1))
        await asyncio.sleep(0)
        first.add_done_callback(lambda _: second.cancel())
        await asyncio.wait([first, second, third])
        assert second.cancelled() or second.done()
        assert third.exception() is None

    sp.testing.run(main)
    assert (bulkhead.in_use, bulkhead.queued) == (0, 0)


def test_bulkhead_serves_threads_asyncio_and_trio_together() -> None:
    bulkhead = sp.Bulkhead(2, queue=100)
    policy = sp.Policy(bulkhead)
    lock = threading.Lock()
    inside = most = done = 0

    def enter() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)

    def leave() -> None:
        nonlocal inside, done
        with lock:
            inside -= 1
            done += 1

    def work() -> None:
        enter()
        leave()

    async def awork(pause: Any) -> None:
        enter()
        await pause(0)
        leave()

    def in_thread() -> None:
        for _ in range(50):
            policy.call(work)

    def in_asyncio() -> None:
        async def main() -> None:
            await asyncio.gather(*(policy.acall(awork, asyncio.sleep) for _ in range(20)))

        asyncio.run(main())

    def in_trio() -> None:
        async def main() -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(policy.acall, awork, trio.sleep)

        trio.run(main)

    threads = [
        threading.Thread(target=target, daemon=True)
        for target in (in_thread, in_thread, in_asyncio, in_asyncio, in_trio)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert done == 2 * 50 + 3 * 20
    assert most <= 2
    assert (bulkhead.in_use, bulkhead.queued) == (0, 0)


@pytest.mark.filterwarnings("ignore")
def test_loop_closed_while_its_task_waits_does_not_keep_the_place() -> None:
    bulkhead = sp.Bulkhead(1, queue=3)
    policy = sp.Policy(bulkhead)
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        assert go_on.wait(10)

    holder = threading.Thread(target=policy.call, args=(hold,), daemon=True)
    holder.start()
    assert inside.wait(10)

    async def main() -> None:
        waiter = asyncio.ensure_future(policy.acall(asyncio.sleep, 0))
        await asyncio.sleep(0)
        assert bulkhead.queued == 1
        assert not waiter.done()

    # asyncio.run cancels what still waits, then closes the loop.
    asyncio.run(main())
    assert bulkhead.queued == 0
    go_on.set()
    holder.join(30)
    assert policy.call(lambda: "free") == "free"
    assert bulkhead.in_use == 0
