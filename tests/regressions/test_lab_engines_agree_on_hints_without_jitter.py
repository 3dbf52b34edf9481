"""With jitter="none" and hints on some failures, the compiled engine drew fewer numbers than the exact one,
so that every later draw was another."""

from __future__ import annotations

import pytest

pytest.importorskip("numba")

import stormproof as sp
from stormproof import lab


@pytest.mark.parametrize("jitter", ["none", "full"])
def test_engines_draw_alike_when_some_failures_carry_a_hint(jitter: str) -> None:
    policy = sp.Policy(
        sp.Retry(
            on=(lab.BackendError, sp.AttemptTimeout),
            backoff=sp.Constant(0.1, jitter=jitter),  # type: ignore[arg-type]
            budget=None,
        )
    )
    scenario = lab.Scenario(
        clients=10,
        arrival_rps=100,
        capacity_rps=150,
        timeout=0.3,
        duration=8,
        # Some failures are timeouts, which carry no hint, the others refusals, which do.
        outage=lab.Outage(1, 1),
        faults=[lab.Errors(1.5, 4, 0.5, retry_after=0.4)],
    )
    check_equal(policy, scenario)


def test_engines_agree_where_the_last_wait_ends_with_the_time_allowed() -> None:
    # 0.1 + 0.2 s of waits in 0.3 s: the compiled engine rounded the time left in another order.
    policy = sp.Policy(
        sp.Retry(on=lab.BackendError, backoff=sp.Linear(0.1, jitter="none"), within=0.3, budget=None)
    )
    check_equal(
        policy, lab.Scenario(clients=3, arrival_rps=128, capacity_rps=200, duration=5, error_rate=0.5)
    )


def check_equal(policy: sp.Policy, scenario: lab.Scenario) -> None:
    exact, fast = (lab.simulate(policy, scenario, engine=engine) for engine in ("exact", "fast"))
    assert fast.engine == "fast"
    assert fast.series["received"] == exact.series["received"]
    assert fast.metrics["failures"] == exact.metrics["failures"]
