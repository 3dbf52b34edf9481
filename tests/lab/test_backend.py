"""The backend's behaviour: queues, orders of service, refusals, faults."""

from __future__ import annotations

import pytest

import stormproof as sp
from stormproof import lab
from stormproof.lab.simulate import exact

ON = (lab.BackendError, sp.AttemptTimeout)


def once(scenario: lab.Scenario, policy: sp.Policy | None = None, seed: int = 1) -> lab.Result:
    return lab.simulate(policy, scenario, seed=seed, engine="exact")


def column(result: lab.Result, name: str, at: float) -> float | None:
    return result.series[name][int(at / result.scenario.step + 1e-9)]


def test_hanging_backend_serves_work_of_callers_that_have_gone() -> None:
    """100/s for 2 s of outage, 1 s of patience: 200 pieces of work, of which it owes only the last 100."""
    place = lab.Scenario(
        clients=1,
        arrival_rps=100,
        capacity_rps=1000,
        timeout=1,
        outage=lab.Outage(1, 2),
        duration=5,
        arrivals="even",
        resolution=0.1,
    )
    result = once(place)
    # Everything queues; the backend needs 0.2 s for the backlog, in the order in which it came.
    assert result.metrics["failures"] == {"timeout": pytest.approx(110, abs=3)}
    assert column(result, "queue", 2.8) == pytest.approx(189, abs=1)
    assert column(result, "goodput", 2.0) == 0.0
    quick = once(place.replace(shed=True))
    # Work whose caller has gone is dropped instead.
    assert quick.metrics["failures"]["timeout"] < result.metrics["failures"]["timeout"]
    assert quick.successes > result.successes


def test_failing_backend_answers_at_once() -> None:
    place = lab.Scenario(
        clients=1,
        arrival_rps=100,
        capacity_rps=1000,
        outage=lab.Outage(1, 2, "fail"),
        duration=5,
        arrivals="even",
    )
    result = once(place)
    assert result.metrics["failures"] == {"503": 200}
    assert max(result.series["queue"]) == 0.0  # type: ignore[type-var]
    assert column(result, "capacity", 2.0) == 0.0
    assert column(result, "capacity", 3.5) == 1000.0


def test_bounded_queue_refuses_arrivals_that_do_not_fit() -> None:
    place = lab.Scenario(
        clients=1, arrival_rps=0, capacity_rps=10, queue=5, faults=[lab.Burst(1, 20)], duration=5
    )
    result = once(place)
    # One is served, five wait.
    assert (result.successes, result.metrics["failures"]) == (6, {"503": 14})
    none_waits = once(place.replace(queue=0, workers=2))
    assert (none_waits.successes, none_waits.metrics["failures"]) == (2, {"503": 18})
    shared = once(place.replace(order="shared", queue=5))
    assert shared.successes == 6
    last = once(place.replace(order="lifo"))
    assert last.successes == 6


def test_order_of_service_decides_the_latencies() -> None:
    """Four at one moment, 0.1 s each."""
    place = lab.Scenario(
        clients=4, arrival_rps=0, capacity_rps=10, faults=[lab.Burst(1, 4, over=0.004)], duration=3
    )
    took = {}
    for order in ("fifo", "lifo", "shared"):
        raw = exact(None, place.replace(order=order), 1)
        took[order] = raw
        assert raw.successes == 4
    # In any order the last is done after 0.4 s; shared, all of them are done near the end.
    assert took["fifo"].latency[0] == pytest.approx(0.25, abs=0.01)
    assert took["shared"].latency[0] == pytest.approx(0.4, abs=0.01)
    assert took["lifo"].latency[0] == pytest.approx(0.25, abs=0.01)


def test_last_come_first_served_serves_two_thirds_in_overload() -> None:
    place = lab.Scenario(clients=1, arrival_rps=150, capacity_rps=100, timeout=0.5, duration=30)
    fair = once(place)
    unfair = once(place.replace(order="lifo"))
    # In first-come order every call waits too long; in last-come order two thirds are served at once.
    assert fair.metrics["availability"] < 0.1
    assert unfair.metrics["availability"] == pytest.approx(2 / 3, abs=0.05)


def test_answer_429_carries_its_hint() -> None:
    place = lab.Scenario(
        clients=1, arrival_rps=150, capacity_rps=1000, limit_rps=100, retry_after=2, duration=20
    )
    plain = once(place)
    assert set(plain.metrics["failures"]) == {"429"}
    assert plain.metrics["goodput"] == pytest.approx(105, rel=0.05)
    # A hint longer than max_hint ends the call; else the wait is never shorter than it.
    proud = sp.Policy(sp.Retry(on=ON, max_hint=1))
    assert set(once(place, proud).metrics["failures"]) == {"hint"}
    patient = sp.Policy(sp.Retry(on=ON, attempts=2, budget=None, backoff=sp.Constant(0)))
    seen = once(place.replace(limit_rps=1, arrival_rps=1, faults=[lab.Burst(1, 1)]), patient)
    assert seen.metrics["p99"] >= 2.0


def test_brownout_and_a_ramp_take_capacity() -> None:
    base = lab.Scenario(
        clients=1, arrival_rps=100, capacity_rps=100, duration=40, arrivals="even", resolution=1
    )
    half = once(base.replace(faults=[lab.Brownout(10, 10, 0.5)]))
    assert column(half, "goodput", 15) == pytest.approx(50, abs=1)
    assert column(half, "capacity", 15) == 50.0
    ramp = once(base.replace(faults=[lab.Ramp(10, 10, start=0.0, steps=10)]))
    assert column(ramp, "goodput", 10) == pytest.approx(0, abs=1)
    assert column(ramp, "goodput", 15) == pytest.approx(50, abs=2)
    assert column(ramp, "goodput", 19) == pytest.approx(90, abs=2)


