"""Times calls: every case in turn, round after round, the fastest batch of each counts.

Taking turns spreads what else the machine does over all cases; the minimum leaves it out.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from .model import Effort, Figures, Ready

#: What every case is called with, and has to return.
ARGUMENT = 7
#: Calls written out in the loop's body, so that the loop itself adds next to nothing.
UNROLLED = 10
_WARM_UP = 30

_LOOP = """\
{async_}def loop(timer, rounds, {names}):
    began = timer()
    for _ in rounds:
        {body}
    return timer() - began
"""


def functions(made: Any) -> tuple[Callable[[int], Any], ...]:
    """What a case made: one function, or several to be called in turn."""
    return tuple(made) if isinstance(made, (list, tuple)) else (made,)


def expect(result: object) -> None:
    """Every case must do its work: a call that returns something else is not worth timing."""
    if result != ARGUMENT:
        raise AssertionError(f"the call returned {result!r} instead of {ARGUMENT!r}")


def finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never has to wait, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError("the coroutine waits for something")


class Timed:
    """A case with a timing loop of its own.

    The interpreter specialises a call site for the function it sees there. A loop shared by all
    cases would favour some of them; a program that calls one function in one place is what counts.
    """

    def __init__(self, ready: Ready, timer: Callable[[], float], is_async: bool) -> None:
        self.name = ready.case.name
        self.inside = ready.case.inside
        self.calls = functions(ready.made)
        self.timer = timer
        self.is_async = is_async
        self.size = _WARM_UP
        self.best = float("inf")
        names = [f"call{i}" for i in range(len(self.calls))]
        await_ = "await " if is_async else ""
        body = [f"{await_}{names[i % len(names)]}({ARGUMENT})" for i in range(UNROLLED)]
        text = _LOOP.format(
            async_="async " if is_async else "", names=", ".join(names), body="\n        ".join(body)
        )
        scope: dict[str, Any] = {}
        exec(compile(text, f"<bench {self.name}>", "exec"), scope)
        self.loop: Callable[..., Any] = scope["loop"]

    async def batch(self) -> float:
        """The seconds that ``size`` rounds of the loop take."""
        gc.collect()
        with self.inside():
            elapsed = self.loop(self.timer, repeat(None, self.size), *self.calls)
            return float(await elapsed if self.is_async else elapsed)

    async def warm_up(self, batch_s: float) -> None:
        """Let the interpreter specialise, and choose ``size`` for batches of ``batch_s``."""
        elapsed = await self.batch()
        self.size = max(1, round(_WARM_UP * batch_s / max(elapsed, 1e-9)))

    async def measure(self) -> None:
        self.best = min(self.best, await self.batch() / (self.size * UNROLLED))


class Calls:
    """Nanoseconds per call; of a coroutine function, per awaited call, all in one event loop."""

    units = ("ns",)

    def __init__(self, is_async: bool = False, timer: Callable[[], float] = time.perf_counter) -> None:
        self.is_async = is_async
        self.timer = timer

    def check(self, ready: Ready) -> None:
        self._run(self._check(ready))

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]:
        with small_heap():
            best: dict[str, float] = self._run(self._measure(cases, effort))
        return {name: {"ns": seconds * 1e9} for name, seconds in best.items()}

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        if not self.is_async:
            # No event loop around sync calls: a library may look for a running one.
            return finish(coroutine)
        with asyncio.Runner() as runner:
            return runner.run(coroutine)

    async def _check(self, ready: Ready) -> None:
        with ready.case.inside():
            for call in functions(ready.made):
                expect(await call(ARGUMENT) if self.is_async else call(ARGUMENT))

    async def _measure(self, cases: list[Ready], effort: Effort) -> dict[str, float]:
        timed = [Timed(ready, self.timer, self.is_async) for ready in cases]
        for each in timed:
            await each.warm_up(effort.batch_s)
        for _ in range(effort.rounds):
            for each in timed:
                await each.measure()
        return {each.name: each.best for each in timed}


@contextmanager
def small_heap() -> Iterator[None]:
    """Sets aside what is alive now, so that a collection costs what a case's own garbage costs.

    The collector stays on: the garbage that a library makes is part of its price.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
