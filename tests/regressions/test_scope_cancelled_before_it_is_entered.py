"""A scope that was cancelled first and entered afterwards interrupted nothing: its code slept on.

Stormproof: the first await inside raises Cancelled.
"""

from __future__ import annotations

import pytest
from tests.support.loops import each_loop

import stormproof as sp


@each_loop
@pytest.mark.parametrize("limit", [None, 3600])
def test_first_await_in_a_cancelled_scope_raises_cancelled(loop, limit):
    scope = sp.deadline(limit)
    scope.cancel()
    reached = []

    async def scenario():
        with pytest.raises(sp.Cancelled):
            with scope:
                reached.append("inside")
                await loop.sleep(60)
                reached.append("after the await")
        assert loop.time() == 0
        # Nothing of it is left behind.
        await loop.sleep(1)
        assert loop.time() == 1

    loop.run(scenario)
    assert "after the await" not in reached
