"""`sp.Worker`: every job that was taken is settled exactly once, whatever happens."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import contextvars
import logging
import os
import pickle
import queue
import random
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import trio
import trio.testing
from tests.support.loops import watchdog
from tests.support.polling import eventually
from tests.support.scripted import Bang, Boom, retry

import stormproof as sp
from stormproof._context import deadlines
from stormproof._context.deadlines import check
from stormproof._programs.worker import Stats, Worker
from stormproof._programs.worker_run import WorkerStopped

__all__ = ["watchdog"]

pytestmark = pytest.mark.usefixtures("watchdog")


class Letters:
    """A dead-letter box."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, BaseException]] = []

    def __call__(self, job: Any, error: BaseException) -> None:
        self.all.append((job, error))

    @property
    def jobs(self) -> list[Any]:
        return sorted(job for job, _ in self.all)

    @property
    def kinds(self) -> set[type]:
        return {type(error) for _, error in self.all}


class Mode:
    """A way to run a worker. ``handler`` is a plain function; async modes wrap it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def make(self, handler: Callable[[Any], Any], **options: Any) -> Worker:
        if "threads" in self.name:
            return Worker(handler, **options)

        async def handle(job: Any) -> Any:
            return handler(job)

        return Worker(handle, **options)

    def run(self, worker: Worker, jobs: Any) -> Stats:
        if self.name == "threads":
            return worker.run(jobs)
        if self.name == "trio":
            return trio.run(worker.run_async, jobs)
        return asyncio.run(worker.run_async(jobs))

    def __call__(self, handler: Callable[[Any], Any], jobs: Any, **options: Any) -> Stats:
        return self.run(self.make(handler, **options), jobs)


MODES = [Mode("threads"), Mode("asyncio"), Mode("trio"), Mode("threads in asyncio")]
each_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)


# Jobs that go well, and jobs that do not.


@each_mode
def test_every_job_is_handled_once(mode: Mode) -> None:
    seen: list[int] = []
    stats = mode(seen.append, range(100))
    assert sorted(seen) == list(range(100))
    assert stats == Stats(taken=100, succeeded=100)
    assert stats.running == 0


@each_mode
def test_failed_job_goes_to_the_dead_letters_and_the_worker_continues(mode: Mode) -> None:
    letters = Letters()
    seen: list[int] = []
    bang = Bang()

    def handle(job: int) -> None:
        if job == 3:
            raise bang
        seen.append(job)

    stats = mode(handle, range(10), dead_letter=letters, concurrency=2)
    assert letters.all == [(3, bang)]
    assert sorted(seen) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert stats == Stats(taken=10, succeeded=9, failed=1)


class Odd(BaseException):
    """Not an Exception, and nothing that any library knows."""


@each_mode
@pytest.mark.parametrize(
    "poison",
    [
        SystemExit(1),
        Odd(),
        MemoryError(),
        asyncio.CancelledError(),
        ExceptionGroup("two at once", [Boom(), ExceptionGroup("and more", [Bang()])]),
        BaseExceptionGroup("two at once", [Boom(), Odd()]),
    ],
    ids=repr,
)
def test_poisonous_job_does_not_kill_the_worker(mode: Mode, poison: BaseException) -> None:
    letters = Letters()

    def handle(job: int) -> None:
        if job % 2:
            raise poison

    stats = mode(handle, range(10), dead_letter=letters, concurrency=2)
    assert stats == Stats(taken=10, succeeded=5, failed=5)
    assert all(error is poison for _, error in letters.all)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("mode", [Mode("asyncio"), Mode("trio")], ids=lambda mode: mode.name)
def test_interrupt_inside_a_coroutine_ends_the_run_and_its_job_is_handed_over(
    mode: Mode, wrapped: bool
) -> None:
    interrupt = KeyboardInterrupt()
    torn = BaseExceptionGroup("from a task group", [Boom(), interrupt]) if wrapped else interrupt
    letters = Letters()

    def handle(job: int) -> None:
        if job == 2:
            raise torn

    worker = mode.make(handle, dead_letter=letters, concurrency=1)
    if mode.name == "asyncio":
        with pytest.raises(KeyboardInterrupt):
            mode.run(worker, range(5))
    else:
        # As trio does with whatever a task raises.
        with pytest.raises(BaseExceptionGroup) as caught:
            mode.run(worker, range(5))
        assert caught.group_contains(KeyboardInterrupt)
    ((job, error),) = letters.all
    assert job == 2 and isinstance(error, WorkerStopped) and error.__cause__ is torn
    assert worker.stats == Stats(taken=3, succeeded=2, unfinished=1)


@each_mode
def test_jobs_are_retried_by_the_policy(mode: Mode) -> None:
    letters = Letters()
    tries: list[int] = []

    def handle(job: int) -> None:
        tries.append(job)
        if job == 1 or tries.count(job) < 3:
            raise Boom

    with sp.testing.instant():
        stats = mode(handle, range(3), policy=retry(attempts=3), dead_letter=letters)
    assert sorted(tries) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert stats == Stats(taken=3, succeeded=2, failed=1)
    assert letters.jobs == [1] and letters.kinds == {Boom}


@each_mode
def test_worker_runs_at_most_concurrency_jobs_at_once(mode: Mode) -> None:
    lock = threading.Lock()
    running = peak = 0

    async def count_async(job: int) -> None:
        enter()
        while job < 5 and peak < 5:
            await (trio.sleep if mode.name == "trio" else asyncio.sleep)(0)
        leave()

    def enter() -> None:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)

    def leave() -> None:
        nonlocal running
        with lock:
            running -= 1

    def count(job: int) -> None:
        enter()
        if job < 5:
            # Passes only if five are inside at once.
            together.wait(10)
        leave()

    together = threading.Barrier(5)
    worker = Worker(count if "threads" in mode.name else count_async, concurrency=5)
    assert mode.run(worker, range(50)).succeeded == 50
    assert peak == 5


@each_mode
def test_events_describe_the_run(mode: Mode) -> None:
    seen: list[Any] = []
    stop = sp.subscribe(seen.append)

    def handle(job: int) -> None:
        if job:
            raise Bang

    try:
        mode(handle, [0, 1], dead_letter=Letters(), name="mail", concurrency=1)
    finally:
        stop()
    assert [event.as_dict() for event in seen] == [
        {"event": "JobEnded", "operation": "mail", "outcome": "succeeded", "error": None},
        {
            "event": "JobEnded",
            "operation": "mail",
            "outcome": "failed",
            "error": "tests.support.scripted.Bang",
        },
    ]


# Callbacks.


@each_mode
def test_failed_dead_letter_is_logged_and_the_worker_continues(
    mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    def bury(job: int, error: BaseException) -> None:
        raise OSError("secret")

    def handle(job: int) -> None:
        if job == 1:
            raise Bang("secret")

    stats = mode(handle, range(3), dead_letter=bury, name="mail")
    assert stats == Stats(taken=3, succeeded=2, failed=1, undelivered=1)
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert line.startswith("mail: dead_letter failed") and "OSError" in line
    assert "secret" not in line


@each_mode
def test_without_a_dead_letter_a_failure_is_logged(mode: Mode, caplog: pytest.LogCaptureFixture) -> None:
    def handle(job: int) -> None:
        raise Bang("secret")

    stats = mode(handle, [1], name="mail")
    assert stats == Stats(taken=1, failed=1, undelivered=1)
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert line.startswith("mail: a job failed for good") and "Bang in " in line
    assert "secret" not in line


@pytest.mark.parametrize("silenced", [False, True])
def test_failure_is_seen_even_when_logging_is_not_set_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, silenced: bool
) -> None:
    """Unless the program has switched off even the standard library's own last resort."""
    if silenced:
        monkeypatch.setattr(logging, "lastResort", None)
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    ours = logging.getLogger("stormproof")
    null = logging.NullHandler()
    ours.addHandler(null)
    try:
        assert Worker(lambda job: 1 / 0, name="mail").run([1]).undelivered == 1
    finally:
        root.handlers = before
        ours.removeHandler(null)
    assert ("mail: a job failed for good" in capsys.readouterr().err) is not silenced


