"""Scenarios in policy files: what they say, and what an error says about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stormproof as sp
from stormproof import lab
from stormproof._config.errors import ConfigError

FILE = """
[policies.mine]
retry = { attempts = 3 }

[policies.batch]
retry = { attempts = 1 }

[scenarios.checkout]
clients = 40
arrival_rps = 300
capacity_rps = 400
timeout = "800ms"
duration = "1m"
error_rate = 0.01
cost = 0.5
service = { kind = "lognormal", sigma = 0.5 }
latency = { p50 = "20ms", p99 = "100ms" }
outage = { at = "10s", lasts = "5s", mode = "fail", cost = 1 }
faults = [
  { kind = "brownout", at = "20s", lasts = "2s", capacity = 0.5 },
  { kind = "cold-cache", at = 30, cost = 3, warm = 100 },
]
others = [{ name = "nightly", clients = 2, arrival_rps = 5, policy = "batch" }]
layers = [{ name = "gateway", policy = "same", instances = 2 }]

[scenarios.small]
arrivals = { times = [0.5, 0.25, 3] }
duration = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stormproof.toml"
    path.write_text(FILE)
    return path


def test_scenario_of_a_file_is_the_one_of_the_constructor(file: Path) -> None:
    found = lab.Scenario.load(file, "checkout")
    wanted = lab.Scenario(
        clients=40,
        arrival_rps=300,
        capacity_rps=400,
        timeout=0.8,
        duration=60,
        error_rate=0.01,
        cost=0.5,
        service=lab.Spread("lognormal", sigma=0.5),
        latency=lab.Spread.of(p50=0.02, p99=0.1),
        outage=lab.Outage(10, 5, "fail", cost=1),
        faults=[lab.Brownout(20, 2, 0.5), lab.ColdCache(30, 3, 100)],
        name="checkout",
    )
    assert found.replace(others=(), layers=()) == wanted
    assert [(group.name, len(group.policy.strategies)) for group in found.others] == [("nightly", 1)]
    assert [(layer.name, layer.policy, layer.instances) for layer in found.layers] == [("gateway", "same", 2)]


def test_policies_of_a_file_with_scenarios_load_as_before(file: Path) -> None:
    assert list(sp.load(str(file))) == ["mine", "batch"]


def test_scenario_needs_no_name_when_it_is_alone(tmp_path: Path) -> None:
    path = tmp_path / "alone.json"
    path.write_text(
        json.dumps({"scenarios": {"only": {"clients": 3, "outage": [{"at": 1, "lasts": "100ms"}]}}})
    )
    found = lab.Scenario.load(path)
    assert (found.name, found.clients, found.outage) == ("only", 3, lab.Outage(1, 0.1))


def test_trace_path_is_relative_to_its_scenario_file(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("when,what\n1700000000.5,GET\n1700000001.0,GET\n1700000000.0,PUT\n")
    path = tmp_path / "s.toml"
    path.write_text('[scenarios.traced]\narrivals = { file = "trace.csv" }\nduration = 2\n')
    found = lab.Scenario.load(path)
    assert found.arrivals == lab.Trace([0.0, 0.5, 1.0])
    assert found.arrival_rps == 1.5


@pytest.mark.parametrize("engine", ["exact", "fast"])
def test_trace_gives_the_arrivals(engine: str, file: Path) -> None:
    if engine == "fast":
        pytest.importorskip("numba")
    result = lab.simulate(None, lab.Scenario.load(file, "small"), engine=engine)
    assert result.calls == 2, "the third comes after the end"
    begun = [time for time, rate in zip(result.series["time"], result.series["offered"], strict=True) if rate]
    assert begun == [0.25, 0.5]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (
            "client = 3",
            "2: scenarios.x.client: unknown field of a scenario 'client'; did you mean 'clients'?",
        ),
        ("clients = 0", "1: scenarios.x: Scenario: clients must be"),
        ('duration = "long"', "2: scenarios.x.duration: a duration must read like"),
        ('faults = [{ kind = "brown" }]', "scenarios.x.faults[0].kind: unknown kind of fault 'brown'"),
        ("faults = [{ at = 1 }]", "scenarios.x.faults[0]: must have a kind: outage, brownout"),
        ("outage = { at = 1 }", "scenarios.x.outage: "),
        ("outage = { at = 1, lasts = 1, cots = 1 }", "unknown option of outage 'cots'; did you mean 'cost'?"),
        ("latency = { p50 = 1, p9 = 2 }", "unknown option of a spread 'p50'"),
        ('others = [{ name = "a", clients = 1, arrival_rps = 1, policy = "b" }]', "unknown policy 'b'"),
        ("layers = 3", "scenarios.x.layers: must be a list of tables, got 3"),
        ('arrivals = { file = "none.csv" }', "scenarios.x.arrivals.file: none.csv: No such file"),
        ("arrivals = { each = 1 }", "scenarios.x.arrivals: must be 'poisson', 'even'"),
        ("arrivals = { times = [] }", "scenarios.x.arrivals: Trace: times must hold at least one"),
    ],
)
def test_mistake_is_reported_with_its_place(table: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f"[scenarios.x]\n{table}\n[policies.p]\nretry = {{}}\n")
    with pytest.raises(ConfigError) as raised:
        lab.Scenario.load(path, "x")
    assert says in str(raised.value)


def test_unknown_and_missing_names_are_reported(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown scenario 'smal'; did you mean 'small'"):
        lab.Scenario.load(file, "smal")
    with pytest.raises(ConfigError, match="it has 2: checkout, small"):
        lab.Scenario.load(file)
    (tmp_path / "none.toml").write_text("[policies.p]\nretry = {}\n")
    with pytest.raises(ConfigError, match="it has none"):
        lab.Scenario.load(tmp_path / "none.toml")
