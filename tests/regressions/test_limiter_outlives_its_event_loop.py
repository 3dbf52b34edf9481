"""aiolimiter and others bind to the loop they are first used in: in a second ``asyncio.run`` (as tests
and workers make them) they raised, or waited for ever.

Stormproof: one limiter serves one loop after the other, asyncio and trio, and threads besides.
"""

from __future__ import annotations

import pytest
from tests.support.loops import Loop

import stormproof as sp


@pytest.mark.usefixtures("watchdog")
@pytest.mark.parametrize("make", [sp.Limiter, sp.Pacer], ids=["limiter", "pacer"])
def test_limiter_serves_one_loop_after_the_other(make: type[sp.Limiter]) -> None:
    limiter = make(1000, 1)
    served = 0

    async def scenario(loop: Loop) -> None:
        nonlocal served
        for _ in range(3):
            await limiter.wait_async()
            served += 1
        # Left behind in the middle of a wait when its loop ends.
        limiter.set_rate(0.001)
        limiter.allow()
        assert await loop.cut(0, limiter.wait_async)
        limiter.set_rate(1000)

    for name in ("asyncio", "trio", "asyncio", "asyncio", "trio"):
        loop = Loop(name)
        loop.run(scenario, loop)
        with sp.testing.instant():
            limiter.wait()
            served += 1
    assert served == 20
