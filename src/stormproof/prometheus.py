"""Metrics for Prometheus: one collector, whose numbers are put together when it is scraped.

::

    import stormproof.prometheus
    stormproof.prometheus.install()

A call that succeeds at its first attempt costs one tick of a counter; everything else is counted from
events. Labels are bounded: ``operation`` by `stormproof._events.operations` (1,000 names, the rest is
"other"), ``reason``, ``state`` and the like by their short lists. No label holds an argument, a URL or an
error's text.

``prometheus_client``'s multiprocess mode keeps its numbers in files of its own and ignores collectors:
there, scrape each process by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._primitives.extras import extra

with extra("prometheus"):
    from prometheus_client import REGISTRY
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.registry import Collector

from ._events import bus
from ._telemetry.meters import COUNTED, MEASURED, STATES, Histogram, Meters, gauges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import CollectorRegistry, Metric


class StormproofCollector(Collector):
    """Counts from the moment it is made until `close`; register it with any registry."""

    def __init__(self) -> None:
        self._meters = Meters()
        self._unsubscribe = bus.subscribe(self._meters.add, first_tries=False)

    def close(self) -> None:
        """Stop counting."""
        self._unsubscribe()

    def describe(self) -> Iterable[Metric]:
        """Return nothing: at registration there may be no operation yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        reading = self._meters.read()
        for counted in COUNTED:
            labels = ["operation", *([counted.kinds] if counted.kinds else [])]
            family = CounterMetricFamily(f"stormproof_{counted.key}", counted.text, labels=labels)
            for key, count in reading.counts[counted.key].items():
                family.add_metric(key[: len(labels)], count)
            yield family
        yield _histogram(
            "stormproof_attempts_at_success", "Attempts it took a call to succeed.", reading.successes
        )
        yield _histogram("stormproof_wait_seconds", "Seconds waited before a retry.", reading.waits)
        yield from _gauges()


def _histogram(name: str, text: str, histograms: dict[str, Histogram]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=["operation"])
    for operation, histogram in histograms.items():
        family.add_metric([operation], histogram.cumulative(), histogram.total)
    return family


def _gauges() -> Iterator[Metric]:
    live = gauges()
    for key, text in MEASURED:
        family = GaugeMetricFamily(f"stormproof_{key}", text, labels=["operation"])
        for operation, value in live[key].items():
            family.add_metric([operation], value)
        yield family
    states = GaugeMetricFamily(
        "stormproof_breaker_state", "1 for the state the breaker is in.", labels=["operation", "state"]
    )
    for operation, now in live["breaker_state"].items():
        for state in STATES:
            states.add_metric([operation, state], float(state == now))
    yield states


def install(registry: CollectorRegistry = REGISTRY) -> Callable[[], None]:
    """Register a collector with ``registry``; return the function that unregisters it."""
    collector = StormproofCollector()
    registry.register(collector)

    done = False

    def uninstall() -> None:
        nonlocal done
        if not done:
            done = True
            registry.unregister(collector)
            collector.close()

    return uninstall
