"""A scenario is checked when it is made, frozen, and rebuilt by its repr and by pickle."""

from __future__ import annotations

import json
import math
import pickle
from datetime import timedelta
from typing import Any

import pytest

from stormproof import lab
from stormproof.lab.model.clients_and_layers import Clients, Layer
from stormproof.lab.model.faults import *  # noqa: F403 - for eval
from stormproof.lab.model.scenario import Scenario
from stormproof.lab.model.spread import Spread

FULL = Scenario(
    clients=10,
    arrival_rps=50,
    capacity_rps=60,
    outage=(lab.Outage(2, 0.2), lab.Outage(4, 1, "fail", retry_after=2)),
    latency=Spread("lognormal", 0.01, 0.5),
    timeout=timedelta(seconds=1),
    duration=20,
    service="exponential",
    faults=[lab.Brownout(6, 1), lab.Spike(7, 1), lab.Burst(8, 5)],
    others=[Clients("batch", 2, 5.0)],
    layers=[Layer("gateway", "same", capacity_rps=100)],
    name="full",
)


def test_scenario_is_rebuilt_by_repr_and_pickle() -> None:
    assert eval(repr(FULL)) == FULL
    assert pickle.loads(pickle.dumps(FULL)) == FULL
    assert FULL.replace(clients=11) != FULL
    assert FULL.timeout == 1.0


def test_scenario_is_frozen() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        FULL.clients = 5


def test_scenario_data_is_json() -> None:
    data = json.loads(json.dumps(FULL.to_data(), allow_nan=False))
    assert data["outages"] == [
        {"at": 2.0, "lasts": 0.2, "mode": "hang", "retry_after": None, "cost": None},
        {"at": 4.0, "lasts": 1.0, "mode": "fail", "retry_after": 2.0, "cost": None},
    ]
    assert data["faults"][0] == {"kind": "Brownout", "at": 6.0, "lasts": 1.0, "capacity": 0.5}
    assert data["layers"][0]["policy"] == "same"
    assert (data["capacity_rps"], data["duration"], data["clients"]) == (60.0, 20.0, 10)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("clients", 0, ValueError),
        ("clients", 1.5, TypeError),
        ("clients", True, TypeError),
        ("arrival_rps", -1, ValueError),
        ("arrival_rps", math.nan, ValueError),
        ("capacity_rps", 0, ValueError),
        ("capacity_rps", math.inf, ValueError),
        ("timeout", 0, ValueError),
        ("duration", 0, ValueError),
        ("duration", "30", TypeError),
        ("closed_loop", 1, TypeError),
        ("arrivals", "uniform", ValueError),
        ("service", "gamma", ValueError),
        ("service", Spread("fixed", 0.1), ValueError),
        ("service", 3, TypeError),
        ("latency", -0.1, ValueError),
        ("latency", Spread("exponential"), ValueError),
        ("order", "random", ValueError),
        ("queue", -1, ValueError),
        ("error_rate", 1.1, ValueError),
        ("workers", 0, ValueError),
        ("faults", "outage", TypeError),
        ("faults", [1], TypeError),
        ("outage", 5, TypeError),
        ("others", [1], TypeError),
        ("layers", "gateway", TypeError),
        ("name", "", ValueError),
        ("name", "a\nb", ValueError),
        ("keys", 0, ValueError),
        ("resolution", 1e-9, ValueError),
    ],
)
def test_refused_option_is_named_with_its_value(field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        Scenario(**{field: value})
    said = str(caught.value)
    assert field in said or "kind" in said
    assert repr(value) in said or repr(value).strip("()[]") in said


def test_other_fault_given_as_outage_is_refused() -> None:
    with pytest.raises(TypeError, match="faults="):
        Scenario(outage=lab.Spike(1, 1))  # type: ignore[arg-type]


def test_fault_after_the_end_is_refused() -> None:
    with pytest.raises(ValueError, match=r"duration must reach past .*Outage\(at=30"):
        Scenario(outage=lab.Outage(30, 1), duration=30)


def test_closed_loop_makes_its_own_load() -> None:
    with pytest.raises(ValueError, match="closed loop"):
        Scenario(closed_loop=True, faults=[lab.Spike(1, 1)])
    with pytest.raises(ValueError, match="arrival_rps must be > 0"):
        Scenario(closed_loop=True, arrival_rps=0)


@pytest.mark.parametrize("mode", ["", "HANG", None, 1])
def test_outage_has_two_modes(mode: Any) -> None:
    with pytest.raises(ValueError, match="mode must be one of 'hang', 'fail'"):
        lab.Outage(1, 1, mode)


def test_step_gives_about_600_points() -> None:
    assert Scenario(duration=30).step == 0.05
    assert Scenario(duration=300).step == 0.5
    assert Scenario(duration=100_000).step == pytest.approx(100_000 / 600)
    assert Scenario(duration=30, resolution=1).step == 1.0


def test_recovery_counts_from_the_last_fault() -> None:
    assert Scenario().broken_until == 0.0
    assert Scenario(outage=lab.Outage(2, 3), faults=[lab.Brownout(1, 1)]).broken_until == 5.0
    assert Scenario(faults=[lab.StoreLoss(1, 1)]).broken_until == 0.0


def test_expected_calls_include_bursts_and_spikes() -> None:
    plain = Scenario(arrival_rps=100, duration=10, faults=[lab.Spike(0, 5, factor=3), lab.Burst(1, 70)])
    assert plain.expected_calls == 1000 + 1000 + 70
    assert Scenario(clients=50, think=2, closed_loop=True, duration=10).expected_calls == 250
