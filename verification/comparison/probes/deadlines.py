"""Waits: how long, how random, and never past the time allowed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from typing import Any

from ..model import Probe, counted, seconds, yes_no
from ..setups.retriers import RETRIERS, Retrier
from .retries import Failing


def _kept(library: Retrier) -> float:
    @library.bounded(1.0, 0.1)
    async def call(takes: float) -> None:
        await asyncio.sleep(takes)
        raise ConnectionError

    async def spent(takes: float) -> float:
        start = time.monotonic()
        try:
            await call(takes)
        except Exception:
            pass
        return time.monotonic() - start

    async def scenario() -> float:
        await spent(0.3)  # imports what a first failure imports
        random.seed(1)  # for waits that are random whatever is asked for
        return await spent(0.8)

    return asyncio.run(scenario())


deadline_kept = Probe(
    "deadline-kept",
    "retry",
    "At most 1 s in all; an async call that fails after 0.8 s, waits of 0.1 s.",
    "the caller has its answer after at most 1 s (0.4 s are allowed for a busy machine).",
    lambda spent: (f"after {seconds(spent)}", spent < 1.4),
)
deadline_kept.on(RETRIERS, _kept)


def _refused(library: Retrier) -> float:
    Failing().spent(library.bounded(0.01, 0.001))  # imports what a first failure imports
    start = time.monotonic()
    Failing().spent(library.bounded(1.0, 3.0))
    return time.monotonic() - start


wait_past_deadline = Probe(
    "wait-past-deadline",
    "retry",
    "At most 1 s in all; the call fails at once and the next wait is 3 s.",
    "it gives up at once: no sleep that ends in failure.",
    lambda spent: ("at once", True) if spent < 0.7 else (f"after {seconds(spent)}", False),
)
wait_past_deadline.on(RETRIERS, _refused, without={"opnieuw": "no wait of one's own"})


def _many(library: Retrier) -> tuple[int, str]:
    failing = Failing()
    raised = failing.spent(library.growing(1_200, 1e-6, 1e-5))
    return failing.calls, type(raised).__name__


many_attempts = Probe(
    "many-attempts",
    "retry",
    "1,200 attempts with exponential waits under a small cap.",
    "1,200 calls, and the function's own error: no overflow of the formula.",
    lambda seen: (
        counted(seen[0], "call") + ("" if seen[1] == "ConnectionError" else f", then {seen[1]}"),
        seen == (1_200, "ConnectionError"),
    ),
)
many_attempts.on(RETRIERS, _many)


def _waits(library: Retrier, runs: int, jittered: bool = False) -> list[float]:
    """The waits of ``runs`` calls."""
    with library.recorded() as waits:
        for _ in range(runs):
            Failing().spent(library.jittered() if jittered else library.default())
        return list(waits)


def _judge_waits(waits: list[float]) -> tuple[str, bool]:
    if not any(waits):
        return "no wait", False
    return ("random", True) if len(set(waits)) > 3 else ("the same for every caller", False)


default_waits = Probe(
    "default-waits",
    "retry",
    "The waits between 4 attempts when none are asked for, in 5 calls.",
    "there is a wait, and it is random.",
    _judge_waits,
)
default_waits.on(RETRIERS, lambda library: _waits(library, 5))


def _forked(library: Retrier) -> bool:
    """Whether a parent and its child, forked after the first draws, go on with different waits."""
    _waits(library, 1, jittered=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(_waits(library, 2, jittered=True)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        theirs: Any = json.load(pipe)
    os.waitpid(child, 0)
    ours = _waits(library, 2, jittered=True)
    return not set(ours) & set(theirs)


fork = Probe(
    "fork",
    "retry",
    "A process forks after it has drawn random waits.",
    "parent and child draw different ones from then on.",
    yes_no("different waits", "the same waits"),
)
fork.on(RETRIERS, _forked)

PROBES = [deadline_kept, wait_past_deadline, many_attempts, default_waits, fork]
