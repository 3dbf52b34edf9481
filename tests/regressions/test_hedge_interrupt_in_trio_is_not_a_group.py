"""Under trio, Ctrl-C (or ``sys.exit``) inside a hedged call came out as a BaseExceptionGroup of one, which no
``except KeyboardInterrupt`` catches.

Stormproof: it comes out as what it is, at once, and the other attempts are cancelled.
"""

from __future__ import annotations

import pytest
from tests.support.loops import Loop

import stormproof as sp


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("number", [1, 2])
def test_interrupt_in_trio_is_raised_without_a_group(kind, number):
    loop = Loop("trio")
    calls, ended = [], []

    @sp.Policy(sp.Hedge(after=1, idempotent=True, max=2))
    async def call():
        calls.append(len(calls) + 1)
        mine = calls[-1]
        try:
            await loop.sleep(5 if mine == number else 60)
            raise kind("struck")
        finally:
            ended.append(mine)

    async def scenario():
        with pytest.raises(kind, match="struck"):
            await call()
        assert sorted(ended) == [1, 2]
        assert loop.time() == pytest.approx(5 if number == 1 else 6)

    loop.run(scenario)
