"""All text that Stormproof emits, gathered to be searched for secrets."""

from __future__ import annotations

import json
import logging
from types import TracebackType
from typing import Any

import prometheus_client
import structlog
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import stormproof as sp
import stormproof.otel
import stormproof.prometheus
from stormproof.asgi import StatusApp


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage() + repr(vars(record)))


class Sinks:
    """Log, structlog, Prometheus, OpenTelemetry, status page, events; and notes and texts of errors."""

    def __enter__(self) -> Sinks:
        self.events: list[Any] = []
        self._said: list[str] = []
        self._log, self._records = logging.getLogger("stormproof"), _Records()
        self._level = self._log.level
        self._log.addHandler(self._records)
        self._log.setLevel(logging.DEBUG)
        self._entries: list[dict[str, Any]] = []
        self._registry = prometheus_client.CollectorRegistry()
        self._reader = InMemoryMetricReader()
        self._meters = MeterProvider([self._reader])
        self._spans = InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._span = tracers.get_tracer("tests").start_as_current_span("request")
        self._status = StatusApp(recent=1000)
        logger = structlog.wrap_logger(None, processors=[self._keep])
        self._stops = [
            sp.subscribe(self.events.append),
            sp.subscribe(sp.logging.to_structlog(logger)),
            stormproof.prometheus.install(self._registry),
            stormproof.otel.install(self._meters, first_tries=True),
        ]
        self._span.__enter__()
        return self

    def _keep(self, logger: Any, method: str, entry: Any) -> Any:
        self._entries.append(dict(entry))
        raise structlog.DropEvent

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._span.__exit__(None, None, None)
        for stop in self._stops:
            stop()
        self._status.close()
        self._meters.shutdown()
        self._log.removeHandler(self._records)
        self._log.setLevel(self._level)

    def texts(self) -> dict[str, str]:
        """Return the text that each of them received."""
        self._span.__exit__(None, None, None)
        self._span = type("Ended", (), {"__exit__": lambda *_: None})()
        from stormproof._telemetry.status import page

        state = self._status._status.read()
        data = self._reader.get_metrics_data()
        return {
            "events": "\n".join(repr(event) + json.dumps(event.as_dict()) for event in self.events),
            "log": "\n".join(self._records.lines),
            "structlog": repr(self._entries),
            "prometheus": prometheus_client.generate_latest(self._registry).decode(),
            "otel metrics": "" if data is None else data.to_json(),
            "otel spans": "\n".join(span.to_json() for span in self._spans.get_finished_spans()),
            "status data": json.dumps(state),
            "status page": page(state, 5),
            "errors": "\n".join(self._said),
        }

    def caught(self, error: BaseException | None) -> None:
        """Write down what is ours in an error that came out: every note, and the text of Stormproof's own."""
        seen: list[BaseException] = []
        while error is not None and error not in seen:
            seen.append(error)
            self._said += getattr(error, "__notes__", ())
            if isinstance(error, sp.StormproofError) and type(error).__module__.startswith("stormproof"):
                self._said += [str(error), repr(error)]
            error = error.__cause__ or error.__context__
