"""A half-open breaker admitted 50 of 50 waiting calls to a backend that had just come back.

Stormproof: ``probes`` of them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import stormproof as sp


def test_half_open_breaker_admits_one_of_fifty() -> None:
    calls: list[int] = []

    async def main(clock: Any) -> list[Any]:
        breaker = sp.Breaker(consecutive=1, open_for=1)
        breaker.admit().failure()
        await asyncio.sleep(2)

        @sp.Policy(breaker)
        async def call() -> None:
            calls.append(1)
            await asyncio.sleep(1)

        return await asyncio.gather(*(call() for _ in range(50)), return_exceptions=True)

    outcomes = sp.testing.run(main)
    assert len(calls) == 1
    assert sum(isinstance(outcome, sp.CircuitOpen) for outcome in outcomes) == 49
