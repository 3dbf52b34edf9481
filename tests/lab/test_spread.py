"""Spreads of durations from what was measured, and service times that agree with the capacity."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stormproof import lab


def drawn(spread: lab.Spread, mean: float | None = None, size: int = 50_000) -> list[float]:
    wanted = spread.scale if mean is None else mean
    assert wanted is not None
    sample = spread.sampler(random.Random(1), wanted)
    return sorted(sample() for _ in range(size))


def test_spread_of_percentiles_has_those_percentiles() -> None:
    values = drawn(lab.Spread.of(p50=0.02, p99=0.1))
    assert values[len(values) // 2] == pytest.approx(0.02, rel=0.02)
    assert values[int(len(values) * 0.99)] == pytest.approx(0.1, rel=0.04)
    assert lab.Spread.of(p50=1, p99=1) == lab.Spread("fixed", 1)
    with pytest.raises(ValueError, match="Spread: p99 must be at least p50, got 1 and 2"):
        lab.Spread.of(p50=2, p99=1)


def test_spread_of_samples_draws_samples_with_their_frequency() -> None:
    spread = lab.Spread.from_samples([0.3, 0.1, 0.1, 0.1])
    values = drawn(spread)
    assert set(values) == {0.1, 0.3}
    assert values.count(0.3) / len(values) == pytest.approx(0.25, abs=0.01)
    assert spread.scale == pytest.approx(0.15)
    with pytest.raises(ValueError, match="samples must hold at least one"):
        lab.Spread.from_samples([])


def test_spread_of_a_histogram_is_even_within_a_bucket() -> None:
    spread = lab.Spread.from_histogram([0, 0.1, 0.2, 1.0], [50, 0, 50])
    values = drawn(spread)
    assert spread.scale == pytest.approx((0.05 + 0.6) / 2)
    assert sum(value <= 0.1 for value in values) / len(values) == pytest.approx(0.5, abs=0.01)
    assert not any(0.1 < value < 0.2 for value in values)
    low = [value for value in values if value <= 0.1]
    assert sum(low) / len(low) == pytest.approx(0.05, rel=0.02)


@pytest.mark.parametrize(
    ("edges", "counts", "says"),
    [
        ([0, 1], [1, 2], "one more than there are weights, got 2 edges and 2 weights"),
        ([1, 0], [1], "rising edges"),
        ([0, 1], [0], "weights must hold one above 0"),
        ([0, 1], [-1], "weights must be"),
    ],
)
def test_invalid_histogram_is_refused(edges: Any, counts: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        lab.Spread.from_histogram(edges, counts)


@pytest.mark.parametrize(
    "service",
    [
        lab.Spread("exponential", 0.05),
        lab.Spread.of(p50=0.02, p99=0.1),
        lambda rng: 0.05,
        lambda rng: rng.expovariate(1 / 0.05),
    ],
)
def test_service_that_contradicts_the_capacity_is_an_error(service: Any) -> None:
    with pytest.raises(
        ValueError, match=r"Scenario: service must agree with capacity_rps: it takes 0\.0\d* s"
    ):
        lab.Scenario(capacity_rps=100, workers=1, service=service)


def test_service_that_agrees_with_the_capacity_is_taken() -> None:
    for service in (lambda rng: rng.expovariate(100), lab.Spread("lognormal", 0.01), lab.Spread("lognormal")):
        lab.Scenario(capacity_rps=100, service=service)
    measured = lab.Spread.from_samples([0.1, 0.3])
    lab.Scenario(capacity_rps=20, workers=4, service=measured)
    shape = measured.replace(mean=None)
    busy = lab.Scenario(arrival_rps=50, capacity_rps=100, service=shape, duration=20, arrivals="even")
    # Scaled to 10 ms: half of the requests take 5 ms, half 15 ms.
    assert lab.simulate(None, busy).metrics["mean"] == pytest.approx(0.01, rel=0.05)


def test_latency_takes_its_mean_from_the_samples() -> None:
    near = lab.Scenario(
        arrival_rps=50, capacity_rps=1e6, latency=lab.Spread.from_samples([0.1, 0.3]), duration=20
    )
    assert lab.simulate(None, near).metrics["mean"] == pytest.approx(0.2, rel=0.05)
