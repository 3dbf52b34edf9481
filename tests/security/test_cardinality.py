"""However many names, keys, statuses and errors there are, metrics have a bounded number of series."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import prometheus_client
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from tests.support.scripted import Boom

import stormproof as sp
import stormproof._events.operations
import stormproof._policy.policy
import stormproof._telemetry.meters
import stormproof.otel
import stormproof.prometheus
from stormproof._telemetry.meters import Meters

pytestmark = pytest.mark.proves("security cardinality")

LIMIT = 20


@pytest.fixture(autouse=True)
def own_census(monkeypatch: pytest.MonkeyPatch) -> stormproof._events.operations.Census:
    """An empty census in place of the process-wide one, which holds the policies of other tests."""
    fresh = stormproof._events.operations.Census()
    for module in (
        stormproof._events.operations,
        stormproof._telemetry.meters,
        stormproof.otel,
        stormproof._policy.policy,
    ):
        monkeypatch.setattr(module, "census", fresh)
    return fresh


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Room in the census for a few names: what it is like with the real 1,000, sooner."""
    monkeypatch.setattr(stormproof._events.operations, "LIMIT", LIMIT)
    return LIMIT


def _fails() -> None:
    raise Boom


def _flood(names: int) -> None:
    for number in range(names):
        retrying = sp.Retry(on=Boom, attempts=2, backoff=sp.Constant(0), budget=None)
        policy = sp.Policy(retrying, sp.Breaker(consecutive=1, name=f"gate-{number}"), name=f"call-{number}")
        for _ in range(2):
            with pytest.raises((Boom, sp.CircuitOpen)):
                policy.call(_fails)
        sp.Policy(sp.Retry(on=Boom), name=f"fine-{number}").call(int)


def test_at_most_a_thousand_operations_are_named() -> None:
    assert stormproof._events.operations.LIMIT == 1000


def test_prometheus_series_are_bounded(few: int, measured: Callable[[str], None]) -> None:
    registry = prometheus_client.CollectorRegistry()
    uninstall = stormproof.prometheus.install(registry)
    try:
        _flood(200)
        series = [
            line
            for line in prometheus_client.generate_latest(registry).decode().splitlines()
            if line[0] != "#"
        ]
        families = list(registry.collect())
    finally:
        uninstall()
    operations = {sample.labels["operation"] for family in families for sample in family.samples}
    assert operations and "other" in operations
    # The known ones, and one for all the others.
    assert len(operations) <= few + 1
    labels = {name for family in families for sample in family.samples for name in sample.labels}
    assert labels <= {"operation", "reason", "by", "state", "outcome", "what", "le"}
    measured(f"600 names with room for {few}: {len(operations)} in the scrape, {len(series)} series")


def test_otel_series_are_bounded(few: int) -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    uninstall = stormproof.otel.install(meters)
    try:
        _flood(100)
        data: Any = reader.get_metrics_data()
    finally:
        uninstall()
        meters.shutdown()
    points = [
        point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
    assert points
    assert len({point.attributes["stormproof.operation"] for point in points}) <= few + 1


def test_meters_are_bounded(few: int) -> None:
    meters = Meters()
    stop = sp.subscribe(meters.add, first_tries=False)
    try:
        _flood(100)
    finally:
        stop()
    sums = meters.read()
    for kept in (sums.counts["attempts"], sums.counts["retries"], sums.waits, sums.successes):
        assert len(kept) <= few + 1
    for counts in sums.counts.values():
        assert len({name for name, _ in counts}) <= few + 1
        # Kinds come from lists of our own, never from an error or a server.
        assert len({kind for _, kind in counts}) <= 12


def test_thousand_kinds_of_error_add_no_series() -> None:
    registry = prometheus_client.CollectorRegistry()
    uninstall = stormproof.prometheus.install(registry)
    rng = random.Random(5)

    def fails() -> None:
        raise type(f"Error{rng.random()}", (Boom,), {})(f"text {rng.random()}")

    policy = sp.Policy(sp.Retry(on=Boom, attempts=2, backoff=sp.Constant(0), budget=None), name="errors")
    try:
        counts = []
        for _ in range(2):
            for _ in range(500):
                with pytest.raises(Boom):
                    policy.call(fails)
            counts.append(sum(len(family.samples) for family in registry.collect()))
    finally:
        uninstall()
    assert counts[0] == counts[1]
