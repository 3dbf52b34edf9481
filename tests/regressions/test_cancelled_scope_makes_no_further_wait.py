"""A scope cancelled during the attempt was noticed only after the retry had been paid and slept for.

Stormproof: it makes no further wait and pays nothing; cancelled in the clipped last wait, it is Cancelled.
"""

from __future__ import annotations

import threading

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom, BudgetSpy, retry

import stormproof as sp


def test_scope_cancelled_during_the_attempt_pays_and_sleeps_nothing():
    clock, budget, calls = sp.testing.FakeClock(), BudgetSpy(), []

    @retry(clock=clock, budget=budget)
    def work():
        calls.append(None)
        scope.cancel()
        raise Boom

    with pytest.raises(sp.Cancelled) as caught, sp.deadline(None) as scope:
        work()
    assert isinstance(caught.value.__cause__, Boom)
    assert len(calls) == 1 and clock.sleeps == []
    assert not any(call[0] == "withdraw" for call in budget.calls)


@each_loop
def test_scope_cancelled_during_an_async_attempt_pays_nothing(loop):
    budget, calls = BudgetSpy(), []

    async def scenario():
        with sp.deadline(None) as scope:

            @retry(budget=budget)
            async def work():
                calls.append(None)
                scope.cancel()
                raise Boom

            await work()

    with pytest.raises(sp.Cancelled):
        loop.run(scenario)
    assert len(calls) == 1
    assert not any(call[0] == "withdraw" for call in budget.calls)


def test_scope_cancelled_during_a_clipped_wait_raises_cancelled():
    waiting = threading.Event()

    @retry(late="clip", backoff=sp.Constant(50))
    def work():
        waiting.set()
        raise Boom

    def cancel():
        waiting.wait(10)
        pause.wait(0.02)
        scope.cancel()

    pause = threading.Event()
    with pytest.raises(sp.Cancelled), sp.deadline(2) as scope:
        canceller = threading.Thread(target=cancel)
        canceller.start()
        try:
            work()
        finally:
            canceller.join()


@each_loop
def test_scope_cancelled_during_a_clipped_async_wait_raises_cancelled(loop):
    @retry(late="clip", backoff=sp.Constant(50))
    async def work():
        raise Boom

    async def scenario():
        scope = sp.deadline(2)

        async def waits():
            with scope:
                await work()

        async def cancels():
            await loop.sleep(0.02)
            scope.cancel()

        error, _ = await loop.together(waits, cancels)
        assert type(error) is sp.Cancelled
        assert loop.time() < 1

    loop.run(scenario)
