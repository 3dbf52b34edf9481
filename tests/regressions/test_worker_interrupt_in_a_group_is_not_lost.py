"""A job of an async worker was interrupted, and what it used for its own tasks put the interrupt in a group.

asyncio ends on a bare `KeyboardInterrupt` only: one lane of the worker ended, the others went on, and the
run came back as if all had been done. Stormproof: an interrupt ends the run, however it is wrapped.
"""

from __future__ import annotations

import asyncio

import pytest

from stormproof._programs.worker import Stats, Worker


@pytest.mark.parametrize("concurrency", [1, 2])
def test_interrupt_inside_a_group_ends_the_run(concurrency: int) -> None:
    buried: list[int] = []

    async def handle(job: int) -> None:
        if job == 2:
            raise BaseExceptionGroup("from the tasks of a job", [OSError(), KeyboardInterrupt()])

    worker = Worker(handle, concurrency=concurrency, dead_letter=lambda job, error: buried.append(job))
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(worker.run_async(range(1000)))
    assert buried == [2]
    assert worker.stats.taken < 10
    assert worker.stats == Stats(taken=worker.stats.taken, succeeded=worker.stats.taken - 1, unfinished=1)
