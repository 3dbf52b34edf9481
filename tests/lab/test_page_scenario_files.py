"""Scenarios of the reader's own on the page: files opened there, and files saved from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.lab.random_runs import scenario as random_scenario

import stormproof as sp
from stormproof import lab
from stormproof._config.errors import ConfigError
from stormproof.lab.model import scenario_table
from stormproof.lab.page import runs as page_runs
from stormproof.lab.page import scenario as page_scenario
from stormproof.lab.policy_text import toml
from stormproof.lab.scenarios import scenarios

FILE = """
[budgets.shared]
ratio = 0.2

[policies.eager]
retry = { attempts = 5, budget = "shared" }

[policies.calm]
retry = { attempts = 2 }

[scenarios.checkout]
clients = 40
arrival_rps = 300
capacity_rps = 400
timeout = "800ms"
duration = "30s"
service = { kind = "lognormal", sigma = 0.5 }
outage = { at = "10s", lasts = "5s", mode = "fail", cost = 1 }
faults = [{ kind = "brownout", at = "20s", lasts = "2s", capacity = 0.5 }]

[scenarios.quiet]
arrival_rps = 3
capacity_rps = 10
duration = 20
"""


def request(text: str, name: str, **changes: Any) -> dict[str, Any]:
    (sheet,) = [each for each in page_scenario.describe_file(text) if each["id"] == name]
    policies = [{"toml": each["toml"], "name": each["title"]} for each in sheet["policies"]]
    return {
        "scenario": name,
        "values": {**sheet["values"], **changes},
        "seed": 1,
        "policies": policies,
        "file": text,
    }


def loaded(tmp_path: Path, text: str, name: str) -> lab.Scenario:
    path = tmp_path / "saved.toml"
    path.write_text(text)
    return lab.Scenario.load(path, name)


def test_opened_file_lists_its_scenarios_and_policies() -> None:
    checkout, quiet = page_scenario.describe_file(FILE)
    assert (checkout["id"], quiet["id"]) == ("checkout", "quiet")
    assert checkout["values"]["arrival_rps"] == 300
    assert checkout["values"]["outage_mode"] == "fail"
    assert [fault["kind"] for fault in checkout["faults"]] == ["Brownout"]
    assert (checkout["fixed"], quiet["fixed"]) == ([], ["outage_at", "outage_lasts", "outage_mode"])
    assert [policy["title"] for policy in checkout["policies"]] == ["eager", "calm"]


def test_opened_scenario_is_run_with_the_sliders_values_in_it() -> None:
    asked = request(FILE, "checkout", arrival_rps=200)
    made = page_scenario.make(asked["scenario"], asked["values"], FILE)
    assert (made.arrival_rps, made.clients, made.service.sigma) == (200, 40, 0.5)
    assert made.faults == (lab.Brownout(20, 2, 0.5),)
    (outage,) = made.outages
    assert (outage.at, outage.lasts, outage.mode, outage.cost) == (10, 5, "fail", 1)


def test_saved_file_holds_the_scenario_and_the_policies_that_were_on_the_page(tmp_path: Path) -> None:
    text = page_runs.to_policy_file(request(FILE, "checkout", clients=7))
    made = loaded(tmp_path, text, "checkout")
    assert made == lab.Scenario.load(write(tmp_path, FILE), "checkout").replace(clients=7)
    registry = sp.load(tmp_path / "saved.toml")
    assert {name: registry[name].strategies[0].attempts for name in registry} == {"eager": 5, "calm": 2}
    assert registry["eager"].strategies[0].budget.ratio == 0.2


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "given.toml"
    path.write_text(text)
    return path


def test_saved_scenario_file_round_trips() -> None:
    text = page_runs.to_policy_file(request(FILE, "checkout"))
    assert page_runs.to_policy_file(request(text, "checkout")) == text


def test_policies_of_one_name_are_both_saved() -> None:
    asked = request(FILE, "quiet")
    other = "[policies.calm]\nretry = { attempts = 9 }\n"
    asked["policies"] = [asked["policies"][1], {"toml": other, "name": "calm"}]
    sheet = page_scenario.describe_file(page_runs.to_policy_file(asked))[0]
    assert [policy["title"] for policy in sheet["policies"]] == ["calm", "calm 2"]


@pytest.mark.parametrize("name", scenarios)
def test_shipped_scenario_is_read_back_from_its_table(tmp_path: Path, name: str) -> None:
    shipped = scenarios[name].scenario
    row, policies = scenario_table.table(shipped)
    data = {"policies": {who: {"retry": {}} for who in policies}, "scenarios": {"x": row}}
    read = loaded(tmp_path, toml(data), "x")
    for field in set(shipped.fields()) - {"name", "others", "layers"}:
        assert getattr(read, field) == getattr(shipped, field), field
    assert [each.name for each in (*read.others, *read.layers)] == [
        each.name for each in (*shipped.others, *shipped.layers)
    ]


def test_random_scenarios_are_read_back_from_their_tables(tmp_path: Path) -> None:
    from random import Random

    for seed in range(60):
        made = random_scenario(Random(f"table {seed}"))
        row, _ = scenario_table.table(made)
        assert loaded(tmp_path, toml({"scenarios": {"x": row}}), "x") == made.replace(name="x")


@pytest.mark.parametrize(
    "spread",
    [
        lab.Spread("exponential", 0.2),
        lab.Spread.of(p50=0.1, p99=0.4),
        lab.Spread.from_samples([0.1, 0.2, 0.4]),
        lab.Spread.from_histogram([0, 0.1, 0.5], [3, 1]),
    ],
    ids=lambda spread: spread.kind,
)
def test_latency_of_every_kind_is_read_back(tmp_path: Path, spread: lab.Spread) -> None:
    row, _ = scenario_table.table(lab.Scenario(latency=spread))
    assert loaded(tmp_path, toml({"scenarios": {"x": row}}), "x").latency == spread


def test_service_that_is_a_function_cannot_be_saved() -> None:
    made = lab.Scenario(capacity_rps=10, service=lambda rng: 0.1)
    with pytest.raises(ValueError, match=r"^Scenario: service must be data to be saved, got a function"):
        scenario_table.table(made)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[policies.p]\nretry = {}\n", "must have a table"),
        ("[scenarios.x]\nclients = 0\n", "clients must be >= 1, got 0"),
        ("[scenarios.x]\ncleints = 1\n", "did you mean 'clients'"),
        ('[scenarios.x]\narrivals = { file = "/etc/passwd" }\n', "must not be given here"),
        ('[policies.p]\nretry = { on = "os.system" }\n[scenarios.x]\n', "nothing is imported"),
        ('[store]\nurl = "redis://x"\n[scenarios.x]\n', "nothing connects to a store"),
        ("[scenarios.x]\nclients = 200000\n", "Clients must be a number from 1 to 100000"),
        ("x" * 70_000, "at most 65536 characters"),
    ],
)
def test_file_that_the_page_cannot_open_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        page_scenario.describe_file(text)


@pytest.mark.parametrize("file", [7, ["x"], {}])
def test_file_that_is_not_text_is_refused(file: Any) -> None:
    with pytest.raises(ConfigError, match="must be the text of a policy file"):
        page_scenario.describe_file(file)
