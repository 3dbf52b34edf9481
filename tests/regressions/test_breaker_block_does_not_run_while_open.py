"""``with breaker:`` ran its block although the circuit was open, and closed it when the block succeeded.

Holdfast: ``with breaker.admit():`` raises before the block.
"""

from __future__ import annotations

import pytest

import holdfast as hf


def test_the_block_is_not_entered() -> None:
    breaker = hf.Breaker(consecutive=1)
    breaker.admit().failure()
    entered = False
    with pytest.raises(hf.CircuitOpen), breaker.admit():
        entered = True
    assert not entered
    assert breaker.state == "open"
