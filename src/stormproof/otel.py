"""OpenTelemetry: metrics, and the events of a call on the span it runs in.

::

    import stormproof.otel
    stormproof.otel.install()

Needs the API only; without an SDK nothing is kept. Every attempt that did not succeed at once is one
event on the current span: ``stormproof.retrying``, ``stormproof.succeeded`` or ``stormproof.gave_up``, with
``error.type`` as the semantic conventions have it. No attribute holds an argument, a URL or an
error's text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ._primitives.extras import extra

with extra("otel"):
    from opentelemetry import context, metrics, trace
    from opentelemetry.metrics import Observation

from ._events import bus, labels
from ._events.operations import census
from ._events.types import Event, Interrupted
from ._http import tracing
from ._telemetry.meters import COUNTED, MEASURED, STATES, WAITS, Meters, gauges
from ._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from ._http.tracing import Begin, End

    Observing = Callable[[CallbackOptions], Iterator[Observation]]

_OPERATION = "stormproof.operation"

#: Event -> the span event's name. Events outside of a call are reported by metrics only.
_SPAN_EVENTS = {
    "Retrying": "stormproof.retrying",
    "Succeeded": "stormproof.succeeded",
    "GaveUp": "stormproof.gave_up",
    "Interrupted": "stormproof.gave_up",
    "Refused": "stormproof.refused",
    "Hedged": "stormproof.hedged",
    "FellBack": "stormproof.fell_back",
}


def install(
    meter_provider: MeterProvider | None = None,
    *,
    spans: bool = True,
    first_tries: bool = False,
    attempts: bool = False,
    tracer_provider: TracerProvider | None = None,
) -> Callable[[], None]:
    """Start reporting to OpenTelemetry; return the function that ends it.

    ``meter_provider`` and ``tracer_provider`` are the global ones unless given. ``spans=False`` leaves the
    spans alone. ``first_tries=True`` puts an event on the span of calls that succeed at once, too, which
    costs every call a few microseconds. ``attempts=True`` makes a client span around every attempt of an HTTP
    client, with ``http.request.resend_count`` from the second on; leave it out where an instrumentation of
    the client library makes those.
    """
    sink = _Sink(metrics.get_meter("stormproof", __version__, meter_provider))
    ends = [bus.subscribe(sink.count, first_tries=False)]
    if spans:
        ends.append(bus.subscribe(_on_span, first_tries=first_tries))

    if attempts:
        ends.append(tracing.trace(_spans(trace.get_tracer("stormproof", __version__, tracer_provider))))

    def uninstall() -> None:
        for end in ends:
            end()
        sink.closed = True

    return uninstall


class _Sink:
    """The instruments. Counters are read when the SDK collects; only waits are recorded as they happen."""

    def __init__(self, meter: Meter) -> None:
        self.closed = False
        self._meters = Meters()
        self._waits = meter.create_histogram(
            "stormproof.wait",
            unit="s",
            description="Seconds waited before a retry.",
            explicit_bucket_boundaries_advisory=WAITS,
        )
        counter = meter.create_observable_counter
        counter(
            "stormproof.successes",
            [self._watch(_successes)],
            "{call}",
            "Calls that succeeded, by the attempts it took at most.",
        )
        for counted in COUNTED:
            observe = self._watch(_counts, counted.key, counted.kinds)
            counter(f"stormproof.{counted.key}", [observe], counted.unit, counted.text)
        for key, text in MEASURED:
            meter.create_observable_gauge(f"stormproof.{key}", [self._watch(_measured, key)], "1", text)
        meter.create_observable_gauge(
            "stormproof.breaker_state", [self._watch(_states)], "1", "1 for the state the breaker is in."
        )

    def _watch(self, observe: Callable[..., Iterator[Observation]], *args: object) -> Observing:
        def observed(options: CallbackOptions) -> Iterator[Observation]:
            # An instrument cannot be unregistered; it reports nothing instead.
            return iter(()) if self.closed else observe(self._meters, *args)

        return observed

    def count(self, event: Event) -> None:
        self._meters.add(event)
        if type(event).__name__ == "Retrying":
            self._waits.record(event.wait, {_OPERATION: census.name(event.operation)})  # type: ignore[attr-defined]


def _successes(meters: Meters) -> Iterator[Observation]:
    for operation, histogram in meters.read().successes.items():
        for bound, count in zip((*histogram.bounds, "more"), histogram.counts, strict=True):
            if count:
                yield Observation(count, {_OPERATION: operation, "stormproof.attempts": str(bound)})


def _counts(meters: Meters, key: str, kinds: str | None) -> Iterator[Observation]:
    for (operation, kind), count in meters.read().counts[key].items():
        yield Observation(count, {_OPERATION: operation, **({f"stormproof.{kinds}": kind} if kinds else {})})


def _measured(meters: Meters, key: str) -> Iterator[Observation]:
    for operation, value in gauges()[key].items():
        yield Observation(value, {_OPERATION: operation})


def _states(meters: Meters) -> Iterator[Observation]:
    for operation, now in gauges()["breaker_state"].items():
        for state in STATES:
            yield Observation(int(state == now), {_OPERATION: operation, "stormproof.state": state})


#: The ports that a URL may leave out.
_PORTS = {"http": 80, "https": 443}


def _spans(tracer: Tracer) -> Begin:
    """Make the span of one attempt, by the semantic conventions for HTTP clients; no URL, only the server."""

    def begin(method: str, url: str, number: int) -> End:
        server = urlsplit(url)
        attributes: dict[str, AttributeValue] = {
            "http.request.method": method,
            "server.address": server.hostname or "",
        }
        port = server.port or _PORTS.get(server.scheme)
        if port is not None:
            attributes["server.port"] = port
        if number > 1:
            attributes["http.request.resend_count"] = number - 1
        span = tracer.start_span(method, kind=trace.SpanKind.CLIENT, attributes=attributes)
        token = context.attach(trace.set_span_in_context(span))

        def end(status: int | None, error: BaseException | None) -> None:
            if status is not None:
                span.set_attribute("http.response.status_code", status)
            if error is not None or (status is not None and status >= 400):
                kind = str(status) if error is None else labels.error_name(error)
                span.set_attribute("error.type", str(kind))
                span.set_status(trace.StatusCode.ERROR)
            span.end()
            context.detach(token)

        return end

    return begin


def _on_span(event: Event) -> None:
    name = _SPAN_EVENTS.get(type(event).__name__)
    if name is None:
        return
    span = trace.get_current_span()
    if span.is_recording():
        span.add_event(name, dict(_attributes(event)))


def _attributes(event: Event) -> Iterator[tuple[str, AttributeValue]]:
    for field, value in event.as_dict().items():
        if field == "error" and value is not None:
            yield "error.type", value
        elif field not in ("event", "error") and value is not None:
            yield f"stormproof.{field}", value
    if isinstance(event, Interrupted):
        yield "stormproof.interrupted", True
