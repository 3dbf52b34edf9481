"""Service and latency that depend on the load, pools of connections, and proxies that retry."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import stormproof as sp
from stormproof import lab

ON = (lab.BackendError, sp.AttemptTimeout)


def simulated(policy: Any = None, **changes: Any) -> lab.Result:
    given: dict[str, Any] = {
        "clients": 1,
        "arrival_rps": 50,
        "capacity_rps": 100,
        "arrivals": "even",
        "duration": 20,
    }
    return lab.simulate(policy, lab.Scenario(**{**given, **changes}))


def crowded(rng: Random, in_flight: int) -> float:
    return 0.01 * in_flight


@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_service_that_grows_with_the_queue_collapses_after_a_burst(order: str) -> None:
    alone = simulated(service=crowded, order=order)
    assert alone.metrics["mean"] == pytest.approx(0.01)
    # 30 at once: the first takes 30 times as long, while more arrive than it can ever catch up with.
    burst = [lab.Burst(5, 30)]
    assert simulated(faults=burst, order=order).recovered
    assert not simulated(service=crowded, faults=burst, order=order).recovered


def test_fifo_computed_by_events_equals_fifo_in_closed_form() -> None:
    busy: dict[str, Any] = {"arrivals": "poisson", "arrival_rps": 90, "queue": 30, "outage": lab.Outage(5, 1)}
    known = simulated(**busy)
    evented = simulated(**busy, service=lambda rng, in_flight: 0.01)
    assert (evented.attempts, evented.successes) == (known.attempts, known.successes)
    assert evented.metrics["mean"] == pytest.approx(known.metrics["mean"], rel=1e-9)


def test_latency_grows_with_the_requests_in_flight() -> None:
    near = simulated(latency=lambda rng, in_flight: 0.001 * (1 + in_flight), capacity_rps=1e6)
    assert near.metrics["mean"] == pytest.approx(0.001, rel=0.01)
    held = simulated(
        latency=lambda rng, in_flight: 0.001 * (1 + in_flight), arrival_rps=90, faults=[lab.Burst(5, 50)]
    )
    assert held.metrics["p99"] > 0.3


def test_attempts_beyond_the_pool_wait_for_a_connection() -> None:
    # One connection and 10 ms for each request: of 20 calls begun at once the last waits for 19 others.
    pooled = simulated(
        arrival_rps=0, capacity_rps=1e6, latency=0.01, faults=[lab.Burst(1, 20)], connections=1
    )
    assert pooled.path == "driven"
    assert pooled.successes == 20
    assert pooled.metrics["mean"] == pytest.approx(0.01 * 21 / 2, rel=0.01)
    free = simulated(arrival_rps=0, capacity_rps=1e6, latency=0.01, faults=[lab.Burst(1, 20)])
    assert free.metrics["mean"] == pytest.approx(0.01, rel=0.01)


def test_timeout_includes_the_wait_for_a_connection_and_frees_it() -> None:
    crowd: dict[str, Any] = {"arrival_rps": 0, "capacity_rps": 1e6, "latency": 0.03, "timeout": 0.1}
    pooled = simulated(**crowd, faults=[lab.Burst(1, 9)], connections=1)
    assert (pooled.successes, pooled.metrics["failures"]) == (3, {"timeout": 6})
    later = simulated(**crowd, faults=[lab.Burst(1, 9), lab.Burst(2, 1)], connections=1)
    assert later.successes == 4, "the connection of one that gave up is free again"


def test_retries_of_a_proxy_multiply_with_the_clients_own() -> None:
    retry = sp.Policy(sp.Retry(on=ON, attempts=3, backoff=sp.Constant(0.01), budget=None))
    proxy = lab.Layer("proxy", retry, passes=True)
    down: dict[str, Any] = {"outage": lab.Outage(0, 19, "fail"), "faults": [lab.Spike(10, 10, 0)]}
    through = simulated(retry, **down, layers=[proxy])
    assert through.amplification == pytest.approx(9)
    # A service of ours marks what it gave up on, and the client does not retry that again.
    assert simulated(retry, **down, layers=[lab.Layer("service", retry)]).amplification == pytest.approx(3)


def test_proxy_passes_the_backends_own_answer_on() -> None:
    limited: dict[str, Any] = {"limit_rps": 1.0, "arrival_rps": 20}
    proxied = simulated(**limited, layers=[lab.Layer("proxy", passes=True)])
    assert set(proxied.metrics["failures"]) == {"429"}
    assert set(simulated(**limited, layers=[lab.Layer("service")]).metrics["failures"]) == {"503"}
