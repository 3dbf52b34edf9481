"""What retries add to the load of a service that is down."""

from __future__ import annotations

from ..model import Probe, counted, exactly
from ..setups.retriers import RETRIERS, Decorator, Retrier
from .retries import Failing

OFFERED = 1_000


def _load(library: Retrier, decorate: Decorator) -> int:
    failing = Failing()
    call = failing.wrapped(decorate)
    with library.recorded():
        for _ in range(OFFERED):
            try:
                call()
            except Exception:
                pass
    return failing.calls


def _judge(attempts: int) -> tuple[str, bool]:
    return counted(attempts, "attempt"), attempts <= OFFERED * 1.2


outage_load = Probe(
    "outage-load",
    "retry",
    "1,000 calls, 4 attempts each, while everything fails; with a retry budget where the library has one.",
    "at most 1,200 attempts.",
    _judge,
)
outage_load.on(RETRIERS, lambda library: _load(library, library.budgeted()))

outage_load_default = Probe(
    "outage-load-default",
    "retry",
    "The same, given only the error type and 4 attempts.",
    "at most 1,200 attempts.",
    _judge,
)
outage_load_default.on(RETRIERS, lambda library: _load(library, library.default()))


def _layers(library: Retrier) -> int:
    failing = Failing()

    call = failing.wrapped(library.plain(4))
    for _ in range(2):
        call = library.plain(4)(call)
    with library.recorded():
        try:
            call()
        except Exception:
            pass
    return failing.calls


nested_layers = Probe(
    "nested-layers",
    "retry",
    "Three layers, each with 4 attempts, around one function that always fails.",
    "4 calls, not 4 x 4 x 4.",
    exactly(4, "call"),
)
nested_layers.on(RETRIERS, _layers)

PROBES = [outage_load, outage_load_default, nested_layers]
