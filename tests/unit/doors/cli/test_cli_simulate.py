"""``stormproof simulate``: a verdict for CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")

from stormproof import cli

FILE = """
[policies.steady]
retry = { attempts = 2, on = "my.own.Error" }
timeout = "500ms"

[policies.storm]
retry = { attempts = 6, backoff = { kind = "constant", wait = "100ms" }, budget = "none" }
timeout = "500ms"

[scenarios.own]
clients = 10
arrival_rps = 75
capacity_rps = 100
timeout = "500ms"
outage = { at = "2s", lasts = "1s" }
duration = "15s"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stormproof.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulated(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[dict[str, Any]]]:
    code = cli.main(["simulate", *argv, "--json"])
    runs: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["runs"]
    return code, runs


def test_recovered_run_exits_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, (run,) = simulated(
        capsys, "stormproof.toml:steady", "--scenario", "rolling-deploy", "--scale", "0.1"
    )
    assert code == 0 and run["name"] == "steady" and run["metrics"]["recovered"] is True
    assert run["metrics"]["attempts"] > run["metrics"]["calls"], "a class of the application's own is retried"


def test_collapsed_run_exits_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--scenario", "metastable", "--scale", "0.05")
    code, (run,) = simulated(capsys, "stormproof.toml:storm", *options)
    assert code == 1 and run["metrics"]["recovered"] is False
    assert cli.main(["simulate", "stormproof.toml:storm", *options]) == 1
    out = capsys.readouterr().out
    assert out.startswith("storm: collapsed\n  Collapsed: ") and "\x1b" not in out


def test_seed_decides_the_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("stormproof.toml:steady", "--scenario", "rolling-deploy", "--scale", "0.05")
    first, again, other = (simulated(capsys, *options, "--seed", seed)[1] for seed in ("3", "3", "4"))
    assert first == again and first[0]["metrics"] != other[0]["metrics"]


def test_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    from stormproof.lab.scenarios import scenarios

    assert cli.main(["simulate", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(scenarios)
    assert cli.main(["simulate", "--list", "--json"]) == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)["scenarios"]} == set(scenarios)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["stormproof.toml"], "give a --scenario"),
        (["--scenario", "herd"], "give either a policy file or --python"),
        (["stormproof.toml", "--scenario", "hurd"], "did you mean 'herd'?"),
        (["stormproof.toml", "--scenario", "herd", "--scale", "2"], "--scale: must be a number above 0"),
        (["stormproof.toml", "--scenario", "herd", "--scale", "nan"], "--scale: must be a number above 0"),
        (["stormproof.toml", "--scenario", "herd", "--seed", "x"], "--seed: must be a whole number"),
        (["stormproof.toml", "--scenario", "herd", "--engine", "warp"], "--engine: unknown value 'warp'"),
        (["stormproof.toml", "--scenario", "herd", "--seeds", "0"], "--seeds: must be a whole number >= 1"),
        (["stormproof.toml", "--scenario", "herd", "--assert", "a <"], "--assert: must read like"),
        (["stormproof.toml", "--scenario", "herd", "--assert", "steedy.p99 < 1"], "did you mean 'steady'?"),
        (["stormproof.toml", "--scenario", "no.toml:x"], "no.toml: No such file"),
        (["stormproof.toml", "--scenario", "stormproof.toml:own", "--scale", "0.5"], "--scale: must be 1"),
    ],
)
def test_mistakes_are_one_line_and_2(
    argv: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["simulate", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("stormproof: ") and err.count("\n") == 1 and says in err


OWN = ("stormproof.toml", "--scenario", "stormproof.toml:own", "--seeds", "3")


def test_scenario_of_the_file_over_seeds_counts_the_states(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["simulate", *OWN]) == 1
    out = capsys.readouterr().out
    assert "storm, 3 seeds: 3 collapsed" in out and "steady, 3 seeds: 2 survived, 1 recovered late" in out


@pytest.mark.parametrize(
    ("claim", "code", "says"),
    [
        ("steady.recovered", 0, "steady.recovered: holds in 3 of 3 runs"),
        ("steady.state != 'collapsed' and steady.recovery_time < 30", 0, "holds in 3 of 3 runs"),
        ("steady.availability > 2 * storm.availability", 0, "holds in 3 of 3 runs"),
        ("recovered", 1, "recovered: DOES NOT HOLD in 3 of 6 runs"),
        ("not recovered or amplification < 2", 0, "holds in 6 of 6 runs"),
        ("recovery_time < 1000", 1, "DOES NOT HOLD in 3 of 6 runs"),
        ("'storm'.p99 >= 0", 0, "holds in 3 of 3 runs"),
    ],
)
def test_claims_decide_the_exit_code(
    claim: str, code: int, says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["simulate", *OWN, "--assert", claim]) == code
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        ("availabilty > 1", "unknown figure 'availabilty'; did you mean 'availability'?"),
        ("p99 < 'a'", "compares a text with a number"),
        ("__import__('os')", "cannot be part of a claim"),
        ("p99 in steady.p50", "p99 must say of which policy"),
        ("steady.p99 in steady.p50", "must compare with"),
        ("steady.p99 < 1 / 0", "cannot be computed"),
    ],
)
def test_claim_that_cannot_be_read_is_2(
    claim: str, says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["simulate", *OWN, "--assert", claim]) == 2
    assert says in capsys.readouterr().err


def test_json_has_every_run_and_claim(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", *OWN, "--assert", "steady.recovered", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert len(data["runs"]) == 6
    assert data["claims"] == [{"claim": "steady.recovered", "runs": 3, "held": 3}]


def test_report_without_a_built_page_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from stormproof.lab.results import report

    def missing() -> str:
        raise report.PageMissing("the lab's page is not built")

    monkeypatch.setattr(report, "page", missing)
    assert cli.main(["simulate", *OWN[:3], "--report", "out.html"]) == 2
    err = capsys.readouterr().err
    assert err == "stormproof: --report: the lab's page is not built\n"


def test_report_holds_every_policy_of_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from stormproof.lab.results import report

    written: list[Any] = []
    monkeypatch.setattr(report, "write", lambda path, data: written.append((path, data)))
    cli.main(["simulate", *OWN, "--report", "out.html"])
    ((path, data),) = written
    assert path == "out.html" and [run["name"] for run in data["runs"]] == ["steady", "storm"]
    assert data["headline"].startswith(
        "With “storm” the service never comes back; with “steady” it comes back after "
    )
