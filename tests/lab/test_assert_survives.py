"""`lab.assert_survives` in a test suite of the user's own."""

from __future__ import annotations

import pytest

import stormproof as sp
from stormproof import lab

ON = (lab.BackendError, sp.AttemptTimeout)
TIGHT = lab.Scenario(
    clients=10, arrival_rps=75, capacity_rps=100, timeout=0.5, outage=lab.Outage(2, 1), duration=15
)
NAIVE = sp.Policy(sp.Retry(on=ON, attempts=4, backoff=sp.Constant(0.1), budget=None))
CAREFUL = sp.Policy(sp.Retry(on=ON, budget=sp.Budget(burst=1)))


def test_policy_that_recovers_passes() -> None:
    lab.assert_survives(CAREFUL, TIGHT, availability=0.6, recovery_time=5, seeds=range(3))


def test_policy_that_collapses_fails_with_its_verdict() -> None:
    with pytest.raises(AssertionError, match="3 of 3 seeds failed; seed 0: Collapsed: after the fault"):
        lab.assert_survives(NAIVE, TIGHT, seeds=range(3))


def test_bounds_on_availability_and_recovery_time_must_hold() -> None:
    with pytest.raises(AssertionError, match="of 3 seeds failed; seed 0: "):
        lab.assert_survives(CAREFUL, TIGHT, availability=0.99, seeds=range(3))
    with pytest.raises(AssertionError, match="of 3 seeds failed; seed 0: "):
        lab.assert_survives(CAREFUL, TIGHT, recovery_time=0.1, seeds=range(3))