def test_callbacks_may_be_async() -> None:
    letters: list[Any] = []

    async def bury(job: int, error: BaseException) -> None:
        await asyncio.sleep(0)
        letters.append((job, type(error)))
        if job == 2:
            raise OSError

    def handle(job: int) -> None:
        raise Bang

    # run() with a plain handler: the callback decides that it needs an event loop.
    stats = Worker(handle, dead_letter=bury, concurrency=1).run([1, 2])
    assert letters == [(1, Bang), (2, Bang)]
    assert stats == Stats(taken=2, failed=2, undelivered=1)


def test_async_result_of_a_sync_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def bury() -> None: ...

    def handle(job: int) -> None:
        raise Bang

    stats = Worker(handle, dead_letter=lambda job, error: bury()).run([1])
    assert stats == Stats(taken=1, failed=1, undelivered=1)
    assert "TypeError" in caplog.text


def test_awaitable_result_of_a_sync_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Promise:
        """To be awaited, and no coroutine: there is nothing to close."""

        def __await__(self) -> Iterator[None]:
            yield

    def handle(job: int) -> None:
        raise Bang

    stats = Worker(handle, dead_letter=lambda job, error: Promise()).run([1])
    assert stats == Stats(taken=1, failed=1, undelivered=1)
    assert "dead_letter failed, and a job is lost with it: TypeError" in caplog.text


# Where jobs come from.


class Plain:
    """The least that is a queue: it can neither time out nor be asked."""

    def __init__(self, *jobs: Any) -> None:
        self.jobs = list(jobs)
        self.settled = 0

    def get(self) -> Any:
        return self.jobs.pop(0)

    def task_done(self) -> None:
        self.settled += 1


def fill(made: Any, jobs: Any) -> Any:
    for job in jobs:
        made.put(job)
    return made


@each_mode
@pytest.mark.parametrize("make", [queue.Queue, queue.LifoQueue, queue.SimpleQueue])
def test_worker_drains_every_kind_of_queue(mode: Mode, make: Callable[[], Any]) -> None:
    jobs = fill(make(), range(20))
    seen: list[int] = []

    def handle(job: int) -> None:
        seen.append(job)
        if len(seen) == 20:
            worker.stop()
        if job == 7:
            raise Bang

    worker = mode.make(handle, dead_letter=Letters())
    stats = mode.run(worker, jobs)
    assert sorted(seen) == list(range(20))
    assert stats.taken == 20 and stats.failed == 1
    assert getattr(jobs, "unfinished_tasks", 0) == 0


