"""``with breaker:`` ran its block although the circuit was open, and closed it when the block succeeded.

Stormproof: ``with breaker.admit():`` raises before the block.
"""

from __future__ import annotations

import pytest

import stormproof as sp


def test_block_is_not_entered() -> None:
    breaker = sp.Breaker(consecutive=1)
    breaker.admit().failure()
    entered = False
    with pytest.raises(sp.CircuitOpen), breaker.admit():
        entered = True
    assert not entered
    assert breaker.state == "open"
