"""A retry called off while it waited for a token of a `RateBudget` left it taken; later ones had to wait."""

from __future__ import annotations

import asyncio

import pytest

import stormproof as sp


def test_five_cancelled_waits_cost_nothing() -> None:
    async def main(clock: sp.testing.FakeClock) -> float:
        budget = sp.RateBudget(rate=1, burst=1, wait=True)
        assert budget.withdraw()

        @sp.retry(on=OSError, backoff=sp.Constant(0), budget=budget)
        async def fail() -> None:
            raise OSError

        for _ in range(5):
            waiting = asyncio.ensure_future(fail())
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        return budget.reserve(None).delay

    assert sp.testing.run(main) <= 1


def test_cancelled_scope_gives_the_token_back() -> None:
    async def main(clock: sp.testing.FakeClock) -> float:
        budget = sp.RateBudget(rate=1, burst=1, wait=True)
        assert budget.withdraw()

        @sp.retry(on=OSError, backoff=sp.Constant(0), budget=budget)
        async def fail() -> None:
            raise OSError

        with pytest.raises(sp.Cancelled), sp.deadline(None) as scope:
            asyncio.get_running_loop().call_later(0.01, scope.cancel)
            await fail()
        return budget.reserve(None).delay

    assert sp.testing.run(main) <= 1
