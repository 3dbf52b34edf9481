"""Many runs: comparisons, sweeps, search; anywhere, kept, and gone on with."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import stormproof as sp
from stormproof import lab
from stormproof.lab import experiments
from stormproof.lab.results.statistics import mean_of, wilson

ON = (lab.BackendError, sp.AttemptTimeout)
SCENARIO = lab.Scenario(
    clients=10, arrival_rps=75, capacity_rps=100, timeout=0.5, outage=lab.Outage(2, 1), duration=15
)
POLICIES = {
    "naive": sp.Policy(sp.Retry(on=ON, attempts=4, backoff=sp.Constant(0.1), budget=None)),
    "careful": sp.Policy(sp.Retry(on=ON, budget=sp.Budget(burst=1))),
    "none": None,
}


class Counting(Executor):
    """Runs at once, and counts."""

    def __init__(self) -> None:
        self.jobs = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs += 1
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.fixture(scope="module")
def compared() -> lab.Comparison:
    return lab.compare(POLICIES, SCENARIO, seeds=range(4))


def test_comparison_gives_recovery_shares_with_intervals(compared: lab.Comparison) -> None:
    assert isinstance(compared, lab.Comparison)
    assert compared.recovery["naive"].hits == 0
    assert compared.recovery["careful"].hits == 4
    assert compared.best == "careful"
    share = compared.recovery["careful"]
    assert (share.value, share.high) == (1.0, 1.0)
    assert share.low == pytest.approx(0.51, abs=0.005)
    text = str(compared)
    assert "naive" in text
    assert "0% (0% to 49%)" in text
    assert len(compared.metrics["naive"]) == 4


def test_runs_of_a_comparison_equal_single_runs_of_the_seed(compared: lab.Comparison) -> None:
    alone = lab.simulate(POLICIES["naive"], SCENARIO, seed=2, engine="exact")
    assert compared.metrics["naive"][2] == alone.metrics


def test_data_of_a_comparison_has_one_run_per_policy(compared: lab.Comparison, tmp_path: Path) -> None:
    data = json.loads(compared.to_json(tmp_path / "c.json"))
    assert [run["name"] for run in data["runs"]] == list(POLICIES)
    assert data["format"] == 1
    assert (
        data["runs"][0]["series"] == lab.simulate(POLICIES["naive"], SCENARIO, seed=0, engine="exact").series
    )
    assert data["runs"][0]["summary"]["recovered"] == 0.0
    compared.plot(tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["kept.jsonl", pytest.param("kept.parquet", marks=pytest.mark.long)])
def test_saved_experiment_continues_without_rerunning(
    name: str, tmp_path: Path, compared: lab.Comparison
) -> None:
    path = tmp_path / name
    first = Counting()
    lab.compare(POLICIES, SCENARIO, seeds=range(2), executor=first, save=path)
    assert first.jobs == 9, "two seeds and a calm leg for each policy"
    rest = Counting()
    whole = lab.compare(POLICIES, SCENARIO, seeds=range(4), executor=rest, save=path)
    assert rest.jobs == 6, "what is in the file is not run again"
    assert whole.to_json() == compared.to_json()
    other = Counting()
    lab.compare(POLICIES, SCENARIO.replace(clients=11), seeds=range(2), executor=other, save=path)
    assert other.jobs == 9, "another scenario is another experiment"


def test_saved_line_cut_short_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    lab.compare({"none": None}, SCENARIO, seeds=range(3), save=path)
    text = path.read_text()
    path.write_text(text[:-40])
    again = Counting()
    lab.compare({"none": None}, SCENARIO, seeds=range(3), executor=again, save=path)
    assert again.jobs == 1
    assert path.read_text() == text
    path.write_text("garbage\n" + text)
    with pytest.raises(ValueError, match=r"line 1 .* must be JSON"):
        lab.compare({"none": None}, SCENARIO, seeds=range(3), save=path)
    path.write_text("[1]\n")
    with pytest.raises(ValueError, match="must hold results"):
        lab.compare({"none": None}, SCENARIO, seeds=range(3), save=path)


@pytest.mark.long
def test_finished_runs_are_saved_when_a_later_run_fails(tmp_path: Path) -> None:
    path = tmp_path / "kept.parquet"

    def failing(error: Exception) -> bool:
        raise RuntimeError("the user's own bug")

    bad = sp.Policy(
        sp.Retry(on=lambda error: error.status == 503 if hasattr(error, "status") else failing(error))
    )
    with pytest.raises(RuntimeError, match="own bug"):
        lab.compare({"none": None, "bad": bad}, SCENARIO, seeds=[0], save=path)
    import pyarrow.parquet

    assert not path.exists() or pyarrow.parquet.read_table(path)["name"].to_pylist() == ["none"]


def test_comparison_in_local_processes_is_the_same(compared: lab.Comparison) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        there = lab.compare(POLICIES, SCENARIO, seeds=range(4), executor=pool)
    assert there.to_json() == compared.to_json()


@pytest.mark.long
def test_comparison_on_a_dask_cluster_is_the_same(compared: lab.Comparison) -> None:
    import logging

    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
        client.get_executor() as pool,
    ):
        there = lab.compare(POLICIES, SCENARIO, seeds=range(4), executor=pool)
    assert there.to_json() == compared.to_json()


def test_sweep_finds_the_threshold(tmp_path: Path) -> None:
    swept = lab.sweep(
        {"naive": POLICIES["naive"], "none": None},
        SCENARIO,
        {"arrival_rps": [20, 75], "timeout": [0.5]},
        seeds=[0, 1],
    )
    assert [(row["arrival_rps"], row["policy"], row["recovered"]) for row in swept.rows] == [
        (20, "naive", 1.0),
        (20, "none", 1.0),
        (75, "naive", 0.0),
        (75, "none", 1.0),
    ]
    assert swept.threshold("arrival_rps", "naive") == (20, 75)
    assert swept.threshold("arrival_rps", "none") is None
    swept.to_csv(tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text().startswith("arrival_rps,timeout,policy,runs,recovered,")
    assert "arrival_rps" in str(swept)


@pytest.mark.long
def test_sweep_is_written_as_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet

    swept = lab.sweep({"none": None}, SCENARIO, {"arrival_rps": [20, 75]}, seeds=[0])
    swept.to_parquet(tmp_path / "s.parquet")
    columns = pyarrow.parquet.read_table(tmp_path / "s.parquet").to_pydict()
    assert columns["arrival_rps"] == [row["arrival_rps"] for row in swept.rows]


def test_sweep_varies_an_option_of_the_policy() -> None:
    swept = lab.sweep(POLICIES["naive"], SCENARIO, {"policy.attempts": [1, 2, 6]}, seeds=[0])
    loads = [row["amplification"] for row in swept.rows]
    assert loads == sorted(loads)
    assert loads[0] == 1.0


def test_search_keeps_the_bounds_and_shows_the_trade_off(tmp_path: Path) -> None:
    space = {"attempts": [1, 2, 4], "budget": [None, sp.Budget(burst=1)]}
    goal = lab.Objective(availability=0.5, peak=2.0)
    found = lab.tune(SCENARIO, goal, space, seeds=[0, 1])
    assert len(found.trials) == 6
    best = found.trials[0]
    assert found.best is best.policy
    assert best.excess == 0
    assert best.figures["availability"] >= 0.5
    assert best.load <= 2.0 * SCENARIO.capacity_rps
    kept = [trial for trial in found.trials if trial.excess == 0]
    assert best.value == min(trial.value for trial in kept)
    for trial in found.front:
        better = [t for t in found.trials if t.load <= trial.load and t.value < trial.value]
        assert not better
    assert "6 policies tried" in str(found)
    found.plot(tmp_path / "t.png")
    nothing = lab.tune(SCENARIO, lab.Objective(amplification=1.0, availability=1.0), space, seeds=[0])
    assert nothing.best is None
    assert "None keeps the bounds" in str(nothing)


def test_search_draws_from_a_large_space() -> None:
    space = {"attempts": list(range(1, 30)), "within": [float(n) for n in range(1, 30)]}
    short = SCENARIO.replace(duration=4)
    found = [
        lab.tune(short, lambda figures: figures["amplification"], space, seeds=[0], trials=5)
        for _ in range(2)
    ]
    tried = [[trial.options for trial in tuning.trials] for tuning in found]
    assert tried[0] == tried[1]
    assert len({str(options) for options in tried[0]}) == 5
    values = [trial.value for trial in found[0].trials]
    assert values == sorted(values)


def test_wilson_interval_agrees_with_published_values() -> None:
    """Against the values of Wilson (1927) as tabled by Newcombe (1998) for 81/263, 15/148, 0/20, 1/29."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=1e-4)
    assert wilson(20, 20)[1] == 1.0
    assert wilson(0, 0) == (0.0, 1.0)