@pytest.mark.parametrize("plain", [False, True])
def test_worker_drains_an_asyncio_queue(plain: bool) -> None:
    async def handle_async(job: int) -> None:
        handle(job)

    seen: list[int] = []

    def handle(job: int) -> None:
        seen.append(job)
        if job == 19:
            worker.stop()

    worker = Worker(handle if plain else handle_async, concurrency=1)

    async def main() -> None:
        jobs: asyncio.Queue[int] = asyncio.Queue()
        for job in range(25):
            jobs.put_nowait(job)
        await worker.run_async(jobs)
        assert jobs.qsize() == 5
        assert jobs._unfinished_tasks == 5  # type: ignore[attr-defined]

    asyncio.run(main())
    assert seen == list(range(20))


def test_run_accepts_async_sources_and_handlers() -> None:
    async def jobs() -> AsyncIterator[int]:
        for job in range(5):
            await asyncio.sleep(0)
            yield job

    seen: list[int] = []
    assert Worker(seen.append).run(jobs()) == Stats(taken=5, succeeded=5)
    assert sorted(seen) == list(range(5))

    async def handle(job: int) -> None:
        seen.append(job)

    assert Worker(handle).run([7, 8]).succeeded == 2


def test_worker_drains_a_trio_channel() -> None:
    seen: list[int] = []

    async def main() -> Stats:
        send, receive = trio.open_memory_channel[int](3)
        async with trio.open_nursery() as nursery:

            async def produce() -> None:
                async with send:
                    for job in range(20):
                        await send.send(job)

            nursery.start_soon(produce)
            return await Mode("trio").make(seen.append).run_async(receive)

    assert trio.run(main).succeeded == 20
    assert sorted(seen) == list(range(20))


@pytest.mark.parametrize("mode", MODES[1:], ids=lambda mode: mode.name)
def test_empty_plain_queue_is_asked_again(mode: Mode) -> None:
    """Under an event loop, which goes on meanwhile."""

    class Slow(queue.SimpleQueue[int]):
        """Has its job when it is asked for the third time."""

        asked = 0

        def get_nowait(self) -> int:
            self.asked += 1
            if self.asked < 3:
                raise queue.Empty
            return self.asked

    seen: list[int] = []

    def handle(job: int) -> None:
        seen.append(job)
        worker.stop()

    worker = mode.make(handle, concurrency=1)
    assert mode.run(worker, Slow()) == Stats(taken=1, succeeded=1)
    assert seen == [3]


def test_queue_with_an_unreadable_signature_is_asked_with_a_timeout() -> None:
    """As one written in C may be: it must not keep the worker from being stopped."""
    timeouts: list[float] = []

    class Get:
        @property
        def __signature__(self) -> Any:
            raise ValueError("no signature found")

        def __call__(self, timeout: float) -> int:
            timeouts.append(timeout)
            worker.stop()
            raise queue.Empty

    class Compiled:
        get = Get()

        def task_done(self) -> None:
            raise AssertionError("it gave no job")

    worker = Worker(lambda job: None, concurrency=1)
    assert worker.run(Compiled()) == Stats()
    assert len(timeouts) == 1 and timeouts[0] > 0


@pytest.mark.parametrize("mode", [Mode("asyncio"), Mode("trio")], ids=lambda mode: mode.name)
def test_source_whose_own_scope_is_cancelled_has_failed(mode: Mode) -> None:
    """It is not the worker's stop, which would end the run as if all had been done."""
    seen: list[int] = []

    async def jobs() -> AsyncIterator[int]:
        yield 1
        with sp.deadline(None, "the subscription") as scope:
            scope.cancel()
            deadlines.check()

    worker = mode.make(seen.append, concurrency=1)
    with pytest.raises(sp.Cancelled, match="'the subscription' was cancelled"):
        mode.run(worker, jobs())
    assert seen == [1]
    assert worker.stats == Stats(taken=1, succeeded=1)


def test_unknown_event_loop_is_refused() -> None:
    run = Worker(lambda job: None).run_async([1])
    with pytest.raises(RuntimeError, match=r"run_async\(\) runs under asyncio or trio"):
        run.send(None)


def test_queue_with_only_get_is_drained_in_threads() -> None:
    jobs = Plain(1, 2, 3)
    # It ends with the source's own error, after everything taken was settled.
    with pytest.raises(IndexError):
        Worker(lambda job: None, concurrency=1).run(jobs)
    assert jobs.settled == 3
    with pytest.raises(TypeError, match=r"needs get_nowait\(\)"):
        asyncio.run(Worker(lambda job: None).run_async(Plain()))


def test_worker_takes_the_keys_of_a_dict() -> None:
    seen: list[str] = []
    Worker(seen.append).run({"a": 1, "b": 2})
    assert sorted(seen) == ["a", "b"]


@each_mode
def test_queue_that_is_shut_down_ends_the_run(mode: Mode) -> None:
    class ShutDown(Exception):
        """As in Python 3.13."""

    class Closing(queue.Queue[int]):
        def get(self, block: bool = True, timeout: float | None = None) -> int:
            try:
                return super().get(False)
            except queue.Empty:
                raise ShutDown from None

    assert mode(lambda job: None, fill(Closing(), range(5))).succeeded == 5


