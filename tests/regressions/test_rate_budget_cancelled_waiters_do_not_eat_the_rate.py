"""Retries that waited for a token of a `RateBudget` and were cancelled took it with them, unless no other
retry had come after them: five callers cancelled again and again left a fifth of the rate to the others.

Stormproof: a retry that leaves gives its token to those behind it, which move up at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from tests.support.polling import eventually

import stormproof as sp

RATE, BURST, SECONDS = 200, 20, 6.0


def virtual_retries(budget: sp.RateBudget, cancellers: int, block: bool) -> int:
    """Return the retries of 20 steady callers and of ``cancellers``, whose calls end after 5 ms."""
    retries = 0

    async def main(clock: sp.testing.VirtualClock) -> None:
        options = {"attempts": None, "within": 2 * SECONDS, "backoff": sp.Constant(0), "budget": budget}

        def fail(number: int) -> None:
            nonlocal retries
            retries += number > 1 and clock.now() < SECONDS
            if clock.now() < SECONDS:
                raise ConnectionError

        @sp.retry(on=ConnectionError, **options)
        async def call() -> None:
            fail(sp.attempt().number)

        async def looped() -> None:
            async for attempt in sp.retrying(on=ConnectionError, **options):
                with attempt:
                    fail(attempt.number)

        steady = looped if block else call

        async def impatient() -> None:
            while clock.now() < SECONDS:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(call(), 0.005)

        await asyncio.gather(*(steady() for _ in range(20)), *(impatient() for _ in range(cancellers)))

    sp.testing.run(main)
    return retries


@pytest.mark.parametrize("block", [False, True], ids=["function", "block"])
@pytest.mark.parametrize("cancellers", [0, 1, 5])
def test_rate_budget_under_cancellation_is_used_to_its_rate_and_no_further(
    cancellers: int, block: bool
) -> None:
    retries = virtual_retries(sp.RateBudget(RATE, BURST, wait=True), cancellers, block)
    assert 0.95 * RATE * SECONDS <= retries <= RATE * SECONDS + BURST


def test_thread_that_waits_for_its_retry_moves_up_when_the_one_before_it_is_cancelled() -> None:
    budget = sp.RateBudget(0.5, 1, wait=True)
    assert budget.withdraw()
    scopes: list[sp.Scope] = []
    ends: list[float] = []

    @sp.retry(on=ConnectionError, attempts=2, backoff=sp.Constant(0), budget=budget)
    def call() -> None:
        if sp.attempt().number == 1:
            raise ConnectionError

    def first() -> None:
        with contextlib.suppress(sp.Cancelled, ConnectionError), sp.deadline(60) as scope:
            scopes.append(scope)
            call()

    def second() -> None:
        call()
        ends.append(budget.clock_time())

    began = budget.clock_time()
    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for count, thread in enumerate(threads, 1):
        thread.start()
        eventually(lambda count=count: len(budget._live.bucket.waiting) == count)
    scopes[0].cancel()
    for thread in threads:
        thread.join(20)
    # The token comes 2 s after the first; behind the one that left it would have been 4.
    assert ends[0] - began < 3.5
    assert not budget._live.bucket.waiting
