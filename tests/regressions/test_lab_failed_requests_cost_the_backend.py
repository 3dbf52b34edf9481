"""A failed request took nothing of the backend, so three retries at twice the capacity always came back.
Where a failure works before it fails, they do not."""

from __future__ import annotations

from typing import Any

import pytest

import stormproof as sp
from stormproof import lab

ON = (lab.BackendError, sp.AttemptTimeout)
THREE_RETRIES = sp.Policy(sp.Retry(on=ON, attempts=4, backoff=sp.Constant(0.0), budget=None))


def simulated(engine: str = "exact", policy: Any = THREE_RETRIES, **changes: Any) -> lab.Result:
    if engine == "fast":
        pytest.importorskip("numba")
    given: dict[str, Any] = {
        "clients": 20,
        "arrival_rps": 100,
        "capacity_rps": 200,
        "timeout": 1,
        "duration": 40,
        "outage": lab.Outage(5, 10, "fail"),
    }
    return lab.simulate(policy, lab.Scenario(**{**given, **changes}), engine=engine)


@pytest.mark.parametrize("engine", ["exact", "fast"])
def test_retry_storm_outlasts_the_outage_when_failures_cost_a_whole_service(engine: str) -> None:
    free = simulated(engine)
    costly = simulated(engine, outage=lab.Outage(5, 10, "fail", cost=1))
    assert free.state == "survived"
    assert costly.state == "collapsed"
    budgeted = sp.Policy(sp.Retry(on=ON, attempts=4, backoff=sp.Constant(0.0), budget=sp.Budget(burst=1)))
    assert simulated(engine, budgeted, outage=lab.Outage(5, 10, "fail", cost=1)).recovered


@pytest.mark.parametrize("engine", ["exact", "fast"])
def test_failure_is_answered_after_its_share_of_the_service_time(engine: str) -> None:
    # One request at a time: 10 ms of service, of which a failure takes 30 %, in each of four attempts.
    alone = lab.Scenario(
        clients=1,
        arrival_rps=10,
        capacity_rps=100,
        arrivals="even",
        duration=10,
        timeout=1,
        error_rate=0.5,
        cost=0.3,
    )
    if engine == "fast":
        pytest.importorskip("numba")
    result = lab.simulate(THREE_RETRIES, alone, seed=3, engine=engine)
    # A call that succeeds at attempt k took (k - 1) failures: the mean of a truncated geometric law.
    weights = [0.5**k for k in range(1, 5)]
    wanted = sum(w * (0.01 + 0.003 * k) for k, w in enumerate(weights)) / sum(weights)
    assert result.metrics["mean"] == pytest.approx(wanted, rel=0.1)


@pytest.mark.parametrize("order", ["fifo", "lifo", "shared"])
def test_every_order_of_service_lets_failures_work(order: str) -> None:
    # Errors that cost a whole service use the capacity up: twice the load of what succeeds.
    busy: dict[str, Any] = {
        "outage": None,
        "error_rate": 0.3,
        "arrival_rps": 90,
        "capacity_rps": 100,
        "order": order,
    }
    assert simulated(**busy).recovered
    assert not simulated(**busy, cost=1).recovered


def test_errors_have_a_cost_of_their_own() -> None:
    errors = {"outage": None, "arrival_rps": 90.0, "capacity_rps": 100.0}
    assert simulated(**errors, faults=[lab.Errors(0, 35, 0.3)]).recovered
    assert simulated(**errors, cost=1, faults=[lab.Errors(0, 35, 0.3, cost=0)]).recovered
    assert not simulated(**errors, faults=[lab.Errors(0, 35, 0.3, cost=1)]).recovered


def test_cost_of_a_hanging_outage_is_an_error() -> None:
    with pytest.raises(ValueError, match="Outage: cost must be 0 or None with mode='hang'"):
        lab.Outage(1, 1, cost=0.5)
    with pytest.raises(ValueError, match="Scenario: cost must be"):
        lab.Scenario(cost=-1)