@each_mode
def test_error_of_a_source_is_raised_after_running_jobs_have_ended(mode: Mode) -> None:
    seen: list[int] = []

    def jobs() -> Iterator[int]:
        yield from range(3)
        raise Boom("the broker is gone")

    worker = mode.make(seen.append)
    with pytest.raises(Boom, match="the broker"):
        mode.run(worker, jobs())
    assert worker.stats == Stats(taken=3, succeeded=3)
    assert sorted(seen) == [0, 1, 2]


class Watched:
    """Items that take a moment to come, and that notice when they are asked for twice at once."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.given = self.inside = self.peak = self.ahead = 0
        self.seen: list[int] = []

    def __iter__(self) -> Watched:
        return self

    def __next__(self) -> int:
        self.inside += 1
        self.peak = max(self.peak, self.inside)
        time.sleep(0.001)
        try:
            if not self.left:
                raise StopIteration
            self.left -= 1
            self.given += 1
            self.ahead = max(self.ahead, self.given - len(self.seen))
            return self.given
        finally:
            self.inside -= 1

    def __aiter__(self) -> Watched:
        return self

    async def __anext__(self) -> int:
        self.inside += 1
        self.peak = max(self.peak, self.inside)
        await asyncio.sleep(0.001)
        self.inside -= 1
        try:
            return self.__next__()
        except StopIteration:
            raise StopAsyncIteration from None


@each_mode
def test_items_are_taken_one_at_a_time(mode: Mode) -> None:
    items = Watched(40)
    # It is both kinds of iterable; `map` makes it a plain one.
    jobs: Any = map(int, items) if mode.name in ("threads", "trio") else items
    assert mode(items.seen.append, jobs, concurrency=4).succeeded == 40
    assert items.peak == 1
    # Nor is more taken than can be handled.
    assert items.ahead <= 4


@pytest.mark.parametrize("jobs", [None, 3, object()])
def test_value_that_is_not_a_source_is_refused(jobs: Any) -> None:
    with pytest.raises(TypeError, match="jobs must be a queue or an"):
        Worker(print).run(jobs)


# The deadline of a job.


@each_mode
def test_deadline_is_ambient(mode: Mode) -> None:
    seen: list[float | None] = []
    mode(lambda job: seen.append(sp.remaining()), [1], deadline=60)
    assert seen[0] is not None and 50 < seen[0] <= 60
    mode(lambda job: seen.append(sp.remaining()), [1])
    assert seen[1] is None


@each_mode
def test_retries_stop_at_the_deadline(mode: Mode) -> None:
    letters = Letters()

    def handle(job: int) -> None:
        raise Boom

    with sp.testing.instant():
        mode(handle, [1], deadline=5, policy=retry(attempts=100), dead_letter=letters, name="mail")
    ((_, error),) = letters.all
    # Waits of 1 and 2 s fit into 5 s, another 4 s do not.
    assert isinstance(error, sp.DeadlineExceeded) and error.scope == "mail"
    assert "3 attempts" in str(error)


def test_async_job_is_cut_at_its_deadline() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        letters = Letters()

        async def handle(job: int) -> None:
            await asyncio.sleep(job)

        stats = await Worker(handle, deadline=5, dead_letter=letters).run_async([1, 100])
        assert stats == Stats(taken=2, succeeded=1, failed=1)
        assert letters.jobs == [100] and letters.kinds == {sp.DeadlineExceeded}
        assert clock.now() == 5

    sp.testing.run(main)


# The end: in virtual time.


class Field:
    """A worker in virtual time: jobs are seconds of work, and what became of them is written down."""

    def __init__(self, clock: sp.testing.FakeClock, *jobs: float, **options: Any) -> None:
        self.clock = clock
        self.jobs: asyncio.Queue[float] = asyncio.Queue()
        for job in jobs:
            self.jobs.put_nowait(job)
        self.letters = Letters()
        self.done: dict[float, float] = {}
        given: dict[str, Any] = {"dead_letter": self.letters, "concurrency": 2, **options}
        self.worker = Worker(self.handle, **given)

    async def handle(self, job: float) -> None:
        await asyncio.sleep(job)
        self.done[job] = self.clock.now()

    async def run(self, *stops: float) -> Stats:
        """Run, and stop at these moments."""
        for at in stops:
            asyncio.get_running_loop().call_later(at, self.worker.stop)
        return await self.worker.run_async(self.jobs)


def test_stop_finishes_running_jobs_and_takes_no_more() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        field = Field(clock, 10, 20, 5)
        stats = await field.run(3)
        assert field.done == {10: 10, 20: 20}
        assert clock.now() == 20
        assert field.jobs.qsize() == 1
        assert stats == Stats(taken=2, succeeded=2)

    sp.testing.run(main)


def test_stop_ends_an_idle_worker_at_once() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        field = Field(clock)
        assert await field.run(3) == Stats()
        assert clock.now() == 3

    sp.testing.run(main)


def test_job_that_outlasts_the_drain_is_cancelled_and_handed_over() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        field = Field(clock, 10, 100, name="mail")
        stats = await field.run(3)
        assert field.done == {10: 10}
        assert clock.now() == 33
        ((job, error),) = field.letters.all
        assert job == 100
        assert type(error) is WorkerStopped and error.reason == "shutdown"
        assert isinstance(error, sp.Cancelled) and "mail" in str(error)
        assert stats == Stats(taken=2, succeeded=1, unfinished=1)
        await asyncio.wait_for(field.jobs.join(), 1)

    sp.testing.run(main)


def test_unfinished_job_is_requeued_if_requeue_is_given() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        async def requeue(job: float) -> None:
            await field.jobs.put(job)

        field = Field(clock, 10, 100, drain=7, requeue=requeue)
        stats = await field.run(0.5)
        assert field.done == {}
        assert clock.now() == 7.5
        assert field.letters.all == []
        assert sorted(field.jobs._queue) == [10, 100]  # type: ignore[attr-defined]
        assert stats == Stats(taken=2, requeued=2)

    sp.testing.run(main)


@pytest.mark.parametrize("is_async", [False, True])
def test_job_that_cannot_be_requeued_becomes_a_dead_letter(is_async: bool) -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        def requeue(job: float) -> None:
            raise OSError

        async def requeue_async(job: float) -> None:
            raise OSError

        field = Field(clock, 100, drain=1, requeue=requeue_async if is_async else requeue)
        stats = await field.run(1)
        assert field.letters.jobs == [100] and field.letters.kinds == {WorkerStopped}
        assert stats == Stats(taken=1, unfinished=1)

    sp.testing.run(main)


def test_second_stop_does_not_wait() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        field = Field(clock, 100, 200)
        stats = await field.run(3, 5)
        assert clock.now() == 5
        assert stats == Stats(taken=2, unfinished=2)
        assert field.letters.jobs == [100, 200]

    sp.testing.run(main)


def test_stop_now_does_not_wait() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        field = Field(clock, 100)
        asyncio.get_running_loop().call_later(3, lambda: field.worker.stop(now=True))
        assert await field.run() == Stats(taken=1, unfinished=1)
        assert clock.now() == 3

    sp.testing.run(main)


def test_drain_of_zero_ends_at_once() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        field = Field(clock, 100, drain=0)
        assert await field.run(3) == Stats(taken=1, unfinished=1)
        assert clock.now() == 3

    sp.testing.run(main)


def test_retry_that_sleeps_is_woken_at_the_end_of_the_drain() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        async def handle(job: int) -> None:
            raise Boom

        letters = Letters()
        policy = retry(backoff=sp.Constant(1000))
        worker = Worker(handle, policy=policy, dead_letter=letters, drain=5)
        asyncio.get_running_loop().call_later(1, worker.stop)
        await worker.run_async([1])
        assert clock.now() == 6
        ((_, error),) = letters.all
        assert type(error) is WorkerStopped and isinstance(error.__cause__, sp.Cancelled)

    sp.testing.run(main)


def test_job_that_fails_while_it_is_cancelled_has_failed() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        async def handle(job: int) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                raise Bang

        letters = Letters()
        worker = Worker(handle, dead_letter=letters, drain=5)
        asyncio.get_running_loop().call_later(1, worker.stop)
        assert (await worker.run_async([1])).failed == 1
        assert letters.kinds == {Bang}

    sp.testing.run(main)


def test_job_that_ignores_cancellation_is_left_behind() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        letters = Letters()
        ended: list[float] = []

        async def handle(job: int) -> None:
            end = clock.now() + 60
            while clock.now() < end:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(end - clock.now())
            ended.append(clock.now())

        worker = Worker(handle, dead_letter=letters, drain=5)
        asyncio.get_running_loop().call_later(1, worker.stop)
        stats = await worker.run_async([1])
        # 6 s, and the moments of grace.
        assert 6 < clock.now() < 8
        assert stats == Stats(taken=1, unfinished=1)
        await asyncio.sleep(100)
        # It did end, which changes nothing any more.
        assert ended == [60]
        assert worker.stats == stats and letters.jobs == [1]

    sp.testing.run(main)


def test_cancelling_the_run_settles_every_taken_job() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        async def requeue(job: float) -> None:
            await asyncio.sleep(0.1)
            back.append(job)

        back: list[float] = []
        field = Field(clock, 100, 200, 5, requeue=requeue)
        task = asyncio.ensure_future(field.run())
        await asyncio.sleep(3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert clock.now() < 3.5
        assert sorted(back) == [100, 200]
        assert field.worker.stats == Stats(taken=2, requeued=2)
        assert field.jobs.qsize() == 1

    sp.testing.run(main)


def test_run_cancelled_under_trio_requeues_its_jobs() -> None:
    back: list[int] = []

    async def requeue(job: int) -> None:
        await trio.sleep(0.1)
        back.append(job)

    async def handle(job: int) -> None:
        await trio.sleep(100)

    worker = Worker(handle, requeue=requeue, concurrency=2)

    async def main() -> None:
        with trio.move_on_after(3) as scope:
            await worker.run_async(range(5))
        assert scope.cancelled_caught
        assert trio.current_time() < 3.5

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert back == [0, 1] or back == [1, 0]
    assert worker.stats == Stats(taken=2, requeued=2)


def test_drain_is_bounded_under_trio() -> None:
    letters = Letters()
    done: list[int] = []

    async def handle(job: int) -> None:
        await trio.sleep(job)
        done.append(job)

    worker = Worker(handle, dead_letter=letters, concurrency=2, drain=0.05)

    async def main() -> None:
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                await trio.sleep(0.01)
                worker.stop()

            nursery.start_soon(stop)
            await worker.run_async([0.02, 100])  # type: ignore[list-item]

    trio.run(main)
    assert done == [0.02] and letters.jobs == [100]
    assert worker.stats == Stats(taken=2, succeeded=1, unfinished=1)


def test_outer_deadline_ends_the_run_and_settles_its_job() -> None:
    async def main(clock: sp.testing.FakeClock) -> None:
        field = Field(clock, 100)
        with pytest.raises(sp.DeadlineExceeded):
            with sp.deadline(7):
                await field.run()
        assert clock.now() == pytest.approx(7, abs=0.5)
        assert field.letters.jobs == [100]

    sp.testing.run(main)


def test_no_job_is_lost_wherever_the_stop_comes() -> None:
    """Every job that was not handled is still in the queue, or was put back there."""

    async def main(clock: sp.testing.FakeClock) -> None:
        draw = random.Random(5)
        for _ in range(60):
            jobs: asyncio.Queue[int] = asyncio.Queue()
            done: list[int] = []

            async def handle(job: int, done: list[int] = done) -> None:
                await asyncio.sleep(draw.random() * 3)
                done.append(job)

            async def produce(jobs: asyncio.Queue[int] = jobs) -> None:
                for job in range(30):
                    await asyncio.sleep(draw.choice([0, 0, 0.1]))
                    jobs.put_nowait(job)

            worker = Worker(handle, concurrency=3, drain=1, requeue=jobs.put_nowait)
            producer = asyncio.ensure_future(produce())
            asyncio.get_running_loop().call_later(draw.random() * 8, worker.stop)
            stats = await worker.run_async(jobs)
            await producer
            left = [jobs.get_nowait() for _ in range(jobs.qsize())]
            assert sorted(done + left) == list(range(30))
            assert stats.taken == stats.succeeded + stats.requeued and stats.running == 0

    sp.testing.run(main)


# The end: in threads.


class Busy:
    """A plain handler that stays in the job until the test lets it go."""

    def __init__(self) -> None:
        self.entered: list[Any] = []
        self.go = threading.Event()

    def __call__(self, job: Any) -> None:
        self.entered.append(job)
        assert self.go.wait(10)


def background(run: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    out: list[Any] = []

    def body() -> None:
        try:
            out.append(run())
        except BaseException as error:
            out.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread, out


def test_threads_finish_running_jobs_and_take_no_more() -> None:
    busy = Busy()
    jobs = fill(queue.Queue(), range(5))
    worker = Worker(busy, concurrency=2)
    thread, out = background(lambda: worker.run(jobs))
    eventually(lambda: len(busy.entered) == 2)
    assert not worker.stopping and worker.stats.running == 2
    worker.stop()
    assert worker.stopping
    busy.go.set()
    thread.join(10)
    assert out == [Stats(taken=2, succeeded=2)]
    assert jobs.qsize() == 3
    assert not worker.stopping


def test_threads_that_do_not_end_are_left_behind_and_their_end_changes_nothing() -> None:
    busy = Busy()
    letters = Letters()
    jobs = fill(queue.Queue(), [1])
    worker = Worker(busy, dead_letter=letters, drain=0.01)
    thread, out = background(lambda: worker.run(jobs))
    eventually(lambda: busy.entered)
    worker.stop()
    worker.stop()
    thread.join(10)
    assert out == [Stats(taken=1, unfinished=1)]
    assert letters.jobs == [1] and letters.kinds == {WorkerStopped}
    assert jobs.unfinished_tasks == 0
    busy.go.set()
    eventually(lambda: not any("lane" in thread.name for thread in threading.enumerate()))
    assert worker.stats == Stats(taken=1, unfinished=1)
    assert jobs.unfinished_tasks == 0


def test_stop_wakes_a_thread_that_waits_in_a_policy() -> None:
    entered = threading.Event()
    back: list[int] = []

    def handle(job: int) -> None:
        entered.set()
        raise Boom

    policy = sp.retry(on=Boom, backoff=sp.Constant(1000), within=None, budget=None)
    worker = Worker(handle, policy=policy, drain=0, requeue=back.append)
    thread, out = background(lambda: worker.run([1]))
    assert entered.wait(10)
    worker.stop()
    thread.join(10)
    assert out == [Stats(taken=1, requeued=1)] and back == [1]


def test_plain_job_under_asyncio_is_abandoned_after_the_drain() -> None:
    busy = Busy()
    back: list[int] = []
    worker = Worker(busy, drain=0.01, requeue=back.append)
    thread, out = background(lambda: asyncio.run(worker.run_async([1])))
    eventually(lambda: busy.entered)
    worker.stop()
    worker.stop()
    thread.join(10)
    # The event loop does not wait for the thread either.
    assert out == [Stats(taken=1, requeued=1)] and back == [1]
    busy.go.set()


def test_late_job_of_a_blocking_source_is_handed_back() -> None:
    gate = threading.Event()
    asked = threading.Event()
    back: list[int] = []

    def jobs() -> Iterator[int]:
        asked.set()
        assert gate.wait(10)
        yield 1

    worker = Worker(lambda job: pytest.fail("handled after the end"), drain=0.01, requeue=back.append)
    thread, out = background(lambda: worker.run(jobs()))
    assert asked.wait(10)
    worker.stop()
    worker.stop()
    thread.join(10)
    assert out == [Stats()]
    gate.set()
    eventually(lambda: back == [1])
    assert worker.stats == Stats(taken=1, requeued=1)


ended: list[str] = []


def wait_for_the_end() -> None:
    """As a client does that honours its scope; ``ended`` says that it did."""

    def fail() -> None:
        raise Boom

    try:
        sp.retry(on=Boom, backoff=sp.Constant(1000), within=None, budget=None).call(fail)
    except sp.Cancelled:
        ended.append("cancelled")
        raise


def test_interrupt_of_the_main_thread_settles_every_taken_job() -> None:
    back: list[int] = []
    ended.clear()

    def handle(job: int) -> None:
        _thread.interrupt_main()
        wait_for_the_end()

    worker = Worker(handle, requeue=back.append, concurrency=1)
    with pytest.raises(KeyboardInterrupt):
        worker.run(fill(queue.Queue(), [1, 2]))
    assert back == [1]
    # It was cancelled and waited for, not only left behind.
    assert ended == ["cancelled"]
    assert worker.stats == Stats(taken=1, requeued=1)


@pytest.fixture
def former() -> Iterator[list[int]]:
    """The signals that came to the program's own handlers of SIGUSR1 and SIGINT."""
    heard: list[int] = []
    numbers = (signal.SIGUSR1, signal.SIGINT)
    before = [signal.signal(number, lambda number, frame: heard.append(number)) for number in numbers]
    yield heard
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.skipif(os.name != "posix", reason="other platform: signals")
@pytest.mark.parametrize("name", ["SIGUSR1", "SIGINT"])
def test_signal_stops_the_worker_and_calls_the_handler_that_was_there(former: list[int], name: str) -> None:
    """Except SIGINT's, which would raise `KeyboardInterrupt`. After the run all are back in place."""
    number = getattr(signal, name)
    seen: list[int] = []

    async def handle(job: int) -> None:
        seen.append(job)
        if job == 2:
            signal.raise_signal(number)

    stats = Worker(handle, concurrency=1, signals=(name,)).run(range(10))
    assert seen == [0, 1, 2]
    assert stats == Stats(taken=3, succeeded=3)
    assert former == ([number] if name == "SIGUSR1" else [])
    former.clear()
    signal.raise_signal(number)
    assert former == [number]


