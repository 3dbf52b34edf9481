"""The fast engine gives the run that the exact engine gives: the same draws, calls and columns."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import numpy as np
import pytest

import stormproof as sp
from stormproof import lab
from stormproof.lab.engines.numba import engine
from stormproof.lab.model import arrivals
from stormproof.lab.results.metrics import metrics
from stormproof.lab.results.recorder import Raw, SoFar
from stormproof.lab.scenarios import scenarios
from stormproof.lab.simulate import exact

ON = (lab.BackendError, sp.AttemptTimeout)
HANG, FAIL = lab.Outage(3, 1.5), lab.Outage(3, 1.5, "fail")


def scenario(**changes: Any) -> lab.Scenario:
    base: dict[str, Any] = {
        "clients": 20,
        "arrival_rps": 280,
        "capacity_rps": 300,
        "duration": 12,
        "timeout": 0.7,
        "outage": HANG,
    }
    return lab.Scenario(**{**base, **changes})


def policy(*around: Any, **options: Any) -> sp.Policy:
    return sp.Policy(*around, sp.Retry(**{"on": ON, **options}))


def waits(backoff: Any) -> sp.Policy:
    return policy(backoff=backoff, budget=None, attempts=6)


NO_JITTER = sp.Exponential(jitter="none")


def on_a_grid(**changes: Any) -> lab.Scenario:
    """All happens at multiples of 1/512 s, which floats hold exactly: much of it at the same moment."""
    given: dict[str, Any] = {
        "arrivals": "even",
        "clients": 4,
        "arrival_rps": 256,
        "capacity_rps": 512,
        "timeout": 0.25,
        "outage": lab.Outage(2, 0.5),
        "faults": [lab.Brownout(2, 6, 0.5)],
    }
    return scenario(**{**given, **changes})


SPENT = policy(attempts=9, backoff=sp.Constant(0.0625), budget=sp.Budget(1, burst=0, window=0.25))
GRID = policy(backoff=sp.Constant(0.0625), budget=sp.Budget(0.25, burst=1))

CASES: dict[str, tuple[sp.Policy | None, lab.Scenario]] = {
    "no policy": (None, scenario()),
    "no policy, no timeout": (None, scenario(timeout=None)),
    "only a timeout": (sp.Policy(sp.Timeout(0.2)), scenario(outage=FAIL)),
    # Where nothing is random, the same moments come up again and again: every tie must fall the same way.
    "even, fixed, no jitter": (policy(backoff=NO_JITTER), scenario(arrivals="even", arrival_rps=250)),
    "even, fixed, no jitter, refused": (
        policy(backoff=sp.Constant(0.1), budget=None),
        scenario(arrivals="even", arrival_rps=250, outage=FAIL),
    ),
    "even, at once": (
        policy(backoff=sp.Constant(0), budget=sp.Budget(burst=2)),
        scenario(arrivals="even", arrival_rps=200, capacity_rps=200, workers=4, outage=FAIL, timeout=0.25),
    ),
    "ties": (GRID, on_a_grid()),
    "ties, no budget": (policy(backoff=sp.Constant(0.125), budget=None), on_a_grid()),
    "ties, fleet": (GRID, on_a_grid(fleet=True)),
    "ties, one client": (GRID, on_a_grid(clients=1, workers=4)),
    "ties, quota": (policy(backoff=sp.Constant(0.0625), budget=sp.QuotaBudget(20)), on_a_grid()),
    "ties, latency": (GRID, on_a_grid(latency=0.0625)),
    "ties, answered as the caller goes": (
        GRID,
        on_a_grid(timeout=2 / 512, faults=[lab.Brownout(4, 4, 0.5), lab.Burst(9, 256, over=1)]),
    ),
    # Each success pays for one retry: whether it comes before the failure of the same moment decides.
    "ties, all that is earned is spent": (SPENT, on_a_grid(clients=1)),
    "ties, all that is earned is spent, fleet": (
        policy(attempts=9, backoff=sp.Constant(0.0625), budget=sp.Budget(0.5, burst=0, window=0.25)),
        on_a_grid(fleet=True, workers=8, service="fixed", error_rate=0.5, timeout=0.0625),
    ),
    "ties, all that is earned is spent, errors": (SPENT, on_a_grid(clients=2, error_rate=0.25, workers=2)),
    "budget": (policy(), scenario()),
    "budget, long window": (policy(budget=sp.Budget(0.5, burst=0, window=30)), scenario(clients=3)),
    "budget, short window": (policy(budget=sp.Budget(0.3, burst=1, window=0.01)), scenario(clients=3)),
    "budget, one client, many workers": (
        policy(),
        scenario(clients=1, workers=20, service="exponential", outage=FAIL),
    ),
    "fleet budget": (policy(), scenario(fleet=True, outage=FAIL)),
    "window budget": (policy(budget=sp.WindowBudget(floor=0.2, window=3)), scenario()),
    "quota": (
        policy(budget=sp.QuotaBudget(50, retry_cost=5, timeout_cost=10, success_credit=1, throttle_cost=3)),
        scenario(limit_rps=200),
    ),
    "quota, fleet": (policy(budget=sp.QuotaBudget(500)), scenario(fleet=True)),
    "throttle budget": (policy(budget=sp.ThrottleBudget()), scenario(outage=FAIL)),
    "rate budget": (policy(budget=sp.RateBudget(0.5, 2)), scenario()),
    "rate budget, none": (policy(budget=sp.RateBudget(1, 0)), scenario()),
    "rate budget that waits": (policy(budget=sp.RateBudget(1, 2, wait=True), within=4), scenario()),
    "unending": (
        policy(attempts=None, within=2, late="clip", budget=None),
        scenario(outage=lab.Outage(9, 3, "fail")),
    ),
    "within": (policy(within=0.3, budget=None), scenario(outage=FAIL)),
    "full": (waits(sp.Exponential(0.05, factor=3, cap=1, min=0.1)), scenario()),
    "equal": (waits(sp.Linear(jitter="equal")), scenario()),
    "symmetric": (waits(sp.Fibonacci(jitter=sp.Symmetric(0.3))), scenario()),
    "schedule": (waits(sp.Schedule([0.3, 0.1, 0.7])), scenario(outage=FAIL)),
    "decorrelated": (waits(sp.Decorrelated(0.05)), scenario(outage=FAIL)),
    "decorrelated, sample": (waits(sp.Decorrelated(0.1, clip="sample", cap=0.5)), scenario(outage=FAIL)),
    "hints": (policy(budget=None), scenario(outage=lab.Outage(3, 1.5, "fail", retry_after=0.4))),
    "hint too long": (
        policy(max_hint=1),
        scenario(error_rate=0.1, retry_after=2, outage=lab.Outage(3, 1.5, "fail", retry_after=0.5)),
    ),
    "not retried": (policy(on=lab.BackendError), scenario()),
    "transient": (policy(on=sp.transient), scenario(limit_rps=250, outage=FAIL)),
    "errors": (policy(), scenario(faults=[lab.Errors(2, 5, 0.4), lab.Errors(4, 4, 0.2)], error_rate=0.05)),
    "brown-out and ramp": (policy(), scenario(faults=[lab.Brownout(1, 2, 0.4), lab.Ramp(4.5, 3)])),
    "deploy": (policy(), scenario(outage=None, faults=[lab.Deploy(2, 6, instances=4)])),
    "partition": (
        policy(),
        scenario(outage=None, faults=[lab.Partition(2, 2, 0.4), lab.Partition(3, 3, 0.2, "fail")]),
    ),
    "spike and bursts": (
        policy(),
        scenario(faults=[lab.Spike(1, 1, 3), lab.Burst(2, 300), lab.Burst(2.0, 200, over=1.5)]),
    ),
    "only bursts": (policy(), scenario(arrival_rps=0, faults=[lab.Burst(2, 900, over=0.5)])),
    "cold caches": (
        policy(),
        scenario(
            arrival_rps=150,
            faults=[lab.ColdCache(4.5, 4, 300), lab.ColdCache(7, 3, 200)],
            service="exponential",
        ),
    ),
    "queue": (policy(), scenario(queue=30)),
    "no queue": (policy(), scenario(queue=0, workers=3)),
    "shed": (policy(budget=None), scenario(shed=True)),
    "shed, queue": (policy(budget=None), scenario(shed=True, queue=100, retry_after=0.1)),
    "exponential service": (policy(), scenario(service="exponential")),
    "lognormal service, workers": (policy(), scenario(service="lognormal", workers=7)),
    "latency": (policy(), scenario(latency=0.05)),
    "latency, even": (
        policy(backoff=NO_JITTER),
        scenario(latency=0.1, arrivals="even", arrival_rps=200, outage=FAIL),
    ),
    "latency beyond the timeout": (
        policy(budget=None),
        scenario(latency=lab.Spread("exponential", 0.4), timeout=0.2, arrival_rps=100),
    ),
    "latency, spread": (policy(), scenario(latency=lab.Spread("exponential", 0.2), outage=FAIL)),
    "latency, lognormal, errors": (
        policy(),
        scenario(latency=lab.Spread("lognormal", 0.1, 0.5), error_rate=0.2, service="exponential"),
    ),
    "extra latency": (policy(), scenario(faults=[lab.Latency(2, 3, 0.6)], latency=0.01)),
    "limit": (policy(), scenario(limit_rps=250, arrival_rps=290)),
    "few steps": (policy(), scenario(resolution=0.7)),
    "hang to the end": (policy(), scenario(outage=lab.Outage(5, 100))),
}


def same(got: Raw, wanted: Raw) -> None:
    for name in ("calls", "attempts", "successes", "failures", "until"):
        assert getattr(got, name) == getattr(wanted, name), name
    for name in ("offered", "received", "succeeded", "queue", "tries"):
        np.testing.assert_array_equal(getattr(got, name), getattr(wanted, name), name)
    np.testing.assert_allclose(got.budget, wanted.budget, 1e-12, err_msg="budget")
    np.testing.assert_allclose(got.mean, wanted.mean, 1e-9)
    for name in ("p50", "p99"):
        np.testing.assert_allclose(getattr(got, name), getattr(wanted, name), 0.004, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_run_is_the_exact_engines_run(name: str) -> None:
    rule, setting = CASES[name]
    assert engine.why_not(rule, setting) is None
    wanted = exact(rule, setting, 3)
    assert wanted.attempts > 500 and wanted.successes > 100
    got = engine.run(rule, setting, 3, None)
    same(got, wanted)
    assert metrics(got, setting)["recovery_time"] == metrics(wanted, setting)["recovery_time"]
    assert metrics(got, setting)["peak_rps"] == metrics(wanted, setting)["peak_rps"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["herd", "metastable", "cold-cache", "rolling-deploy", "reconnects"])
def test_shipped_stories_come_out_the_same(name: str, seed: int) -> None:
    story = scenarios[name].scaled(0.2)
    for rule in story.policies.values():
        same(engine.run(rule, story.scenario, seed, None), exact(rule, story.scenario, seed))


def test_failover_is_the_same_with_many_clients() -> None:
    story = scenarios["failover"].scaled(0.02)
    for rule in story.policies.values():
        same(engine.run(rule, story.scenario, 1, None), exact(rule, story.scenario, 1))


# What it cannot run.

REFUSED: dict[str, tuple[sp.Policy | None, lab.Scenario]] = {
    "clients of a closed loop are not compiled": (None, scenario(closed_loop=True)),
    "several classes of clients are not compiled": (None, scenario(others=[lab.Clients("more", 3, 9)])),
    "services that call services are not compiled": (None, scenario(layers=[lab.Layer("gateway")])),
    "the order of service 'lifo' is not compiled": (None, scenario(order="lifo")),
    "service= is a function of the user's own": (None, scenario(service=lambda rng: 1 / 300)),
    "latency= is a function of the user's own": (None, scenario(latency=lambda rng: 0.1)),
    "spreads of samples and histograms are not compiled": (
        None,
        scenario(latency=lab.Spread.from_samples([0.1])),
    ),
    "pools of connections are not compiled": (None, scenario(connections=2)),
    "the loss of a store is not compiled": (None, scenario(faults=[lab.StoreLoss(1, 1)])),
    "queue= is beyond 100,000,000": (None, scenario(queue=100_000_001)),
    "Deadline is not compiled": (policy(sp.Deadline(2)), scenario()),
    "Breaker is not compiled": (policy(sp.Breaker()), scenario()),
    "Retry has hooks of the user's own": (policy(before_attempt=lambda attempt: None), scenario()),
    "jitter= is a function of the user's own": (
        policy(backoff=sp.Exponential(jitter=lambda u, top: top)),
        scenario(),
    ),
    "on= is a function of the user's own": (policy(on=lambda error: True), scenario()),
    "the budget Keyed is not compiled": (policy(budget=sp.keyed(sp.Budget())), scenario()),
    "the backoff has more than 65,536 different waits": (
        policy(attempts=None, backoff=sp.Exponential(factor=1.0000001)),
        scenario(),
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_why_not_names_the_part_that_is_not_compiled(why: str) -> None:
    assert engine.why_not(*REFUSED[why]) == why


def test_backoff_of_the_users_own_is_not_compiled() -> None:
    class Mine(sp.Exponential):
        def delay(self, n: Any, prev: Any, u: Any) -> float:
            return 1.0

    assert engine.why_not(policy(backoff=Mine()), scenario()) == "the backoff Mine is not compiled"


def test_fast_engine_leaves_uncompiled_policies_to_the_exact_engine_with_a_note() -> None:
    result = lab.simulate(policy(sp.Deadline(2)), scenario(duration=4), engine="fast")
    assert result.engine == "exact"
    assert result.notes[0] == "Run by the exact engine: Deadline is not compiled."


def test_engine_auto_is_fast_for_many_calls_and_exact_for_few() -> None:
    many = scenario(arrival_rps=40_000, capacity_rps=50_000)
    assert lab.simulate(policy(), many).engine == "fast"
    assert lab.simulate(policy(), scenario(duration=5)).engine == "exact"


def test_auto_counts_the_calls_of_the_whole_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["stormproof.lab.simulate"], "MANY_CALLS", 10_000)
    small = scenario(duration=8)
    assert lab.simulate(policy(), small).engine == "exact"
    assert lab.compare({"one": policy()}, small, seeds=range(2)).to_data()["engine"] == "exact"
    assert lab.compare({"one": policy()}, small, seeds=range(6)).to_data()["engine"] == "fast"


def test_first_compilation_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    said = threading.Event()
    lines: list[str] = []

    def compiling(*args: Any) -> int:
        assert said.wait(60)
        return 0

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            said.set()

    monkeypatch.setattr(engine, "_prepared", False)
    monkeypatch.setattr(engine, "_NOTICE_AFTER_S", 0.0)
    monkeypatch.setattr(engine, "advance", compiling)
    listener = Listener()
    logging.getLogger("stormproof.lab").addHandler(listener)
    try:
        engine._prepare()
    finally:
        logging.getLogger("stormproof.lab").removeHandler(listener)
    assert len(lines) == 1 and lines[0].startswith("the lab compiles its fast engine")


# A run as a whole.


def test_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    def bytes_of(seed: int) -> bytes:
        raw = engine.run(policy(), scenario(service="lognormal", latency=0.01), seed, None)
        columns = (raw.offered, raw.received, raw.succeeded, raw.p50, raw.p99, raw.queue, raw.budget)
        return b"".join(column.tobytes() for column in columns) + repr(raw.failures).encode()

    assert bytes_of(5) == bytes_of(5)
    assert bytes_of(5) != bytes_of(6)


def test_progress_is_reported_at_the_exact_engines_moments_and_ends_the_run() -> None:
    progress: dict[str, list[tuple[float, int, int]]] = {"fast": [], "exact": []}

    def watch(name: str) -> Any:
        def note(state: Raw | SoFar) -> bool:
            raw = state if isinstance(state, Raw) else state.raw()
            progress[name].append((raw.until, raw.calls, raw.attempts))
            return len(progress[name]) < 17

        return note

    # Some calls are being served at any moment, and have been written down as successes to come.
    busy = scenario(workers=9, service="exponential", capacity_rps=320, latency=0.02)
    got = engine.run(policy(), busy, 2, watch("fast"))
    same(got, exact(policy(), busy, 2, watch("exact")))
    assert progress["fast"] == progress["exact"]
    assert len(progress["fast"]) == 17 and got.until == progress["fast"][-1][0] < 12


def test_progress_is_reported_forty_times_in_a_whole_run() -> None:
    moments: list[float] = []
    engine.run(policy(), scenario(), 2, lambda raw: moments.append(raw.until))
    assert len(moments) == 40 and moments[-1] == 12


def test_engine_grows_its_table_of_calls_in_flight() -> None:
    crowd = scenario(
        clients=30_000, timeout=5, faults=[lab.Burst(3, 30_000)], outage=lab.Outage(2, 4, "fail")
    )
    rule = policy(budget=None, attempts=9, backoff=sp.Exponential(2, cap=2))
    same(engine.run(rule, crowd, 1, None), exact(rule, crowd, 1))


def test_very_many_steps_have_coarser_percentiles() -> None:
    fine = scenario(resolution=0.001)
    got, wanted = engine.run(policy(), fine, 1, None), exact(policy(), fine, 1)
    np.testing.assert_array_equal(got.queue, wanted.queue)
    np.testing.assert_allclose(got.p99, wanted.p99, 0.031)
    assert np.nanmax(np.abs(got.p99 / wanted.p99 - 1)) > 0.01


@pytest.mark.parametrize("kind", ["even", "poisson"])
def test_arrays_of_arrivals_equal_the_single_arrivals(kind: str) -> None:
    setting = scenario(
        arrivals=kind,
        arrival_rps=4000,
        keys=3,
        faults=[lab.Spike(1, 2, 4), lab.Burst(2, 700), lab.Burst(2, 50), lab.Burst(11, 500, over=4)],
    )
    wanted = [(when, client) for when, _, client, _ in arrivals.calls(setting, 4)]
    chunks = [zip(times.tolist(), who.tolist(), strict=True) for times, who in arrivals.arrays(setting, 4)]
    assert [call for chunk in chunks for call in chunk] == wanted
    assert len(wanted) > 40_000
