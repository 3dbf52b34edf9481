"""The budget column showed what was held at the last failure, frozen in calm; the amplification column
divided the attempts of a step by the calls of that step, which are not the same calls."""

from __future__ import annotations

import pytest

import stormproof as sp
from stormproof import lab

ON = (lab.BackendError, sp.AttemptTimeout)


@pytest.mark.parametrize("engine", ["exact", "fast"])
def test_budget_column_grows_with_every_success_before_the_first_failure(engine: str) -> None:
    if engine == "fast":
        pytest.importorskip("numba")
    policy = sp.Policy(sp.Retry(on=ON, budget=sp.Budget(ratio=0.1, burst=10, window=100)))
    calm = lab.Scenario(
        clients=1, arrival_rps=100, capacity_rps=1000, duration=4, arrivals="even", resolution=1
    )
    held = lab.simulate(policy, calm, engine=engine).series["budget"]
    # 100 calls a second, each of which earns a tenth.
    assert held == pytest.approx([20, 30, 40, 50], abs=0.2)


@pytest.mark.parametrize("engine", ["exact", "fast"])
def test_reading_the_budget_column_changes_no_run(engine: str) -> None:
    if engine == "fast":
        pytest.importorskip("numba")
    policy = sp.Policy(sp.Retry(on=ON, budget=sp.Budget(ratio=0.3, burst=1, window=0.5)))
    scenario = lab.Scenario(
        clients=3, arrival_rps=90, capacity_rps=100, timeout=0.3, outage=lab.Outage(2, 1), duration=10
    )
    coarse, fine = (
        lab.simulate(policy, scenario.replace(resolution=width), engine=engine) for width in (5.0, 0.01)
    )
    assert (coarse.attempts, coarse.successes) == (fine.attempts, fine.successes)


@pytest.mark.parametrize("engine", ["exact", "fast"])
def test_amplification_is_at_most_the_attempts_of_a_call_at_every_step(engine: str) -> None:
    if engine == "fast":
        pytest.importorskip("numba")
    policy = sp.Policy(sp.Retry(on=ON, attempts=2, backoff=sp.Constant(0.5), budget=None))
    scenario = lab.Scenario(
        clients=10,
        arrival_rps=100,
        capacity_rps=150,
        timeout=0.3,
        outage=lab.Outage(2, 2),
        faults=[lab.Spike(4, 1, 0.1)],
        duration=10,
    )
    found = [
        value for value in lab.simulate(policy, scenario, engine=engine).series["amplification"] if value
    ]
    assert min(found) >= 1.0 and max(found) == 2.0


def test_amplification_through_layers_is_at_most_the_product_of_their_attempts() -> None:
    policy = sp.Policy(
        sp.Retry(on=ON, attempts=4, backoff=sp.Constant(0.01), budget=None, retry_exhausted=True)
    )
    scenario = lab.Scenario(
        clients=2,
        arrival_rps=5,
        capacity_rps=100,
        outage=lab.Outage(0, 8, "fail"),
        duration=10,
        layers=[lab.Layer("gateway", "same"), lab.Layer("orders", "same")],
        resolution=0.5,
    )
    found = [value for value in lab.simulate(policy, scenario).series["amplification"] if value]
    assert max(found) == 64