@pytest.mark.skipif(os.name != "posix", reason="other platform: signals")
def test_signal_handler_set_during_the_run_is_left_in_place(former: list[int]) -> None:
    theirs: list[int] = []

    async def handle(job: int) -> None:
        signal.signal(signal.SIGUSR1, lambda number, frame: theirs.append(number))

    Worker(handle, signals=("SIGUSR1", "SIGINT")).run([1])
    signal.raise_signal(signal.SIGUSR1)
    signal.raise_signal(signal.SIGINT)
    assert theirs == [signal.SIGUSR1]
    assert former == [signal.SIGINT]


@pytest.mark.parametrize("cares", [True, False])
def test_scope_cancelled_around_a_run_in_threads_settles_its_jobs(cares: bool) -> None:
    busy = Busy()
    letters = Letters()
    ended.clear()

    def handle(job: int) -> None:
        if cares:
            busy.entered.append(job)
            wait_for_the_end()
        else:
            busy(job)

    worker = Worker(handle, dead_letter=letters)
    scope = sp.deadline(None)

    def run() -> Any:
        with scope:
            return worker.run([1])

    thread, out = background(run)
    eventually(lambda: busy.entered)
    scope.cancel()
    thread.join(10)
    assert [type(error) for error in out] == [sp.Cancelled]
    # The job may notice before the worker does; it is unfinished either way.
    assert letters.jobs == [1] and letters.kinds == {WorkerStopped}
    assert ended == (["cancelled"] if cares else [])
    assert worker.stats == Stats(taken=1, unfinished=1)
    busy.go.set()


