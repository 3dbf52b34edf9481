"""Times calls: every case in turn, round after round, the fastest batch of each counts.

Taking turns spreads what else the machine does over all cases; the minimum leaves it out.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Steps:
    """A statement to time instead of a call, so that none has to be put into a function first.

    ``text`` uses ``names``; with ``await`` only where the meter is async. ``worked(n)`` says whether
    it has done its work, after it has run ``n`` times.
    """

    text: str
    names: Mapping[str, Any]
    worked: Callable[[int], bool]


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
        self.timer = timer
        self.is_async = is_async
        self.size = _WARM_UP
        self.best = float("inf")
        body, self.names = _body(ready.made, is_async)
        text = _LOOP.format(
            async_="async " if is_async else "",
            names=", ".join(self.names),
            body="\n        ".join(body),
        )
        scope: dict[str, Any] = {}
        exec(compile(text, f"<bench {self.name}>", "exec"), scope)
        self.loop: Callable[..., Any] = scope["loop"]

    async def batch(self) -> float:
        """The seconds that ``size`` rounds of the loop take."""
        gc.collect()
        with self.inside():
            elapsed = self.loop(self.timer, repeat(None, self.size), **self.names)
            return float(await elapsed if self.is_async else elapsed)

    async def warm_up(self, batch_s: float) -> None:
        """Let the interpreter specialise, and choose ``size`` for batches of ``batch_s``."""
        elapsed = await self.batch()
        self.size = max(1, round(_WARM_UP * batch_s / max(elapsed, 1e-9)))

    async def measure(self) -> None:
        self.best = min(self.best, await self.batch() / (self.size * UNROLLED))


def _body(made: Any, is_async: bool) -> tuple[list[str], Mapping[str, Any]]:
    """The statements of the loop, and the names they use."""
    if isinstance(made, Steps):
        return [made.text] * UNROLLED, made.names
    names = {f"call{i}": call for i, call in enumerate(functions(made))}
    await_ = "await " if is_async else ""
    return [f"{await_}call{i % len(names)}({ARGUMENT})" for i in range(UNROLLED)], names


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
        if isinstance(ready.made, Steps):
            once = Timed(ready, self.timer, self.is_async)
            once.size = 1
            await once.batch()
            if not ready.made.worked(UNROLLED):
                raise AssertionError(f"{ready.made.text!r} did not do its work")
            return
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
