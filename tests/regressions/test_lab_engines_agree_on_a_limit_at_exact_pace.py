"""A backend's limit that is met exactly admitted every call in one engine, and refused some in the other.

The exact engine counts a token that is almost whole as whole, as every limiter does. The compiled engine had
a copy of that rule for budgets, and another without it for the backend.
"""

from __future__ import annotations

import pytest

pytest.importorskip("numba")

from tests.lab.random_runs import compared, difference

from stormproof import lab
from stormproof.lab.engines.numba import engine
from stormproof.lab.simulate import exact


@pytest.mark.parametrize("rate", [3.0, 7.0, 120.0, 333.0])
def test_limit_met_at_its_exact_pace_admits_the_same_calls_in_both_engines(rate: float) -> None:
    burst = lab.Burst(1.0, calls=int(rate))
    scenario = lab.Scenario(
        arrival_rps=rate, capacity_rps=10 * rate, limit_rps=rate, faults=[burst], arrivals="even", duration=30
    )
    got, wanted = engine.run(None, scenario, 0, None), exact(None, scenario, 0)
    assert wanted.failures["429"] > 0
    assert difference(got, wanted) is None


# Among the first ten thousand random runs, these differed.
@pytest.mark.parametrize("seed", [1122, 2038, 3677, 4368])
def test_random_run_with_a_limit_is_equal_in_both_engines(seed: int) -> None:
    assert compared(seed) is None
