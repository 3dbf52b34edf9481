"""A block makes its policy anew every time it runs; a budget that went with it would never limit anything.

The default budget of ``sp.retrying`` belongs to the place in the code, or to the name.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import stormproof as sp


def here(clock: sp.testing.FakeClock, count: Callable[[], None]) -> None:
    for attempt in sp.retrying(on=OSError, clock=clock):
        with attempt:
            count()
            raise OSError


def there(clock: sp.testing.FakeClock, count: Callable[[], None]) -> None:
    for attempt in sp.retrying(on=OSError, clock=clock, name="a block of its own"):
        with attempt:
            count()
            raise OSError


@pytest.mark.parametrize("block", [here, there])
def test_ten_runs_share_one_burst(block: Callable[..., None]) -> None:
    clock = sp.testing.FakeClock()
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    for _ in range(10):
        with pytest.raises((OSError, sp.BudgetExhausted)):
            block(clock, count)
    assert calls == 10 + 3  # ten first attempts, and a burst of three retries


def test_block_in_another_place_has_its_own_budget() -> None:
    clock = sp.testing.FakeClock()
    for block in (here, there):
        with pytest.raises(OSError):
            block(clock, lambda: None)
