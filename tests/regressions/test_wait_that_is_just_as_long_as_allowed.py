"""A wait as long as `within` is made, whatever the clock says: sums of floats made it a hair too long."""

from __future__ import annotations

import pytest

import stormproof as sp
from stormproof.testing import FakeClock


@pytest.mark.parametrize("start", [0.1, 27034.123456789, 1e6 / 3, 1.7e9 + 0.1])
def test_wait_as_long_as_within_is_made(start: float) -> None:
    clock = FakeClock()
    clock.advance(start)
    calls = 0

    def fails() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    policy = sp.Policy(
        sp.Retry(on=ConnectionError, attempts=2, backoff=sp.Constant(0.3), within=0.3, budget=None),
        clock=clock,
    )
    with pytest.raises(ConnectionError):
        policy.call(fails)
    assert calls == 2
