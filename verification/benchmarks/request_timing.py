"""Times requests over one warm connection: every client in turn, round after round.

A request takes a thousand times what a client adds to it, so the fastest batch says little. What counts
is the median, over the rounds, of a client's batch divided by the baseline's batch of the same round.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from .call_timing import finish, small_heap
from .model import Effort, Figures, Ready
from .wire_server import BODY, serving

#: Requests in a batch: enough to be timed, few enough for many rounds.
_BATCH = 20
#: Rounds for each round of the effort: a batch of requests says less than one of calls.
_ROUNDS = 8
_WARM_UP = 50
_PEAKS = 20

#: One request, awaited: it gives the body.
Request = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True)
class Talk:
    """A client. ``open(url)`` gives, while it is open, the function that makes one request."""

    open: Callable[[str], AbstractAsyncContextManager[Request]]


class Talks:
    """Microseconds per request, those of them in which this process computed, and the most bytes that one
    request takes at a time.

    ``baseline`` names the case that every batch is divided by. The second figure leaves out the server
    and what else the machine does.
    """

    units = ("us", "us CPU", "B at peak")

    def __init__(
        self,
        baseline: str,
        is_async: bool = False,
        timers: tuple[Callable[[], float], Callable[[], float]] = (time.perf_counter, time.process_time),
    ) -> None:
        self.baseline = baseline
        self.is_async = is_async
        self.timers = timers

    def check(self, ready: Ready) -> None:
        with serving() as url:
            self._run(self._check(ready, url))

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]:
        with serving() as url, small_heap():
            figures: dict[str, Figures] = self._run(self._measure(cases, effort, url))
            return figures

    def _run(self, coroutine: Any) -> Any:
        # Nothing in a sync client waits for a loop, and a library may look for a running one.
        return asyncio.run(coroutine) if self.is_async else finish(coroutine)

    async def _check(self, ready: Ready, url: str) -> None:
        async with ready.made.open(url) as request:
            for _ in range(2):
                got = await request()
                if got != BODY:
                    raise AssertionError(f"the request gave {got!r} instead of {BODY!r}")

    async def _measure(self, cases: list[Ready], effort: Effort, url: str) -> dict[str, Figures]:
        async with AsyncExitStack() as stack:
            talks = {
                ready.case.name: await stack.enter_async_context(ready.made.open(url)) for ready in cases
            }
            for request in talks.values():
                await self._batch(request, _WARM_UP)
            walls, cpus = await self._rounds(talks, effort.rounds * _ROUNDS)
            peaks = {name: await _peak(request) for name, request in talks.items()}
        wall, cpu = self._figures(walls), self._figures(cpus)
        return {name: {"us": wall[name], "us CPU": cpu[name], "B at peak": peaks[name]} for name in talks}

    async def _rounds(
        self, talks: dict[str, Request], rounds: int
    ) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
        """Seconds per request of every client in every round, by both clocks. Each round begins with
        another client."""
        walls: dict[str, list[float]] = {name: [] for name in talks}
        cpus: dict[str, list[float]] = {name: [] for name in talks}
        order = list(talks)
        for _ in range(rounds):
            for name in order:
                wall, cpu = await self._batch(talks[name], _BATCH)
                walls[name].append(wall / _BATCH)
                cpus[name].append(cpu / _BATCH)
            order.append(order.pop(0))
        return walls, cpus

    async def _batch(self, request: Request, size: int) -> tuple[float, float]:
        # What the batch before left behind is not this one's to clean up.
        gc.collect(0)
        wall, cpu = self.timers
        wall_began, cpu_began = wall(), cpu()
        for _ in range(size):
            await request()
        return wall() - wall_began, cpu() - cpu_began

    def _figures(self, times: dict[str, list[float]]) -> dict[str, float]:
        base = times.get(self.baseline)
        if base is None:
            return {name: median(own) * 1e6 for name, own in times.items()}
        scale = median(base) * 1e6
        return {
            name: scale * median(mine / theirs for mine, theirs in zip(own, base, strict=True))
            for name, own in times.items()
        }


async def _peak(request: Request) -> int:
    """The most bytes held during a request beyond those before it: the least of several tries."""
    tracemalloc.start()
    try:
        for _ in range(_WARM_UP):
            await request()
        peaks = []
        for _ in range(_PEAKS):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            await request()
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        return min(peaks)
    finally:
        tracemalloc.stop()
