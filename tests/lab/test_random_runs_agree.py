"""Both engines give the same run for random scenarios and policies: a property, not a list of cases."""

from __future__ import annotations

import pytest
from tests.lab.random_runs import compared

_CASES, _EACH = 200, 25


@pytest.mark.parametrize("first", range(0, _CASES, _EACH))
def test_engines_agree_on_random_runs(first: int) -> None:
    found = {seed: compared(seed) for seed in range(first, first + _EACH)}
    assert {seed: why for seed, why in found.items() if why is not None} == {}
