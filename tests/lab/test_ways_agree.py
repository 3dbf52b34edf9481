"""The direct way (rules called from a heap) and the driven way (compiled policies) give the same run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stormproof as sp
from stormproof import lab
from stormproof.lab.results.recorder import Raw
from stormproof.lab.simulate import exact

ON = (lab.BackendError, sp.AttemptTimeout)
HANG, FAIL = lab.Outage(3, 1.5), lab.Outage(3, 1.5, "fail", retry_after=0.4)


def scenario(**changes: Any) -> lab.Scenario:
    base: dict[str, Any] = {
        "clients": 20,
        "arrival_rps": 140,
        "capacity_rps": 150,
        "duration": 10,
        "timeout": 0.7,
        "outage": HANG,
    }
    return lab.Scenario(**{**base, **changes})


def rule(**options: Any) -> sp.Retry:
    return sp.Retry(**{"on": ON, **options})


CASES = {
    "default budget": (sp.Policy(rule()), scenario()),
    "hints": (sp.Policy(rule(budget=None)), scenario(outage=FAIL)),
    "last come": (sp.Policy(rule(budget=None)), scenario(order="lifo")),
    "shared": (
        sp.Policy(rule(budget=None)),
        scenario(order="shared", workers=3, service="exponential", queue=40),
    ),
    "deadline": (sp.Policy(sp.Deadline(2), rule(budget=sp.QuotaBudget())), scenario(latency=0.05)),
    "deadline, breaker around": (
        sp.Policy(sp.Deadline(1), sp.Breaker(min_calls=5, open_for=2), rule(), sp.Timeout(0.4)),
        scenario(),
    ),
    "gates inside": (
        sp.Policy(
            rule(budget=sp.WindowBudget(), late="clip", within=1),
            sp.Breaker(min_calls=5, open_for=2, ramp=1),
            sp.Throttle(min_calls=2),
            sp.RateLimit(sp.Limiter(6, 6)),
            sp.Timeout(0.4),
        ),
        scenario(outage=FAIL),
    ),
    "waiting budget, closed loop": (
        sp.Policy(
            rule(on=sp.transient, attempts=2, budget=sp.RateBudget(1, 2, wait=True), late="clip", within=5)
        ),
        scenario(
            closed_loop=True,
            queue=50,
            limit_rps=145,
            outage=None,
            faults=[
                lab.Errors(2, 2, 0.5),
                lab.Latency(1, 1, 0.2),
                lab.Partition(5, 1, 0.5),
                lab.Deploy(7, 2),
            ],
        ),
    ),
    "keyed budget, a function as on": (
        sp.Policy(
            rule(on=lambda error: True, budget=sp.keyed(sp.RateBudget(1 / 30, 1), key=lambda key: key))
        ),
        scenario(
            keys=10,
            shed=True,
            queue=60,
            service="lognormal",
            faults=[lab.Spike(6, 1, 3), lab.Burst(1, 90, 0.5), lab.ColdCache(5), lab.Ramp(5, 1)],
            others=[lab.Clients("batch", 3, 10.0, sp.Policy(rule(attempts=2)), timeout=0.2)],
        ),
    ),
    "throttle budget, one for the fleet, store lost": (
        sp.Policy(rule(budget=sp.ThrottleBudget())),
        scenario(fleet=True, outage=FAIL, faults=[lab.StoreLoss(4, 1, "local")]),
    ),
    "small quota": (
        sp.Policy(rule(budget=sp.QuotaBudget(capacity=30))),
        scenario(outage=None, error_rate=0.4),
    ),
    "no retry": (sp.Policy(sp.Breaker(min_calls=5, open_for=1)), scenario()),
    "no policy": (None, scenario(outage=FAIL, latency=lab.Spread("exponential", 0.02))),
}
COLUMNS = ("offered", "received", "succeeded", "p50", "p99", "queue", "budget", "breaker_open")
TOTALS = ("calls", "attempts", "successes", "failures", "latency")


def totals(raw: Raw) -> dict[str, Any]:
    return {name: getattr(raw, name) for name in TOTALS}


@pytest.mark.parametrize("name", CASES)
def test_direct_and_driven_way_give_the_same_run(name: str) -> None:
    policy, place = CASES[name]
    direct, driven = (exact(policy, place, 7, way=way) for way in ("direct", "driven"))
    assert (direct.path, driven.path) == ("direct", "driven")
    assert direct.calls > 500
    assert sum(direct.failures.values()) > 0, "the case should see failures"
    assert totals(direct) == totals(driven)
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(direct, column), getattr(driven, column), err_msg=column)


def test_other_seeds_give_other_runs() -> None:
    policy, place = CASES["default budget"]
    assert totals(exact(policy, place, 1)) != totals(exact(policy, place, 2))


def test_strategy_that_takes_time_is_driven() -> None:
    queued = sp.Policy(rule(), sp.Bulkhead(3, queue=5, max_wait=1))
    assert exact(queued, scenario(), 1).why == "Bulkhead takes time of its own"
    assert lab.simulate(queued, scenario(), seed=1).path == "driven"
    with pytest.raises(ValueError, match="Bulkhead takes time"):
        exact(queued, scenario(), 1, way="direct")
    assert lab.simulate(sp.Policy(rule()), scenario(), seed=1).path == "direct"
