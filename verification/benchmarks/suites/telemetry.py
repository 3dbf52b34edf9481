"""A call that succeeds while somebody listens: what Prometheus, OpenTelemetry and a subscriber cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import stormproof as sp

from .. import contenders as c
from ..call_timing import Calls
from ..model import Bar, Case, Group


@contextmanager
def _prometheus() -> Iterator[None]:
    from prometheus_client import CollectorRegistry

    uninstall = sp.prometheus.install(CollectorRegistry())
    try:
        yield
    finally:
        uninstall()


@contextmanager
def _otel() -> Iterator[None]:
    uninstall = sp.otel.install()
    try:
        yield
    finally:
        uninstall()


@contextmanager
def _subscriber() -> Iterator[None]:
    unsubscribe = sp.subscribe(lambda event: None)
    try:
        yield
    finally:
        unsubscribe()


GROUPS = [
    Group(
        name="telemetry",
        title="A call that succeeds, watched",
        baseline="no subscriber",
        meter=Calls(),
        cases=(
            Case("no subscriber", partial(c.stormproof, c.work)),
            Case("Prometheus", partial(c.stormproof, c.work), inside=_prometheus),
            Case("OpenTelemetry, metrics and spans", partial(c.stormproof, c.work), inside=_otel),
            Case("a subscriber to every event", partial(c.stormproof, c.work), inside=_subscriber),
        ),
        bars=(Bar("a call that Prometheus counts", "Prometheus", 2),),
    ),
]
