"""Event loops that end, are closed, are replaced, or run side by side, with the same objects in all of them.

Nothing here belongs to a loop: policies, budgets, limiters and blocks work in each, one by one or at once.
"""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest
import trio
from tests.support.loops import Loop, each_loop
from tests.support.scripted import Boom, retry

import stormproof as sp

pytestmark = [pytest.mark.usefixtures("watchdog"), pytest.mark.proves("fault event-loops")]

SEQUENCES = [("asyncio", "asyncio"), ("trio", "trio"), ("asyncio", "trio"), ("trio", "asyncio")]
each_sequence = pytest.mark.parametrize("sequence", SEQUENCES, ids="-".join)


class Work:
    """One policy with all that it shares, used in every loop."""

    def __init__(self):
        self.budget = sp.Budget(burst=100)
        self.policy = retry(attempts=3, budget=self.budget, name="shared")
        self.limiter = sp.Limiter(1000, 1)
        self.block = self.policy.retrying()
        self.calls = 0
        self.decorated = self.policy(self.fail_twice)

    async def fail_twice(self):
        self.calls += 1
        if self.calls % 3:
            raise Boom
        return self.calls

    async def everything(self):
        """Each form of use once: 6 retries in all."""
        assert await self.decorated() % 3 == 0
        assert await self.policy.acall(self.fail_twice) % 3 == 0
        async for attempt in self.block:
            async with attempt:
                await self.fail_twice()
        await self.limiter.wait_async()
        with sp.deadline(60):
            await self.decorated()


# One after the other


@each_sequence
def test_objects_work_in_one_loop_after_the_other(sequence):
    work = Work()
    for name in sequence:
        before = work.budget.balance
        Loop(name).run(work.everything)
        assert before - work.budget.balance == pytest.approx(8, abs=1)
    assert work.calls == 24


@each_sequence
def test_objects_of_a_loop_that_died_work_in_the_next(sequence):
    """Its tasks were left waiting in a retry, a limiter and a deadline when it was given up."""
    work = Work()
    first, second = map(Loop, sequence)

    class GivenUp(Exception):
        pass

    async def hangs():
        with sp.deadline(1000):
            await retry(backoff=sp.Constant(500), budget=work.budget).acall(work.fail_twice)

    async def dies():
        async def bomb():
            await first.sleep(1)
            raise GivenUp

        if first.name == "trio":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hangs)
                nursery.start_soon(bomb)
        else:
            asyncio.ensure_future(hangs())  # noqa: RUF006 -- abandoned on purpose
            await bomb()

    with pytest.raises((GivenUp, ExceptionGroup)):
        first.run(dies)
    work.calls = 0
    second.run(work.everything)


# Closed loops


def test_scope_of_a_closed_loop_can_be_cancelled():
    kept = []

    async def main():
        scope = sp.deadline(60)
        scope.__enter__()  # never left: its task was destroyed with the loop
        kept.append(scope)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    kept[0].cancel()
    assert kept[0].cancelled


def test_scope_of_a_finished_trio_run_can_be_cancelled():
    kept = []

    async def main():
        with sp.deadline(60) as scope:
            kept.append(scope)

    trio.run(main)
    kept[0].cancel()
    assert kept[0].cancelled


def test_acall_without_an_event_loop_raises():
    coroutine = retry().acall(_fails)
    with pytest.raises(RuntimeError, match="asyncio or trio"):
        coroutine.send(None)
    coroutine.close()


async def _fails():
    raise Boom


def test_retry_abandoned_in_its_wait_by_a_closed_loop():
    """The coroutine is destroyed by the garbage collector, outside any loop: GeneratorExit and no more."""
    budget = sp.Budget()
    calls = 0

    async def call():
        nonlocal calls
        calls += 1
        raise Boom

    async def main():
        # Only the coroutine is driven: no task that the loop could cancel at its end.
        coroutine = retry(backoff=sp.Constant(1000), budget=budget).acall(call)
        future = coroutine.send(None)
        return coroutine, future

    loop = asyncio.new_event_loop()
    coroutine, future = loop.run_until_complete(main())
    loop.close()
    coroutine.close()
    del coroutine, future
    gc.collect()
    assert calls == 1
    assert budget.balance == sp.Budget().burst - 1
    assert sp.attempt() is None


