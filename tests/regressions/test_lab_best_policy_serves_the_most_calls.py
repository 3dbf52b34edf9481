"""`Comparison.best` looked at recovery and load only, and so recommended no retries at all; and a run was
"recovered" however long that took."""

from __future__ import annotations

import pytest

import stormproof as sp
from stormproof import lab

ON = (lab.BackendError, sp.AttemptTimeout)
BLIP = lab.Scenario(
    clients=50,
    arrival_rps=200,
    capacity_rps=260,
    timeout=0.5,
    outage=lab.Outage(3, 0.5, "fail"),
    duration=12,
)
CAREFUL = sp.Policy(sp.Retry(on=ON, budget=sp.Budget(burst=3)))
EAGER = sp.Policy(sp.Retry(on=ON, backoff=sp.Constant(0.2), attempts=8, budget=None))


def test_best_policy_retries_within_a_budget_rather_than_not_at_all() -> None:
    compared = lab.compare({"no retries": None, "budget": CAREFUL}, BLIP, seeds=range(3))
    assert compared.recovery["no retries"].value == compared.recovery["budget"].value == 1.0
    assert compared.best == "budget"
    assert compared.calm["no retries"]["availability"] == pytest.approx(0.99, abs=0.004)
    assert compared.calm["budget"]["availability"] > 0.999
    assert compared.hour["budget"] > 0.999 > compared.hour["no retries"]
    assert compared.verdict.startswith("'budget' recovers in 100% (44% to 100%) of 3 runs and serves ")


def test_best_policy_keeps_the_load_within_the_bound() -> None:
    large = BLIP.replace(capacity_rps=2000)
    compared = lab.compare({"budget": CAREFUL, "eager": EAGER}, large, seeds=range(2))
    eager = compared.summary["eager"]
    assert eager["recovered"] == 1.0 and compared.hour["eager"] > compared.hour["budget"] + 0.0001
    bound = eager["peak_rps_after"] / large.capacity_rps
    assert compared.choose(load=bound * 1.01) == "eager"
    assert compared.choose(load=bound * 0.99) == "budget"


def test_best_policy_is_one_that_recovers() -> None:
    storm = lab.Scenario(
        clients=10, arrival_rps=75, capacity_rps=100, timeout=0.5, outage=lab.Outage(2, 1), duration=15
    )
    naive = sp.Policy(sp.Retry(on=ON, backoff=sp.Constant(0.1), budget=None))
    assert lab.compare({"naive": naive, "none": None}, storm, seeds=range(4)).best == "none"


def test_recovery_longer_than_the_fault_is_late_and_its_lost_calls_are_counted() -> None:
    collapse = lab.Scenario(
        clients=1,
        arrival_rps=28,
        capacity_rps=30,
        timeout=1,
        arrivals="even",
        outage=lab.Outage(10, 10),
        duration=260,
    )
    once = lab.simulate(None, collapse)
    assert once.recovered and once.state == "recovered late"
    assert str(once).startswith("Recovered late: ")
    figures = once.metrics
    # The calls that the outage found in the queue are lost too.
    assert 0.99 < figures["availability_calm"] < 1
    # Every call of the outage but those of its last second is lost, and then the queue has to drain.
    assert figures["availability_fault"] < 0.15
    assert figures["lost_after"] > 10 * figures["lost_fault"]
    assert figures["lost_calm"] + figures["lost_fault"] + figures["lost_after"] == once.calls - once.successes
    forever = lab.simulate(
        sp.Policy(sp.Retry(on=ON, attempts=2, backoff=sp.Constant(0), budget=None)), collapse
    )
    assert forever.state == "collapsed"
    assert lab.simulate(CAREFUL, BLIP).state == "survived"
