"""A strategy per key is still one: its hedges pay the policy's budget, and two Retries still multiply."""

from __future__ import annotations

import asyncio

import pytest

import stormproof as sp


def test_keyed_hedge_pays_the_budget_of_the_retries() -> None:
    budget = sp.Budget(ratio=0, burst=1)
    policy = sp.Policy(
        sp.Retry(on=OSError, budget=budget),
        sp.keyed(sp.Hedge(after=1, idempotent=True), key=lambda host: host),
    )

    async def main(clock: sp.testing.FakeClock) -> int:
        calls = 0

        @policy
        async def fetch(host: str) -> None:
            nonlocal calls
            calls += 1
            await asyncio.sleep(5)

        await fetch("a")
        await fetch("b")
        return calls

    assert sp.testing.run(main) == 3
    assert budget.balance == 0


def test_two_retries_are_refused_keyed_or_not() -> None:
    with pytest.raises(ValueError, match="one Retry, got 2"):
        sp.Policy(sp.Retry(on=OSError), sp.keyed(sp.Retry(on=OSError), key=lambda host: host))