def test_job_may_still_succeed_after_the_scope_around_the_run_has_ended() -> None:
    entered = threading.Event()

    def handle(job: int) -> None:
        entered.set()
        with contextlib.suppress(sp.Cancelled):
            wait_for_the_end()
        # Well within the moment of grace.
        time.sleep(0.02)

    letters = Letters()
    worker = Worker(handle, dead_letter=letters)
    scope = sp.deadline(None)

    def run() -> Any:
        with scope:
            return worker.run(fill(queue.Queue(), [1]))

    thread, out = background(run)
    assert entered.wait(10)
    scope.cancel()
    thread.join(10)
    assert [type(error) for error in out] == [sp.Cancelled]
    assert worker.stats == Stats(taken=1, succeeded=1) and letters.all == []


def test_first_of_several_interrupts_ends_the_run_after_running_jobs() -> None:
    running: list[int] = []

    def handle(job: int) -> None:
        running.append(job)
        if job == 1:
            eventually(lambda: len(running) == 3)
            raise Boom
        eventually(lambda: worker.stopping)
        if job == 2:
            raise Boom
        eventually(lambda: sum("shop lane" in thread.name for thread in threading.enumerate()) == 1)
        # Long enough for a run that does not wait to say so.
        time.sleep(0.02)
        check()

    def dead_letter(job: int, error: BaseException) -> None:
        raise Odd(f"at job {job}")

    worker = Worker(handle, concurrency=3, dead_letter=dead_letter, name="shop")
    with pytest.raises(Odd, match="at job 1"):
        worker.run([1, 2, 3])
    assert worker.stats == Stats(taken=3, succeeded=1)


