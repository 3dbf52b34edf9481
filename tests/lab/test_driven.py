"""Policies that take time of their own, and services that call services."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import stormproof as sp
from stormproof import lab

ON = (lab.BackendError, sp.AttemptTimeout)


def place(**changes: Any) -> lab.Scenario:
    base: dict[str, Any] = {
        "clients": 10,
        "arrival_rps": 50,
        "capacity_rps": 200,
        "duration": 20,
        "timeout": 1,
    }
    return lab.Scenario(**{**base, **changes})


def run(policy: sp.Policy | None, scenario: lab.Scenario, seed: int = 1) -> lab.Result:
    return lab.simulate(policy, scenario, seed=seed, engine="exact")


def test_hedges_cut_the_tail() -> None:
    """One answer in twenty takes a second; a second attempt after 50 ms hardly ever does."""
    slow = place(
        latency=lambda rng: 1.0 if rng.random() < 0.05 else 0.01,
        timeout=5,
    )
    alone = run(None, slow)
    hedged = run(
        sp.Policy(sp.Hedge(after=0.05, max=2, idempotent=True, budget=sp.Budget(0.2, burst=20))), slow
    )
    assert hedged.path == "driven"
    assert alone.p99 > 0.9  # type: ignore[operator]
    assert hedged.p99 < 0.1  # type: ignore[operator]
    assert 1.03 < hedged.amplification < 1.08


def test_bulkhead_with_a_queue_shields_a_hanging_backend() -> None:
    """A client's three places hold back what a hanging backend would have got."""
    down = place(outage=lab.Outage(5, 5), timeout=2)
    free = run(None, down)
    held = run(sp.Policy(sp.Bulkhead(1, queue=1, max_wait=0.5)), down)
    assert held.metrics["failures"]["BulkheadFull"] > 50
    assert held.attempts < free.attempts


def test_fallback_is_a_success() -> None:
    result = run(
        sp.Policy(sp.Fallback("cached", on=lab.BackendError)), place(outage=lab.Outage(5, 5, "fail"))
    )
    assert result.metrics["failures"] == {}
    assert result.successes == result.calls


def test_policy_with_an_adaptive_limit_is_run_as_tasks() -> None:
    result = run(sp.Policy(sp.AdaptiveLimit()), place(outage=lab.Outage(5, 2)))
    assert result.successes > 0
    assert result.path == "driven"


def test_hooks_of_the_users_own_see_every_attempt() -> None:
    seen: list[int] = []
    policy = sp.Policy(
        sp.Retry(on=ON, budget=None, before_attempt=lambda attempt: seen.append(attempt.number))
    )
    result = run(policy, place(outage=lab.Outage(5, 2, "fail")))
    assert len(seen) == result.attempts
    assert set(seen) == {1, 2, 3, 4}


@pytest.mark.parametrize(("honoured", "attempts"), [(False, 4 * 4 * 4), (True, 4)])
def test_three_layers_multiply_unless_marks_are_honoured(honoured: bool, attempts: int) -> None:
    policy = sp.Policy(
        sp.Retry(on=ON, attempts=4, budget=None, backoff=sp.Constant(0.01), retry_exhausted=not honoured)
    )
    down = lab.Scenario(
        clients=2,
        arrival_rps=5,
        capacity_rps=1000,
        outage=lab.Outage(0, 20, "fail"),
        duration=20,
        faults=[lab.Spike(10, 10, 0.0)],
        layers=[lab.Layer("gateway", "same", instances=2), lab.Layer("orders", "same", capacity_rps=5000)],
    )
    result = run(policy, down)
    assert result.calls > 30
    assert result.attempts == attempts * result.calls
    assert result.successes == 0


def test_layer_that_does_not_pass_marks_on_is_retried() -> None:
    policy = sp.Policy(sp.Retry(on=ON, attempts=3, budget=None, backoff=sp.Constant(0.01)))
    down = lab.Scenario(
        clients=1,
        arrival_rps=5,
        capacity_rps=100,
        outage=lab.Outage(0, 10, "fail"),
        duration=10,
        faults=[lab.Spike(5, 5, 0.0)],
        layers=[lab.Layer("proxy", policy, marks=False)],
    )
    result = run(policy, down)
    assert result.attempts == 9 * result.calls


def test_layers_own_work_takes_its_time() -> None:
    through = place(layers=[lab.Layer("gateway", capacity_rps=100)])
    assert run(None, through).p50 >= 0.01 + 0.005  # type: ignore[operator]


@pytest.mark.parametrize(("announced", "attempts"), [(False, 4), (True, 1)])
def test_layer_works_on_for_a_caller_that_has_gone(announced: bool, attempts: int) -> None:
    """The caller has 50 ms; the layer's retries take longer, and go on unless it knows of the deadline."""
    slow = sp.Policy(sp.Retry(on=ON, attempts=4, budget=None, backoff=sp.Constant(0.1)))
    down = lab.Scenario(
        clients=1,
        arrival_rps=5,
        capacity_rps=100,
        timeout=0.05,
        outage=lab.Outage(0, 10, "fail"),
        duration=10,
        faults=[lab.Spike(5, 5, 0.0)],
        layers=[lab.Layer("gateway", slow, deadlines=announced)],
    )
    result = run(None, down)
    assert set(result.metrics["failures"]) == ({"exhausted"} if announced else {"timeout"})
    assert result.attempts == attempts * result.calls


