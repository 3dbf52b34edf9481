"""Closed forms that a simulation must reproduce."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from tests.lab.published_figures import TWICE, collapse

import stormproof as sp
from stormproof import lab

ON = (lab.BackendError, sp.AttemptTimeout)


def policy(**options: Any) -> sp.Policy:
    return sp.Policy(sp.Retry(**{"on": ON, "budget": None, **options}))


@pytest.mark.parametrize("failing", [0.1, 0.5])
def test_independent_failures_give_the_closed_form_of_load_and_success(failing: float) -> None:
    """Three retries of independent attempts: success 1 - f^4, load (1 - f^4) / (1 - f)."""
    calm = lab.Scenario(
        clients=10, arrival_rps=400, capacity_rps=4000, error_rate=failing, duration=100, timeout=5
    )
    result = lab.simulate(policy(backoff=sp.Constant(0.001)), calm, seed=1)
    success = 1 - failing**4
    # Four standard deviations of 40,000 draws.
    near = 4 * math.sqrt(success * (1 - success) / result.calls)
    assert result.successes / result.calls == pytest.approx(success, abs=near)
    assert result.amplification == pytest.approx(success / (1 - failing), rel=0.01)
    assert result.calls_per_success == pytest.approx(1 / (1 - failing), rel=0.01)


@pytest.mark.parametrize("order", ["fifo", "shared"])
def test_single_server_with_exponential_service_agrees_with_mm1(order: str) -> None:
    """M/M/1 at 80 %: mean 0.5 s in either order; in first-come order the time is exponential, p99 2.303 s."""
    busy = lab.Scenario(
        clients=1, arrival_rps=8, capacity_rps=10, service="exponential", order=order, duration=40_000
    )
    if order == "shared":
        busy = busy.replace(duration=8_000)
    result = lab.simulate(None, busy, seed=3, engine="exact")
    assert result.metrics["mean"] == pytest.approx(0.5, rel=0.04 if order == "fifo" else 0.08)
    if order == "fifo":
        assert result.p99 == pytest.approx(2.303, rel=0.06)
        assert result.p50 == pytest.approx(0.5 * math.log(2), rel=0.05)
    else:
        assert result.p99 > 2.6, "sharing favours short jobs at the expense of long ones"


def test_many_servers_wait_less() -> None:
    """M/M/c (Erlang's C formula) for 4 servers at 80 %."""
    servers, load = 4, 3.2
    crowd = load**servers / math.factorial(servers) / (1 - load / servers)
    waiting = crowd / (sum(load**k / math.factorial(k) for k in range(servers)) + crowd)
    mean = 0.4 + waiting * 0.4 / (servers - load)
    busy = lab.Scenario(
        clients=1, arrival_rps=8, capacity_rps=10, service="exponential", workers=servers, duration=20_000
    )
    assert lab.simulate(None, busy, seed=4, engine="exact").metrics["mean"] == pytest.approx(mean, rel=0.04)


def test_fixed_service_halves_the_wait() -> None:
    """M/D/1: mean wait rho / (2 (1 - rho)) service times, half of M/M/1's."""
    busy = lab.Scenario(clients=1, arrival_rps=80, capacity_rps=100, duration=2_000)
    mean = lab.simulate(None, busy, seed=5, engine="exact").metrics["mean"]
    assert mean == pytest.approx(0.01 * (1 + 0.8 / (2 * 0.2)), rel=0.04)


# Metastable collapse (HotOS'21): capacity 300/s, a 10 s outage, one retry when an attempt takes over 1 s.


def test_naive_retries_never_recover_at_280() -> None:
    result = collapse(280, 100)
    assert not result.recovered
    assert result.recovery_time is None
    series = result.series
    last = slice(-20, None)
    assert statistics.fmean(series["received"][last]) == pytest.approx(560, rel=0.01)
    assert series["goodput"][last] == [0.0] * 20
    assert str(result).startswith("Collapsed: ")


@pytest.mark.parametrize("load", [100, 140])
def test_queue_drains_below_half_the_capacity(load: float) -> None:
    """T = (k L D - (k - 1) L t - M t) / (M - k L): what came and was not served, over the spare capacity."""
    k, length, timeout, capacity = 2, 10, 1, 300
    drained = (k * load * length - (k - 1) * load * timeout - capacity * timeout) / (capacity - k * load)
    result = collapse(load, 40 + 1.2 * drained)
    assert result.recovered
    # A call that fails just before is over two timeouts after it began.
    assert result.recovery_time == pytest.approx(drained, abs=2.0)


def test_threshold_lies_between_140_and_160() -> None:
    place = lab.Scenario(
        clients=1, capacity_rps=300, timeout=1, outage=lab.Outage(10, 10), duration=160, arrivals="even"
    )
    swept = lab.sweep(TWICE, place, {"arrival_rps": [140, 160]}, seeds=[0])
    assert swept.threshold("arrival_rps") == (140, 160)


# Budgets.


@pytest.mark.parametrize("failing", [0.3, 1.0])
def test_budget_bounds_the_load(failing: float) -> None:
    """At most 1 + ratio + burst / calls attempts per call, whatever fails."""
    ratio, burst = 0.1, 20
    place = lab.Scenario(
        clients=1, arrival_rps=200, capacity_rps=2000, error_rate=failing, duration=60, timeout=1
    )
    result = lab.simulate(policy(attempts=5, budget=sp.Budget(ratio, burst=burst)), place, seed=2)
    bound = 1 + ratio + burst / result.calls
    assert result.amplification <= bound
    if failing == 1.0:
        assert result.attempts == result.calls + burst, "nothing is earned while everything fails"
    else:
        # Earned by what succeeds (70 % of the calls and then some), and spent.
        assert result.amplification > 1 + 0.9 * ratio * 0.7


@pytest.mark.parametrize(
    ("kind", "recovers"),
    [
        (sp.Budget(), True),
        (sp.WindowBudget(), False),
        (sp.RateBudget(), False),
        (None, False),
    ],
    ids=["by success", "by call", "by time", "none"],
)
def test_only_a_budget_earned_by_success_recovers(kind: Any, recovers: bool) -> None:
    """280/s offered on 300/s with a 10 s outage: what refills through the outage keeps it going."""
    result = collapse(280, 185, policy(attempts=2, backoff=sp.Constant(0), budget=kind))
    assert result.recovered is recovers
    if recovers:
        # The calls of the outage and the retries that were paid for (the burst, and what the last ten seconds
        # before it had earned) drain at 20/s, until an attempt waits less than its timeout.
        drained = (280 * 10 + (10 + 0.1 * 280 * 10) - 300) / 20
        assert result.recovery_time == pytest.approx(drained, abs=3)


def test_retry_limit_holds_per_key() -> None:
    """One retry in 30 s for each segment of each player, though everything fails."""
    players, segments, duration = 5, 4, 89
    place = lab.Scenario(
        clients=players,
        arrival_rps=50,
        capacity_rps=1000,
        error_rate=1.0,
        duration=duration,
        keys=segments,
        timeout=1,
    )
    limited = sp.keyed(sp.RateBudget(rate=1 / 30, burst=1), key=lambda segment: segment)
    result = lab.simulate(policy(attempts=3, budget=limited), place, seed=1)
    retries = result.attempts - result.calls
    # The first at once, then one in each of the two whole 30 s that follow; the load asks for all of them.
    assert retries == players * segments * 3
    free = lab.simulate(policy(attempts=3), place, seed=1)
    assert free.attempts > 2.9 * free.calls


def gaussian(u: float, ceiling: float) -> float:
    """Around the middle, with an eighth of the ceiling as its standard deviation."""
    return max(0.0, statistics.NormalDist(ceiling / 2, ceiling / 8).inv_cdf(min(max(u, 1e-12), 1 - 1e-12)))


def test_uniform_jitter_flattens_more_than_gaussian() -> None:
    """A crowd of 10,000 that fails at one instant comes back once, over a wait of up to 2 s."""
    place = lab.Scenario(
        clients=10_000,
        arrival_rps=0,
        capacity_rps=1_000_000,
        outage=lab.Outage(1, 0.1, "fail"),
        faults=[lab.Burst(1.05, 10_000)],
        duration=5,
        resolution=0.05,
    )
    peaks = {}
    for name, jitter in (("none", "none"), ("gaussian", gaussian), ("uniform", "full")):
        result = lab.simulate(policy(attempts=3, backoff=sp.Constant(2.0, jitter=jitter)), place, seed=1)
        peaks[name] = result.metrics["peak_rps_after"]
    assert peaks["none"] == 10_000 / 0.05
    # The densest 50 ms of a normal law with sigma 0.25 s, and of an even one over 2 s.
    assert peaks["gaussian"] == pytest.approx(10_000 * 0.0797 / 0.05, rel=0.1)
    assert peaks["uniform"] == pytest.approx(10_000 * 0.025 / 0.05, rel=0.25)
    assert peaks["none"] > 5 * peaks["gaussian"] > 5 * 1.5 * peaks["uniform"]


# Queueing formulas, each within 2 %.


def queue_of(**changes: Any) -> lab.Result:
    given: dict[str, Any] = {"clients": 1, "arrival_rps": 8000, "capacity_rps": 10_000, "duration": 100}
    return lab.simulate(None, lab.Scenario(**{**given, **changes}), seed=5)


def test_erlang_b_is_the_share_that_finds_no_free_server() -> None:
    result = queue_of(workers=10, queue=0, service="exponential")
    blocking = 1.0
    for servers in range(1, 11):
        blocking = 8.0 * blocking / (servers + 8.0 * blocking)
    assert result.metrics["failures"]["503"] / result.calls == pytest.approx(blocking, rel=0.02)


def test_bounded_queue_refuses_as_m_m_1_k_does() -> None:
    # One at work and four that wait: K = 5.
    result = queue_of(arrival_rps=9000, queue=4, service="exponential")
    load = 0.9
    refused = (1 - load) * load**5 / (1 - load**6)
    assert result.metrics["failures"]["503"] / result.calls == pytest.approx(refused, rel=0.02)


def test_mean_wait_is_pollaczek_and_khinchines() -> None:
    result = queue_of(arrival_rps=7000, service=lab.Spread("lognormal", sigma=0.5), duration=200)
    service, load = 1e-4, 0.7
    variation = math.exp(0.5**2) - 1
    wanted = service + load * service * (1 + variation) / (2 * (1 - load))
    assert result.metrics["mean"] == pytest.approx(wanted, rel=0.02)


def test_processor_sharing_depends_on_the_mean_service_alone() -> None:
    result = queue_of(
        arrival_rps=70,
        capacity_rps=100,
        order="shared",
        service=lab.Spread("lognormal", sigma=0.7),
        duration=1500,
    )
    assert result.metrics["mean"] == pytest.approx(0.01 / (1 - 0.7), rel=0.02)


def test_closed_loop_agrees_with_mean_value_analysis() -> None:
    clients, think, service = 20, 1.0, 0.1
    waiting = 0.0
    for number in range(1, clients + 1):
        response = service * (1 + waiting)
        waiting = number / (response + think) * response
    result = queue_of(
        clients=clients, closed_loop=True, think=think, capacity_rps=10, service="exponential", duration=5000
    )
    assert result.metrics["mean"] == pytest.approx(response, rel=0.02)
    assert result.goodput == pytest.approx(clients / (response + think), rel=0.02)
