"""A probe that was cancelled counted as a success and closed the circuit.

Stormproof: it proves nothing; its place is free for the next.
"""

from __future__ import annotations

import asyncio
from typing import Any

import stormproof as sp


def test_cancelled_probe_leaves_the_breaker_half_open() -> None:
    async def main(clock: Any) -> None:
        breaker = sp.Breaker(consecutive=1, open_for=1)
        breaker.admit().failure()
        await asyncio.sleep(2)
        probe = asyncio.ensure_future(sp.Policy(breaker).acall(asyncio.sleep, 100))
        await asyncio.sleep(1)
        probe.cancel()
        await asyncio.wait([probe])
        assert breaker.state == "half_open"
        breaker.admit().success()
        assert breaker.state == "closed"

    sp.testing.run(main)