def test_cold_cache_warms_up_by_serving() -> None:
    place = lab.Scenario(
        clients=1,
        arrival_rps=100,
        capacity_rps=1000,
        duration=10,
        faults=[lab.ColdCache(5, cost=21.0, warm=100)],
        arrivals="even",
    )
    result = once(place)
    assert column(result, "p50", 4.9) == pytest.approx(0.001)
    # 21 ms for the first, then less and less: 1 + 20 * (1 - i / 100) ms for the i-th.
    assert column(result, "p99", 5.1) > 0.02  # type: ignore[operator]
    assert column(result, "p50", 9.0) == pytest.approx(0.001)
    total = sum(0.001 * (1 + 20 * (1 - i / 100)) for i in range(100))
    assert total == pytest.approx(1.11, abs=0.01)
    late = [
        moment
        for moment, p50 in zip(result.series["time"], result.series["p50"], strict=True)
        if p50 and p50 > 0.0015
    ]
    assert max(late) < 5 + 2 * total  # type: ignore[type-var,operator]


def test_network_latency_is_half_before_and_half_after_the_service() -> None:
    place = lab.Scenario(
        clients=1, arrival_rps=10, capacity_rps=1000, latency=0.2, duration=10, arrivals="even"
    )
    assert once(place).p50 == pytest.approx(0.201)
    slower = once(place.replace(faults=[lab.Latency(0, 10, 0.3)]))
    assert slower.p50 == pytest.approx(0.501)
    # An answer that is on its way when the caller gives up comes too late; the work was done.
    late = once(place.replace(timeout=0.15))
    assert late.successes == 0
    assert late.attempts == late.calls == 100


def test_answer_at_the_very_end_of_the_timeout_is_too_late() -> None:
    place = lab.Scenario(clients=1, arrival_rps=1, capacity_rps=2, timeout=0.5, duration=10, arrivals="even")
    assert once(place).successes == 0
    assert once(place.replace(timeout=0.5000001)).successes == 10


def test_partition_is_for_some_of_the_clients() -> None:
    place = lab.Scenario(
        clients=10,
        arrival_rps=100,
        capacity_rps=1000,
        timeout=0.5,
        duration=20,
        arrivals="even",
        faults=[lab.Partition(5, 10, share=0.3)],
    )
    result = once(place)
    assert result.metrics["failures"] == {"timeout": 300}
    # Their attempts are made, and never arrive.
    assert result.attempts == 2000
    assert sum(result.series["received"]) * place.step == pytest.approx(1700)  # type: ignore[arg-type]
    refused = once(place.replace(faults=[lab.Partition(5, 10, share=0.3, mode="fail")]))
    assert refused.metrics["failures"] == {"503": 300}


def test_rolling_deploy_refuses_a_share_for_a_while() -> None:
    place = lab.Scenario(
        clients=10,
        arrival_rps=500,
        capacity_rps=1000,
        duration=30,
        arrivals="even",
        faults=[lab.Deploy(5, 20, instances=10, detect=0.5)],
    )
    # Ten restarts, half a second each, a tenth of 500/s.
    assert once(place).metrics["failures"]["503"] == pytest.approx(10 * 0.5 * 50, rel=0.2)


def test_spikes_and_bursts_add_to_the_offered_load() -> None:
    place = lab.Scenario(
        clients=7,
        arrival_rps=100,
        capacity_rps=1000,
        duration=10,
        arrivals="even",
        resolution=1,
        faults=[lab.Spike(2, 3, factor=3.0), lab.Burst(7.5, 50, over=0.1)],
    )
    result = once(place)
    rates = [round(rate) for rate in result.series["offered"]]  # type: ignore[arg-type]
    assert rates == [100, 100, 300, 300, 300, 100, 100, 150, 100, 100]


def test_closed_loop_waits_for_its_answers() -> None:
    """10 clients with 1 s of thinking: 10/s while it is quick; nothing piles up while it hangs."""
    place = lab.Scenario(
        clients=10,
        arrival_rps=10,
        capacity_rps=1000,
        closed_loop=True,
        duration=30,
        outage=lab.Outage(10, 10),
        resolution=1,
        arrivals="even",
    )
    result = once(place)
    assert column(result, "offered", 5) == pytest.approx(10, abs=1)
    assert column(result, "offered", 15) == 0.0
    assert max(result.series["queue"]) <= 10  # type: ignore[type-var,operator]
    assert column(result, "goodput", 20) >= 10  # type: ignore[operator]


def test_service_times_may_be_a_function() -> None:
    place = lab.Scenario(
        clients=1,
        arrival_rps=10,
        capacity_rps=50,
        duration=20,
        service=lambda rng: 0.02,
        latency=lambda rng: 0.01,
    )
    assert once(place).p50 == pytest.approx(0.03)
    with pytest.raises(ValueError, match="service must be >= 0"):
        place.replace(service=lambda rng: -1.0)


def test_work_in_progress_pauses_while_the_backend_hangs() -> None:
    """Work in progress stops while the backend hangs, and goes on after."""
    place = lab.Scenario(
        clients=1,
        arrival_rps=0,
        capacity_rps=1,
        faults=[lab.Burst(1, 1)],
        outage=lab.Outage(1.5, 2),
        duration=6,
    )
    assert once(place).p50 == pytest.approx(3.0)