def test_mean_has_a_95_percent_interval() -> None:
    assert mean_of([]) is None
    assert mean_of([None]) is None
    assert mean_of([2.0, None]) == (2.0, 2.0, 2.0)
    mean, low, high = mean_of([1.0, 2.0, 3.0])  # type: ignore[misc]
    assert mean == 2.0
    assert high - mean == pytest.approx(1.96 / 3**0.5, abs=1e-3) == mean - low


def test_comparison_with_progress_prints_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    lab.compare({"none": None}, SCENARIO.replace(duration=4), seeds=range(2), progress=True)
    assert "simulating" in capsys.readouterr().out


def test_jobs_ahead_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "_AHEAD", 2)
    pool = Counting()
    jobs = [experiments.Job("none", None, SCENARIO.replace(duration=4), seed, "exact") for seed in range(7)]
    rows = experiments.run_all([jobs[:5], jobs[5:]], pool, None)
    assert [[row["seed"] for row in group] for group in rows] == [list(range(5)), [5, 6]]
    assert pool.jobs == 7


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: lab.compare({}, SCENARIO), "policies must be a dict"),
        (lambda: lab.compare({1: None}, SCENARIO), "texts as names"),
        (lambda: lab.compare({"a": None}, SCENARIO, seeds=[]), "seeds must be at least one"),
        (lambda: lab.compare({"a": None}, SCENARIO, seeds=[1, 1]), "each once"),
        (lambda: lab.sweep(None, SCENARIO, {}), "over must map"),
        (lambda: lab.sweep(None, SCENARIO, {"nothing": [1]}), "no option 'nothing'"),
        (lambda: lab.tune(SCENARIO, space={"attempts": []}), "space must map"),
        (lambda: lab.tune("failover"), "tune: scenario must be a lab.Scenario"),  # type: ignore[arg-type]
        (lambda: lab.tune(SCENARIO, "p99"), "tune: objective must be an Objective"),  # type: ignore[arg-type]
        (lambda: lab.tune(SCENARIO, policy=sp.Retry(on=OSError)), "tune: policy must be a Policy"),  # type: ignore[arg-type]
        (lambda: lab.tune(SCENARIO, seeds=[]), "tune: seeds must be at least one"),
        (lambda: lab.tune(SCENARIO, engine="quick"), "tune: engine must be"),
        (lambda: lab.sweep(None, SCENARIO, {"clients": [1]}, seeds=[1, 1]), "sweep: seeds must be"),
        (lambda: lab.sweep(None, "x", {"clients": [1]}), "sweep: scenario must be"),  # type: ignore[arg-type]
        (lambda: lab.sweep(None, SCENARIO, {"keys": range(1, 10**6)}), "sweep: over must give at most"),
        (lambda: lab.Objective("beauty"), "minimise must be one of"),
    ],
)
def test_bad_argument_is_refused(call: Callable[[], object], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        call()


def test_policy_warning_is_issued_once_for_all_runs() -> None:
    with pytest.warns(sp.PolicyWarning, match="odd: on=KeyError") as caught:
        lab.compare({"odd": sp.Policy(sp.Retry(on=KeyError))}, SCENARIO.replace(duration=4), seeds=range(3))
    assert len(caught) == 1
