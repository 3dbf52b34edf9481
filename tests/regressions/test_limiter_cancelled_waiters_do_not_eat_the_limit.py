"""Callers that wait for a token and are cancelled took it with them, unless they were last in line: one that
was cancelled again and again left half of the limit to the others, five of them a fifth.

Stormproof: a waiter that leaves gives all it took to those behind it, which move up at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest
from tests.support.loops import Loop, each_loop

import stormproof as sp

RATE, BURST, SECONDS = 200, 20, 30.0


def virtual_use(limiter: Any, cancellers: int) -> tuple[int, float]:
    """Return (calls of 20 steady callers that started, seconds), beside tasks cancelled after 5 ms."""
    started: list[float] = []

    async def main(clock: sp.testing.VirtualClock) -> None:
        policy = sp.Policy(sp.RateLimit(limiter, max_wait=5))

        @policy
        async def call() -> None:
            started.append(clock.now())

        async def steady() -> None:
            while clock.now() < SECONDS:
                with contextlib.suppress(sp.RateLimited):
                    await call()

        async def impatient() -> None:
            while clock.now() < SECONDS:
                with contextlib.suppress(TimeoutError, sp.RateLimited):
                    await asyncio.wait_for(call(), 0.005)

        await asyncio.gather(*(steady() for _ in range(20)), *(impatient() for _ in range(cancellers)))

    sp.testing.run(main)
    return len(started), SECONDS


@pytest.mark.parametrize("cancellers", [0, 1, 5])
@pytest.mark.parametrize("make", [sp.Limiter, sp.Pacer], ids=["limiter", "pacer"])
def test_limiter_under_cancellation_is_used_to_its_limit_and_no_further(make: Any, cancellers: int) -> None:
    started, seconds = virtual_use(make(RATE, BURST), cancellers)
    # Callers that wait when the time is over are served after it.
    assert 0.95 * RATE * seconds <= started <= RATE * seconds + BURST + 20 + cancellers


@each_loop
def test_waiter_moves_up_at_once_when_the_one_before_it_is_cancelled(loop: Loop) -> None:
    limiter = sp.Limiter(1, 1)
    began: list[float] = []

    async def scene() -> None:
        assert limiter.allow()
        start = loop.time()

        async def second() -> None:
            await limiter.wait_async()
            began.append(loop.time() - start)

        async def first() -> None:
            assert await loop.cut(0.25, limiter.wait_async)

        await loop.together(first, second)

    loop.run(scene)
    # Alone it would have waited for 1 s; behind the other one, for 2.
    assert began == [pytest.approx(1.0, abs=0.3)]


def test_thread_moves_up_at_once_when_the_one_before_it_is_cancelled() -> None:
    limiter = sp.Limiter(0.5, 1)
    assert limiter.allow()
    entered, left = threading.Event(), threading.Event()
    scopes: list[Any] = []

    def first() -> None:
        with contextlib.suppress(sp.Cancelled), sp.deadline(60) as scope:
            scopes.append(scope)
            entered.set()
            limiter.wait()
        left.set()

    threads = [threading.Thread(target=first)]
    threads[0].start()
    entered.wait(10)
    while not limiter._bucket.waiting:
        time.sleep(0.001)
    threads.append(threading.Thread(target=limiter.wait))
    threads[1].start()
    while len(limiter._bucket.waiting) < 2:
        time.sleep(0.001)
    scopes[0].cancel()
    assert left.wait(10)
    # The other one has the token that comes 2 s after the first, so the next has that of 4 s, and not of 6.
    third = limiter.reserve()
    assert third.delay <= 4
    third.cancel()
    for thread in threads:
        thread.join(20)
    assert not limiter._bucket.waiting
