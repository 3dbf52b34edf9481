"""OpenTelemetry: spans and metrics as the SDK itself keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.http.each_client import Http, each_client, retry
from tests.support.http.server import answer, reset

import stormproof as sp


class Telemetry:
    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.spans = InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = tracers.get_tracer("tests")

    def points(self, name: str) -> dict[tuple[tuple[str, Any], ...], Any]:
        data = self.reader.get_metrics_data()
        return {
            tuple(sorted(point.attributes.items())): point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == f"stormproof.{name}"
            for point in metric.data.data_points
        }

    def value(self, name: str, **attributes: str) -> Any:
        wanted = tuple(sorted((f"stormproof.{key}", value) for key, value in attributes.items()))
        point = self.points(name).get(wanted)
        return None if point is None else point.value

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (event.name, dict(event.attributes))
            for span in self.spans.get_finished_spans()
            for event in span.events
        ]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    kept = Telemetry()
    uninstall = sp.otel.install(kept.meters)
    yield kept
    uninstall()
    kept.meters.shutdown()


def flaky(name: str, times: int) -> Any:
    failures = [ConnectionError("secret")] * times

    @sp.retry(on=ConnectionError, backoff=sp.Constant(0.25), name=name)
    def call() -> str:
        if failures:
            raise failures.pop()
        return "ok"

    return call


def test_every_failed_attempt_and_the_end_are_events_on_the_current_span(
    telemetry, stormproof_instant
) -> None:
    with telemetry.tracer.start_as_current_span("request"):
        flaky("otel-flaky", 2)()
    retrying = {
        "stormproof.operation": "otel-flaky",
        "stormproof.wait": 0.25,
        "error.type": "ConnectionError",
    }
    assert telemetry.events() == [
        ("stormproof.retrying", {**retrying, "stormproof.attempt": 1}),
        ("stormproof.retrying", {**retrying, "stormproof.attempt": 2}),
        (
            "stormproof.succeeded",
            {
                "stormproof.operation": "otel-flaky",
                "stormproof.attempts": 3,
                "stormproof.elapsed": 0.5,
            },
        ),
    ]


def test_gave_up_event_has_the_reason(telemetry, stormproof_instant) -> None:
    with telemetry.tracer.start_as_current_span("request"), pytest.raises(ConnectionError):
        flaky("otel-down", 99)()
    name, attributes = telemetry.events()[-1]
    assert name == "stormproof.gave_up"
    assert attributes["stormproof.reason"] == "attempts"
    assert attributes["error.type"] == "ConnectionError"
    assert "secret" not in str(telemetry.events())
    assert telemetry.value("give_ups", operation="otel-down", reason="attempts") == 1


def test_events_land_on_the_span_of_their_own_task(telemetry) -> None:
    async def one(name: str) -> None:
        failures = [ConnectionError()]

        @sp.retry(on=ConnectionError, backoff=sp.Constant(0), name=name)
        async def call() -> None:
            await asyncio.sleep(0)
            if failures:
                raise failures.pop()

        with telemetry.tracer.start_as_current_span(name):
            await call()

    async def main() -> None:
        await asyncio.gather(*(one(f"otel-task-{i}") for i in range(4)))

    asyncio.run(main())
    spans = telemetry.spans.get_finished_spans()
    assert len(spans) == 4
    for span in spans:
        assert [event.attributes["stormproof.operation"] for event in span.events] == [span.name] * 2


def test_counters_and_histogram_are_recorded(telemetry, stormproof_instant) -> None:
    flaky("otel-counted", 1)()
    flaky("otel-counted", 0)()
    assert telemetry.value("attempts", operation="otel-counted") == 3
    assert telemetry.value("retries", operation="otel-counted") == 1
    assert telemetry.value("successes", operation="otel-counted", attempts="1") == 1
    assert telemetry.value("successes", operation="otel-counted", attempts="2") == 1
    (waits,) = (
        p for key, p in telemetry.points("wait").items() if ("stormproof.operation", "otel-counted") in key
    )
    assert (waits.count, waits.sum) == (1, 0.25)


def test_gauges_are_recorded(telemetry) -> None:
    breaker = sp.Breaker()
    call = sp.Policy(sp.Retry(on=OSError, budget=sp.Budget(burst=3)), breaker, name="otel-live")(lambda: 1)
    call()
    assert telemetry.value("budget_balance", operation="otel-live") == pytest.approx(3.1)
    assert telemetry.value("breaker_state", operation="otel-live", state="closed") == 1
    assert telemetry.value("breaker_state", operation="otel-live", state="open") == 0


def test_calls_outside_a_span_and_first_tries_add_no_span_event(telemetry, stormproof_instant) -> None:
    flaky("otel-none", 1)()
    with telemetry.tracer.start_as_current_span("request"):
        flaky("otel-none", 0)()
    assert telemetry.events() == []


def test_first_tries_are_events_if_requested(stormproof_instant) -> None:
    kept = Telemetry()
    uninstall = sp.otel.install(kept.meters, first_tries=True)
    with kept.tracer.start_as_current_span("request"):
        flaky("otel-thorough", 0)()
    uninstall()
    assert [name for name, _ in kept.events()] == ["stormproof.succeeded"]
    kept.meters.shutdown()


def test_uninstalled_instrumentation_emits_nothing(stormproof_instant) -> None:
    kept = Telemetry()
    sp.otel.install(kept.meters)()
    with kept.tracer.start_as_current_span("request"):
        flaky("otel-over", 1)()
    assert kept.events() == []
    assert kept.points("attempts") == {}
    kept.meters.shutdown()


def test_without_an_sdk_nothing_breaks(stormproof_instant) -> None:
    uninstall = sp.otel.install()
    assert not trace.get_current_span().is_recording()
    assert flaky("otel-bare", 1)() == "ok"
    uninstall()


@each_client
async def test_every_attempt_of_a_client_is_a_span_with_its_resend_count(http: Http) -> None:
    spans = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    uninstall = sp.otel.install(MeterProvider(), attempts=True, tracer_provider=tracers)
    try:
        http.server.on("/", answer(503), reset(), answer(200))
        await http.client(retry()).get("/")
    finally:
        uninstall()
    http.server.on("/", answer(200))
    await http.client(retry()).get("/")
    seen = [dict(span.attributes or {}) for span in spans.get_finished_spans()]
    assert [one.get("http.request.resend_count") for one in seen] == [None, 1, 2]
    assert [one.get("http.response.status_code") for one in seen] == [503, None, 200]
    assert [("error.type" in one, one["http.request.method"]) for one in seen] == [
        (True, "GET"),
        (True, "GET"),
        (False, "GET"),
    ]
    assert {one["server.port"] for one in seen} == {http.server.port}
