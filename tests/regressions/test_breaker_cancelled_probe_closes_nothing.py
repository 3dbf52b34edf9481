"""A probe that was cancelled counted as a success and closed the circuit.

Holdfast: it proves nothing; its place is free for the next.
"""

from __future__ import annotations

import asyncio
from typing import Any

import holdfast as hf


def test_still_half_open() -> None:
    async def main(clock: Any) -> None:
        breaker = hf.Breaker(consecutive=1, open_for=1)
        breaker.admit().failure()
        await asyncio.sleep(2)
        probe = asyncio.ensure_future(hf.Policy(breaker).acall(asyncio.sleep, 100))
        await asyncio.sleep(1)
        probe.cancel()
        await asyncio.wait([probe])
        assert breaker.state == "half_open"
        breaker.admit().success()
        assert breaker.state == "closed"

    hf.testing.run(main)