def test_jobs_are_not_taken_only_to_be_put_back_when_the_time_for_the_run_is_over() -> None:
    clock = sp.testing.FakeClock()
    jobs = fill(queue.Queue(), range(3))

    def handle(job: int) -> None:
        clock.advance(10)
        sp.retry(on=Boom, clock=clock)(lambda: None)()

    worker = Worker(handle, requeue=jobs.put, concurrency=1)
    with pytest.raises(sp.DeadlineExceeded), sp.deadline(5, clock=clock):
        worker.run(jobs)
    assert worker.stats == Stats(taken=1, requeued=1)
    assert sorted(jobs.get_nowait() for _ in range(jobs.qsize())) == [0, 1, 2]


@pytest.mark.parametrize("stop_at", [1, 100, 1500])
def test_stop_among_many_threads_loses_no_job(stop_at: int) -> None:
    jobs = fill(queue.Queue(), range(2000))
    lock = threading.Lock()
    done: list[int] = []

    def handle(job: int) -> None:
        with lock:
            done.append(job)
            if len(done) == stop_at:
                worker.stop()

    worker = Worker(handle, concurrency=16)
    stats = worker.run(jobs)
    left = [jobs.get_nowait() for _ in range(jobs.qsize())]
    assert sorted(done + left) == list(range(2000))
    assert stats == Stats(taken=len(done), succeeded=len(done))
    assert jobs.unfinished_tasks == len(left)


