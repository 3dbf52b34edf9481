"""A result: its figures, its text, its files; progress, and warnings to the user."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stormproof as sp
from stormproof import lab
from stormproof.lab.results import recorder, verdict_text

ON = (lab.BackendError, sp.AttemptTimeout)
SCENARIO = lab.Scenario(
    clients=100,
    arrival_rps=200,
    capacity_rps=300,
    outage=lab.Outage(at=2, lasts=0.5, mode="hang"),
    timeout=0.3,
    duration=10,
)
POLICY = sp.Policy(
    sp.Retry(on=ON, attempts=3, budget=sp.Budget(burst=1)), sp.Breaker(name="reads"), name="reads"
)
COLUMNS = [
    "time",
    "offered",
    "received",
    "goodput",
    "p50",
    "p99",
    "queue",
    "budget",
    "breaker_open",
    "amplification",
    "capacity",
]


@pytest.fixture(scope="module")
def result() -> lab.Result:
    return lab.simulate(POLICY, SCENARIO, seed=42)


def test_figures_of_a_result_are_consistent(result: lab.Result) -> None:
    figures = result.metrics
    assert result.attempts == figures["attempts"] > result.calls > result.successes > 0
    assert result.amplification == result.attempts / result.calls
    assert result.calls_per_success == result.attempts / result.successes
    assert result.goodput == pytest.approx(result.successes / 10)
    assert result.calls == result.successes + sum(figures["failures"].values()) + figures["unfinished"]
    assert 0 < result.p50 < result.p99  # type: ignore[operator]
    assert result.recovered
    assert 0 <= result.recovery_time < 7  # type: ignore[operator]


def test_series_are_columns_of_one_length_that_add_up(result: lab.Result) -> None:
    series = result.series
    assert list(series) == COLUMNS
    assert {len(column) for column in series.values()} == {200}
    step = SCENARIO.step

    def total(name: str) -> float:
        return sum(value or 0.0 for value in series[name]) * step

    assert total("offered") == pytest.approx(result.calls)
    assert total("received") == pytest.approx(result.attempts)
    assert total("goodput") == pytest.approx(result.successes)
    assert series["time"][:3] == [0.0, 0.05, 0.1]
    assert series["capacity"][40] == 0.0 == series["goodput"][45]


def test_data_has_the_shared_form(result: lab.Result) -> None:
    data = json.loads(result.to_json())
    assert {"format", "version", "seed", "engine", "scenario", "runs"} <= data.keys()
    assert (data["format"], data["seed"], data["engine"]) == (1, 42, "exact")
    assert data["version"] == sp.__version__
    (run,) = data["runs"]
    assert {"name", "policy", "verdict", "metrics", "series"} <= run.keys()
    assert run["name"] == "reads"
    assert list(run["series"]) == COLUMNS
    wanted = {"peak_rps", "amplification", "goodput", "recovered", "recovery_time", "attempts", "calls"}
    assert wanted | {"successes", "calls_per_success", "p50", "p99"} <= run["metrics"].keys()
    assert run["verdict"] == result.verdict


def test_policy_is_rebuilt_from_its_texts_in_the_data(result: lab.Result) -> None:
    policy = result.to_data()["runs"][0]["policy"]
    namespace: dict[str, Any] = {}
    exec(policy["python"], namespace)
    assert repr(namespace["policy"]) == repr(POLICY) == policy["repr"]
    from stormproof._config.registry import Registry
    from stormproof._config.sources import parse

    loaded = Registry(lambda: parse(policy["toml"], ".toml"), environ={})["reads"]
    assert repr(loaded) == repr(POLICY)
    by_function = lab.simulate(sp.Policy(sp.Retry(on=lambda error: True)), SCENARIO.replace(duration=3))
    assert by_function.to_data()["runs"][0]["policy"]["toml"] is None


def test_same_seed_gives_the_same_bytes(result: lab.Result) -> None:
    again = lab.simulate(POLICY, SCENARIO, seed=42)
    assert again.to_json() == result.to_json()
    assert lab.simulate(POLICY, SCENARIO, seed=43).to_json() != result.to_json()


def test_simulation_leaves_global_randomness_alone() -> None:
    import random

    import numpy as np

    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    lab.simulate(POLICY, SCENARIO)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_result_is_written_as_csv_json_and_pictures(result: lab.Result, tmp_path: Path) -> None:
    result.to_csv(tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 200
    assert [float(row["offered"]) for row in rows] == result.series["offered"]
    assert rows[45]["p50"] == ""
    result.to_json(tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text()) == result.to_data()
    result.plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes()[:4] == b"\x89PNG"
    result.plot(tmp_path / "run.svg")
    assert "<svg" in (tmp_path / "run.svg").read_text()[:1000]


@pytest.mark.long
def test_series_are_written_as_parquet(result: lab.Result, tmp_path: Path) -> None:
    import pyarrow.parquet

    result.to_parquet(tmp_path / "run.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "run.parquet").to_pydict() == result.series


def test_verdict_is_put_into_words(result: lab.Result) -> None:
    said = str(result)
    assert said.startswith("Recovered ")
    assert f"{result.calls:,} calls" in said
    assert f"{result.peak_rps:,.0f}/s" in said
    stuck = lab.simulate(
        sp.Policy(sp.Retry(on=ON, budget=None)),
        SCENARIO.replace(arrival_rps=280, duration=40, outage=lab.Outage(2, 5)),
    )
    assert str(stuck).startswith("Collapsed: after the fault, goodput was ")
    assert "and can serve 300/s" in str(stuck)
    over = lab.simulate(None, SCENARIO.replace(arrival_rps=400, outage=None))
    assert str(over).startswith("Overloaded: all along, goodput was ")
    calm = lab.simulate(None, SCENARIO.replace(outage=None))
    assert str(calm).startswith("Steady")
    assert (calm.recovered, calm.recovery_time) == (True, None)
    cut = lab.simulate(None, SCENARIO.replace(outage=lab.Outage(2, 20)))
    assert str(cut).startswith("Not seen to recover")
    silent = lab.simulate(None, SCENARIO.replace(arrival_rps=0))
    assert str(silent) == "No calls were made."
    assert math.isnan(silent.amplification)


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        ((), "When the fault ends nothing waits, but for 9 s more fewer calls succeed than are made."),
        (
            (lab.ColdCache(at=5, cost=4, warm=500),),
            "than are made: the caches are cold, and requests cost more.",
        ),
    ],
)
def test_late_recovery_without_a_backlog_is_explained(faults: tuple[Any, ...], why: str) -> None:
    figures = {
        "calls": 1000,
        "state": "recovered late",
        "backlog": 0.0,
        "recovery_time": 9.0,
        "received_rps_after": 100.0,
        "offered_rps_after": 100.0,
        "amplification": 1.0,
    }
    scenario = SCENARIO.replace(faults=faults)
    assert verdict_text.explanation(figures, scenario).endswith(why)


def test_lasting_overload_does_not_count_as_recovery() -> None:
    """320/s on 300/s: goodput is 94 % of the offered load, for ever."""
    place = SCENARIO.replace(arrival_rps=320, timeout=None, duration=60, arrivals="even")
    assert not lab.simulate(None, place).recovered
    assert lab.simulate(None, place.replace(arrival_rps=310)).recovered  # 97 %


@pytest.mark.parametrize(
    "policy", [POLICY, sp.Policy(sp.Hedge(after=0.1, idempotent=True))], ids=["direct", "driven"]
)
def test_progress_fills_in_and_ends_the_run(policy: sp.Policy) -> None:
    seen: list[lab.Progress] = []
    whole = lab.simulate(policy, SCENARIO, seed=1, progress=seen.append)
    assert 20 <= len(seen) <= 50
    assert [state.now for state in seen] == sorted({state.now for state in seen})
    assert {state.until for state in seen} == {10.0}
    middle = seen[len(seen) // 2]
    length = len(middle.series["time"])
    assert 0 < length < 200
    assert middle.series["offered"] == whole.series["offered"][:length]
    assert whole.to_json() == lab.simulate(policy, SCENARIO, seed=1).to_json(), "watching changes nothing"

    stopped = lab.simulate(policy, SCENARIO, seed=1, progress=lambda state: state.now < 4)
    assert stopped.metrics["until"] == pytest.approx(4, abs=0.3)
    kept = len(stopped.series["time"]) - 1
    assert stopped.series["offered"][:kept] == whole.series["offered"][:kept]


def test_policy_that_retries_nothing_in_the_lab_warns() -> None:
    with pytest.warns(sp.PolicyWarning, match=r"KeyError.* matches neither lab\.BackendError"):
        lab.simulate(sp.Policy(sp.Retry(on=KeyError)), SCENARIO)
    batch = lab.Clients("batch", 1, 1.0, sp.Policy(sp.Retry(on=KeyError)))
    with pytest.warns(sp.PolicyWarning, match="clients 'batch'"):
        lab.simulate(POLICY, SCENARIO.replace(others=[batch]))
    # Either of the two is enough, and so are their bases.
    for on in (lab.BackendError, sp.AttemptTimeout, ConnectionError, TimeoutError, Exception, sp.transient):
        lab.simulate(sp.Policy(sp.Retry(on=on)), SCENARIO.replace(duration=3))


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"policy": 5}, TypeError, "policy must be a Policy"),
        ({"policy": sp.Retry}, TypeError, "policy must be a Policy"),
        ({"scenario": {}}, TypeError, "scenario must be a lab.Scenario"),
        ({"seed": -1}, ValueError, "seed must be >= 0"),
        ({"seed": 1.5}, TypeError, "seed must be a whole number"),
        ({"engine": "slow"}, ValueError, "engine must be one of"),
        ({"progress": 1}, TypeError, "progress must be callable"),
    ],
)
def test_bad_argument_is_refused(given: dict[str, Any], error: type[Exception], says: str) -> None:
    arguments: dict[str, Any] = {"policy": POLICY, "scenario": SCENARIO, **given}
    with pytest.raises(error, match=says):
        lab.simulate(**arguments)


@pytest.mark.parametrize(
    ("scenario", "says", "recovered"),
    [
        (lab.Scenario(arrival_rps=0, duration=0.01), "No calls were made.", True),
        (lab.Scenario(workers=1000), "Fell short: all along, goodput was 69/s of 97/s offered. ", False),
        (lab.Scenario(duration=10, latency=3), "Fell short: ", False),
        (lab.Scenario(arrival_rps=200), "Overloaded: all along, goodput was 120/s of 197/s offered, ", False),
        (lab.Scenario(), "Steady: goodput kept up with the offered load. ", True),
        (lab.Scenario(faults=lab.StoreLoss(1, 2)), "Steady: ", True),
    ],
)
def test_scenario_without_a_fault_has_no_recovery_time(
    scenario: lab.Scenario, says: str, recovered: bool
) -> None:
    result = lab.simulate(None, scenario)
    assert str(result).startswith(says)
    assert (result.recovered, result.recovery_time) == (recovered, None)


def test_fault_at_time_zero_counts_for_recovery() -> None:
    cold = lab.simulate(None, lab.Scenario(arrival_rps=50, duration=60, faults=lab.ColdCache(0, 5, 500)))
    assert str(cold).startswith("Recovered ") and cold.recovery_time > 1  # type: ignore[operator]


def test_single_strategy_is_a_policy() -> None:
    one = lab.simulate(sp.Retry(on=ON), SCENARIO, seed=3)
    assert one.metrics == lab.simulate(sp.Policy(sp.Retry(on=ON)), SCENARIO, seed=3).metrics


def test_exact_engine_refuses_runs_of_too_many_calls() -> None:
    huge = lab.Scenario(clients=10, arrival_rps=1e7, capacity_rps=1e7, duration=60)
    says = (
        r"Scenario: arrival_rps times duration \(got 1e\+07/s for 60 s\) must make at most 50,000,000 calls "
        "for the exact engine, got about 600,000,000; use engine='fast'"
    )
    with pytest.raises(ValueError, match=says):
        lab.simulate(POLICY, huge, engine="exact")


@pytest.mark.parametrize("engine", ["auto", "fast", "exact"])
def test_every_engine_refuses_more_calls_than_it_can_make(engine: str) -> None:
    spike = lab.Scenario(faults=lab.Spike(5, 1, 1e9))
    says = r"Scenario: faults \(got Spike\(.*factor=1000000000.0\)\) must make at most [0-9,]+ calls"
    with pytest.raises(ValueError, match=says):
        lab.simulate(POLICY, spike, engine=engine)


def test_percentiles_are_the_smallest_value_that_is_enough() -> None:
    """The nearest-rank percentile of each step, of values in any order."""
    import numpy as np

    from stormproof.lab.results.recorder import _percentiles

    places = np.array([0] * 100 + [2] * 3)
    values = np.array([*range(100, 0, -1), 7.0, 5.0, 6.0])
    p50, p99 = _percentiles(places, values, 4)
    np.testing.assert_array_equal(p50, [50, np.nan, 6, np.nan])
    np.testing.assert_array_equal(p99, [99, np.nan, 7, np.nan])


def test_backend_errors_can_be_pickled() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(lab.BackendError(429)))
    assert (type(error), error.status) == (lab.BackendError, 429)
    assert isinstance(error, ConnectionError)


def test_importing_the_lab_loads_only_numpy() -> None:
    def loaded(module: str) -> set[str]:
        code = f"import sys, {module}; print(*sys.modules)"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return set(ran.stdout.split())

    assert not loaded("stormproof.lab") & {"numba", "matplotlib", "pyarrow", "rich", "starlette", "dask"}
    assert "numpy" not in loaded("stormproof")


def test_progress_ranks_each_success_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[int] = []
    whole = recorder._percentiles

    def counting(places: Any, values: Any, size: int) -> Any:
        ranked.append(len(values))
        return whole(places, values, size)

    monkeypatch.setattr(recorder, "_percentiles", counting)
    columns: list[Any] = []
    watched = lab.simulate(POLICY, SCENARIO, seed=1, progress=lambda state: columns.append(state.series))
    assert len(ranked) == len(columns) + 1 == 41
    assert sum(ranked) < 1.5 * watched.successes, "each, and those of the last step of each reading again"
    alone = lab.simulate(POLICY, SCENARIO, seed=1)
    assert watched.series == alone.series
    # What was shown on the way is what the end shows, up to the step before the moment.
    for shown in columns:
        until = len(shown["p99"]) - 1
        assert shown["p99"][:until] == alone.series["p99"][:until]


def test_decorated_function_stands_for_its_policy() -> None:
    @POLICY
    def read() -> None: ...

    wanted = lab.simulate(POLICY, SCENARIO, seed=3)
    assert lab.simulate(read, SCENARIO, seed=3).metrics == wanted.metrics