# Side by side


def in_threads(*runs):
    failures = []

    def guarded(run):
        try:
            run()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_four_loops_and_a_thread_share_everything():
    budget = sp.Budget(burst=1000)
    limiter = sp.Limiter(1e6, 1)
    policy = sp.retry(on=Boom, attempts=3, backoff=sp.Constant(0), budget=budget, name="everywhere")
    block = policy.retrying()
    meet = threading.Barrier(5)
    done = []

    def fails_until_third():
        if sp.attempt().number < 3:
            raise Boom
        return sp.attempt().number

    async def body():
        return fails_until_third()

    async def use():
        meet.wait(10)
        for _ in range(20):
            done.append(await policy.acall(body))
            async for attempt in block:
                async with attempt:
                    fails_until_third()
            await limiter.wait_async()

    def use_sync():
        meet.wait(10)
        for _ in range(20):
            done.append(policy.call(fails_until_third))
            for attempt in block:
                with attempt:
                    fails_until_third()
            limiter.wait()

    in_threads(
        lambda: asyncio.run(use()),
        lambda: asyncio.run(use()),
        lambda: trio.run(use),
        lambda: trio.run(use),
        use_sync,
    )
    assert done == [3] * 100
    # 200 calls with 2 retries each, and a tenth of a retry earned by each success.
    assert budget.balance == pytest.approx(1000 - 400 + 20)


@each_loop
def test_scope_of_one_loop_is_cancelled_from_another_thread(loop):
    entered = threading.Event()
    scopes = []

    async def main():
        # In real time: the other thread is not in the loop's virtual one.
        with sp.deadline(None) as scope:
            scopes.append(scope)
            entered.set()
            await retry(backoff=sp.Constant(15)).acall(_fails)

    def cancel():
        assert entered.wait(10)
        scopes[0].cancel()

    def run():
        with pytest.raises(sp.Cancelled):
            asyncio.run(main()) if loop.name == "asyncio" else trio.run(main)

    in_threads(run, cancel)


@each_loop
def test_scope_entered_outside_the_loop_bounds_what_runs_inside(loop):
    clock = sp.testing.FakeClock()
    calls = []

    async def call():
        calls.append(clock.now())
        raise Boom

    policy = retry(attempts=None, within=1000, backoff=sp.Constant(2), clock=clock)
    with sp.deadline(5, clock=clock), pytest.raises(sp.DeadlineExceeded):
        loop.run(policy.acall, call)
    assert calls == [0, 2, 4]


@each_loop
def test_tasks_of_one_loop_do_not_share_a_scope(loop):
    async def bounded():
        with sp.deadline(5):
            await loop.sleep(60)

    async def unbounded():
        await loop.sleep(30)
        assert sp.remaining() is None
        return loop.time()

    async def scenario():
        cut, whole = await loop.together(bounded, unbounded)
        assert isinstance(cut, sp.DeadlineExceeded)
        assert whole == 30

    loop.run(scenario)


def test_sync_policy_inside_a_running_loop_leaves_its_task_alive():
    """Blocking, and so rarely wise; but it must work, and its deadline must not cancel the task around it."""

    async def main():
        with sp.testing.instant():
            with pytest.raises(Boom):
                retry().call(_fails_sync)
            with pytest.raises(sp.DeadlineExceeded), sp.deadline(0.5):
                retry().call(_fails_sync)
        await asyncio.sleep(0.01)
        return "alive"

    def _fails_sync():
        raise Boom

    assert asyncio.run(main()) == "alive"


def test_worker_threads_of_a_loop_see_its_deadline():
    async def main():
        with sp.deadline(60):
            return await asyncio.to_thread(sp.remaining)

    assert 0 < asyncio.run(main()) <= 60

    async def in_trio():
        with sp.deadline(60):
            return await trio.to_thread.run_sync(sp.remaining)

    assert 0 < trio.run(in_trio) <= 60
