"""An object that had waited in one event loop could not be used in the next.

Stormproof: a bulkhead belongs to no loop.
"""

from __future__ import annotations

import asyncio

import stormproof as sp


def test_bulkhead_serves_three_loops_one_after_the_other() -> None:
    bulkhead = sp.Bulkhead(1, queue=5)
    policy = sp.Policy(bulkhead)

    async def main() -> None:
        await asyncio.gather(*(policy.acall(asyncio.sleep, 0) for _ in range(3)))

    for _ in range(3):
        asyncio.run(main())
    assert (bulkhead.in_use, bulkhead.queued) == (0, 0)
