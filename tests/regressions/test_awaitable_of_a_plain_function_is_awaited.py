"""A plain function that returns something to await, such as `lambda job: handle(job)` with an async `handle`,
counted as done before anything ran: a worker's jobs succeeded unhandled, `once` kept a coroutine.

Stormproof: `Worker` and `once` await it, under their policy.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.loops import Loop, each_loop

import stormproof as sp

RETRY = sp.Policy(sp.Retry(on=ConnectionError, backoff=sp.Constant(0), budget=None))


def plainly(fn: Any) -> Any:
    """Return a plain function around ``fn``, as a lambda is."""

    def plain(*args: Any) -> Any:
        return fn(*args)

    return plain


class Handler:
    """Handles jobs; each fails ``failures`` times before it succeeds."""

    def __init__(self, failures: int = 0) -> None:
        self.handled: list[int] = []
        self._left = dict.fromkeys(range(10), failures)

    async def handle(self, job: int) -> None:
        await asyncio.sleep(0)
        if self._left[job]:
            self._left[job] -= 1
            raise ConnectionError
        self.handled.append(job)


@pytest.mark.parametrize("failures", [0, 2])
def test_worker_in_threads_awaits_the_result_of_its_handler(failures: int) -> None:
    handler = Handler(failures)
    stats = sp.Worker(plainly(handler.handle), policy=RETRY).run(range(3))
    assert sorted(handler.handled) == [0, 1, 2]
    assert stats.succeeded == 3


def test_worker_in_threads_reports_errors_of_the_awaitable() -> None:
    handler = Handler(failures=1)
    dead: list[tuple[int, BaseException]] = []
    worker = sp.Worker(plainly(handler.handle), dead_letter=lambda job, error: dead.append((job, error)))
    assert worker.run(range(2)).failed == 2
    assert [type(error) for _, error in dead] == [ConnectionError] * 2


@pytest.mark.parametrize("failures", [0, 2])
def test_worker_in_asyncio_awaits_in_the_loop_that_runs_it(failures: int) -> None:
    handler = Handler(failures)
    loops: set[Any] = set()

    async def handle(job: int) -> None:
        loops.add(asyncio.get_running_loop())
        await handler.handle(job)

    async def main() -> sp.Worker:
        loops.add(asyncio.get_running_loop())
        worker = sp.Worker(plainly(handle), policy=RETRY)
        await worker.run_async(range(3))
        return worker

    assert asyncio.run(main()).stats.succeeded == 3
    assert sorted(handler.handled) == [0, 1, 2]
    assert len(loops) == 1


def test_worker_in_trio_awaits_in_the_loop_that_runs_it() -> None:
    import trio

    handled: list[int] = []

    async def handle(job: int) -> None:
        await trio.lowlevel.checkpoint()
        handled.append(job)

    async def main() -> sp.Worker:
        worker = sp.Worker(plainly(handle))
        await worker.run_async(range(3))
        return worker

    assert trio.run(main).stats.succeeded == 3
    assert sorted(handled) == [0, 1, 2]


@each_loop
def test_once_awaits_the_result_of_its_function_and_keeps_it(loop: Loop) -> None:
    made: list[int] = []

    async def connect() -> list[int]:
        await loop.sleep(0)
        made.append(1)
        return made

    shared: Any = sp.once(plainly(connect))

    async def scene() -> None:
        assert await shared() is made
        assert await shared() is made
        assert shared.ready
        assert shared.reset()
        assert await shared.get() is made

    loop.run(scene)
    assert made == [1, 1]


@each_loop
def test_once_retries_the_awaitable_of_its_function_and_keeps_no_failure(loop: Loop) -> None:
    tried: list[int] = []

    async def connect() -> str:
        await loop.sleep(0)
        tried.append(1)
        if len(tried) % 4:
            raise ConnectionError
        return "connection"

    plain: Any = sp.once(plainly(connect))
    patient: Any = sp.once(plainly(connect), policy=RETRY)

    async def scene() -> None:
        with pytest.raises(ConnectionError):
            await plain()
        assert not plain.ready
        tried.clear()
        assert await patient() == "connection"
        assert len(tried) == 4

    loop.run(scene)


@each_loop
def test_once_is_shared_by_concurrent_callers(loop: Loop) -> None:
    made: list[int] = []

    async def connect() -> int:
        await loop.sleep(0.01)
        made.append(1)
        return len(made)

    shared: Any = sp.once(plainly(connect))
    found: list[int] = []

    async def caller() -> None:
        found.append(await shared())

    async def scene() -> None:
        await loop.together(caller, caller, caller)

    loop.run(scene)
    assert (made, found) == ([1], [1, 1, 1])
