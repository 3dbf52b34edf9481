"""A run of two policies on the lab's page was over as soon as one of them had failed or had been cancelled.
The process of the other went on with it, and the next run, which uses the same process, ended with an error.

Stormproof: a run is over when none of its processes is at work on it any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from stormproof.lab.page import runs as page_runs


class Scripted(page_runs.RunProcess):
    """A worker without a process: sends its outcome when it may, or when it is asked to stop."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        super().__init__()
        self._outcome = outcome
        self.may = asyncio.Event()
        self.asked = asyncio.Event()
        self.playing = False
        self.cut_off = False

    def warm(self) -> None:
        pass

    async def play(self, request: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        self.playing = True
        try:
            yield {"type": "progress"}
            await self.may.wait()
            yield self._outcome
        except asyncio.CancelledError:
            self.cut_off = True
            raise
        finally:
            self.playing = False

    def cancel(self) -> None:
        self.asked.set()


async def played(first: Scripted, second: Scripted) -> tuple[page_runs.Runs, page_runs.Run]:
    """A run of both that has begun."""
    runs = page_runs.Runs()
    runs._workers = [first, second]
    run = runs._current = page_runs.Run([{"name": "a"}, {"name": "b"}])
    runs._task = asyncio.create_task(runs._play(run))
    assert [(await run.queue.get())["type"] for _ in "ab"] == ["progress"] * 2  # type: ignore[index]
    return runs, run


def test_when_one_fails_the_other_is_ended() -> None:
    async def body() -> None:
        first, second = Scripted({"type": "error", "message": "boom"}), Scripted({"type": "done", "data": {}})
        runs, run = await played(first, second)
        first.may.set()
        assert await run.queue.get() == {"type": "error", "message": "boom", "field": None}
        assert await run.queue.get() is None
        assert runs._current is None
        assert (second.playing, second.cut_off) == (False, True)

    asyncio.run(asyncio.wait_for(body(), 10))


def test_cancelled_run_is_over_when_both_have_stopped() -> None:
    async def body() -> None:
        first, second = Scripted({"type": "cancelled"}), Scripted({"type": "cancelled"})
        runs, run = await played(first, second)
        assert runs.cancel(run.id)
        await second.asked.wait()
        first.may.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not first.playing
        assert runs._current is run, "the other one is still at it"
        second.may.set()
        assert await run.queue.get() == {"type": "cancelled"}
        assert not second.cut_off, "its process can have the next run"

    asyncio.run(asyncio.wait_for(body(), 10))