# Using it.


def test_worker_can_be_run_again() -> None:
    worker = Worker(lambda job: None)
    worker.run([1])
    worker.stop()
    assert worker.run([1, 2]) == Stats(taken=3, succeeded=3)


def test_second_run_at_the_same_time_is_refused() -> None:
    busy = Busy()
    worker = Worker(busy)
    thread, _ = background(lambda: worker.run([1]))
    eventually(lambda: busy.entered)
    with pytest.raises(RuntimeError, match="running already"):
        worker.run([2])
    busy.go.set()
    thread.join(10)


def test_run_does_not_block_an_event_loop() -> None:
    async def main() -> None:
        Worker(print).run([1])

    with pytest.raises(RuntimeError, match=r"use run_async\(\)"):
        asyncio.run(main())
    with pytest.raises(RuntimeError, match=r"use run_async\(\)"):
        trio.run(main)


@each_mode
def test_jobs_see_the_context_of_the_run(mode: Mode) -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="none")
    seen: list[str] = []
    token = name.set("outer")
    try:
        mode(lambda job: seen.append(name.get()), [1, 2])
    finally:
        name.reset(token)
    assert seen == ["outer", "outer"]


def test_disabled_applies_to_jobs_and_keeps_their_order() -> None:
    tries: list[int] = []

    def handle(job: int) -> None:
        tries.append(job)
        raise Boom

    def jobs() -> Iterator[int]:
        yield from range(50)

    with sp.disabled():
        stats = Worker(handle, policy=retry(), dead_letter=Letters()).run(jobs())
    assert stats.failed == 50 and sorted(tries) == list(range(50))


def handler(job: int) -> None:
    """For pickling and reprs."""


def test_repr_and_describe_show_the_workers_options() -> None:
    worker = Worker(
        handler,
        policy=retry(),
        concurrency=3,
        deadline=5,
        drain=1,
        name="mail",
        signals=("SIGTERM", "SIGINT"),
    )
    assert repr(worker).startswith(
        "Worker(handler=tests.unit.programs.test_worker.handler, policy=Policy(Retry("
    )
    assert "concurrency=3, deadline=5.0, dead_letter=None, drain=1.0" in repr(worker)
    worker.run([1])
    data = worker.describe()
    assert data["stats"]["succeeded"] == 1 and data["handler"] == "handler"
    twin = worker.replace(concurrency=4)
    assert (twin.concurrency, twin.name, twin.stats) == (4, "mail", Stats())
    plain = Worker(handler, drain=1)
    copied = pickle.loads(pickle.dumps(plain))
    assert copied.fields() == plain.fields() and copied != plain
    assert plain.operation == "handler" and worker.operation == "mail"
    assert Worker(handler, policy=sp.Policy(name="post")).operation == "post"


def test_bad_options_are_refused() -> None:
    def items(job: int) -> Iterator[int]:
        yield 1

    bad: Any
    for options, says in [
        ({"handler": 3}, "handler must be a function or coroutine function, got 3"),
        ({"handler": items}, "handler must be a function"),
        ({"policy": sp.Retry()}, "policy must be a Policy or None, got Retry"),
        ({"concurrency": 0}, "concurrency must be >= 1, got 0"),
        ({"concurrency": True}, "concurrency must be a whole number, got True"),
        ({"deadline": 0}, "deadline must be > 0 seconds, got 0"),
        ({"deadline": float("nan")}, "deadline must be a number"),
        ({"drain": -1}, "drain must be >= 0 seconds, got -1"),
        ({"drain": float("inf")}, "drain must be finite"),
        ({"dead_letter": "file"}, "dead_letter must be callable or None, got 'file'"),
        ({"requeue": 3}, "requeue must be callable or None, got 3"),
        ({"signals": "SIGTERM"}, "signals must be a tuple of names"),
        ({"signals": ("SIGNOPE",)}, "signals must name signals such as 'SIGTERM', got 'SIGNOPE'"),
        ({"signals": (15,)}, "signals must name signals"),
        ({"name": ""}, "name must be a non-empty string or None, got ''"),
    ]:
        bad = {"handler": handler, **options}
        with pytest.raises((TypeError, ValueError), match=says):
            Worker(**bad)