def test_fleet_shares_one_budget() -> None:
    """Ten processes with a burst of 10 each may retry a hundred times in an outage; sharing one, ten."""
    policy = sp.Policy(sp.Retry(on=ON, attempts=2, budget=sp.Budget(ratio=0.0, burst=10)))
    down = place(outage=lab.Outage(0, 20, "fail"))
    each = run(policy, down)
    assert each.attempts - each.calls == 100
    fleet = run(policy, down.replace(fleet=True))
    assert fleet.attempts - fleet.calls == 10


@pytest.mark.parametrize(("mode", "retries"), [("closed", 10), ("open", None), ("local", 20)])
def test_lost_store_leaves_each_process_its_share_of_the_budget(mode: str, retries: int | None) -> None:
    """Ten shared retries; without the store each of the ten processes has one of its own."""
    policy = sp.Policy(sp.Retry(on=ON, attempts=2, budget=sp.Budget(ratio=0.0, burst=10)))
    down = place(outage=lab.Outage(0, 20, "fail"), fleet=True, faults=[lab.StoreLoss(10, 10, mode)])
    result = run(policy, down)
    made = result.attempts - result.calls
    if retries is None:
        assert made == pytest.approx(10 + 500, rel=0.15)
    else:
        assert made == retries


def test_simulated_clients_share_the_store_of_a_policy_without_using_it() -> None:
    class Budget(sp.Budget):
        def __init__(self, *args: Any, store: Any = None, **options: Any) -> None:
            # Without joining it: nothing here may speak to a store.
            super().__init__(*args, **options)
            self.store = store

    store = SimpleNamespace(on_failure="closed")
    policy = sp.Policy(sp.Retry(on=ON, attempts=2, budget=Budget(0.0, burst=10, store=store)))
    down = place(outage=lab.Outage(0, 20, "fail"))
    result = run(policy, down)
    assert result.attempts - result.calls == 10
    lost = run(policy, down.replace(faults=[lab.StoreLoss(0, 20)]))
    assert lost.attempts == lost.calls, "its store says closed"


def test_users_policy_is_left_alone() -> None:
    budget, breaker = sp.Budget(burst=5), sp.Breaker(min_calls=2)
    policy = sp.Policy(sp.Retry(on=ON, budget=budget), breaker, name="kept")
    run(policy, place(outage=lab.Outage(5, 5, "fail")))
    assert budget.balance == 5
    assert breaker.state == "closed"
    assert breaker.counts.requests == 0


def test_simulation_emits_nothing_and_ignores_enclosing_scopes(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []
    unsubscribe = sp.subscribe(heard.append)
    down = place(outage=lab.Outage(5, 5, "fail"), duration=12)
    policies = (sp.Policy(sp.Retry(on=ON)), sp.Policy(sp.Retry(on=ON), sp.Bulkhead(5, queue=1)))
    try:
        with caplog.at_level(logging.DEBUG), sp.testing.instant(), sp.deadline(0.001), sp.disabled():
            inside = [run(policy, down).metrics for policy in policies]
    finally:
        unsubscribe()
    assert heard == []
    assert caplog.records == []
    assert inside == [run(policy, down).metrics for policy in policies]


def test_two_threads_may_simulate_at_once() -> None:
    hedged = sp.Policy(sp.Retry(on=ON), sp.Hedge(after=0.05, idempotent=True))
    down = place(outage=lab.Outage(5, 1), duration=8)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda seed: run(hedged, down, seed).to_json(), (1, 2)))
    assert found == [run(hedged, down, seed).to_json() for seed in (1, 2)]


def test_interrupted_run_leaves_nothing_behind() -> None:
    def interrupt(state: lab.Progress) -> None:
        if state.now > 4:
            raise KeyboardInterrupt

    hedged = sp.Policy(sp.Retry(on=ON), sp.Hedge(after=0.05, idempotent=True))
    with pytest.raises(KeyboardInterrupt):
        lab.simulate(hedged, place(outage=lab.Outage(3, 5)), progress=interrupt)
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


async def _within_a_loop() -> lab.Result:
    found = run(sp.Policy(sp.Hedge(after=0.05, idempotent=True)), place(duration=2))
    await asyncio.sleep(0)
    return found


def test_simulate_runs_inside_a_running_event_loop() -> None:
    assert asyncio.run(_within_a_loop()).calls > 50


def test_broken_strategy_is_not_hidden() -> None:
    class Broken:
        def sync(self, call: Any, env: Any, like: Any) -> Any:
            return call

        def aio(self, call: Any, env: Any, like: Any) -> Any:
            async def broken(*args: Any) -> None:
                asyncio.get_running_loop().call_soon(_raise)
                await call(*args)

            return broken

    def _raise() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run(sp.Policy(Broken()), place(duration=2))
