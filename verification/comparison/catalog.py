"""Every probe and every table, in the order of the page."""

from __future__ import annotations

from .model import Group, Probe
from .probes import breakers, deadlines, functions, http, limiters, outages, refusals, retries
from .setups import BREAKERS, CLIENTS, LIMITERS, RETRIERS

GROUPS = (
    Group(
        "retry",
        "Retrying",
        "Set to retry `ConnectionError`, 4 attempts in all, unless the probe says otherwise.",
        tuple(RETRIERS),
    ),
    Group(
        "http",
        "Retrying inside an HTTP client",
        "A server on loopback; 3 attempts, no wait of the client's own. `stormproof` is `stormproof.httpx`.",
        tuple(CLIENTS),
    ),
    Group("breaker", "Circuit breakers", "Opens after 3 failures, for 0.3 s.", tuple(BREAKERS)),
    Group("limiter", "Rate limiters", "In memory, in one process.", tuple(LIMITERS)),
)

PROBES: dict[str, Probe] = {
    probe.name: probe
    for module in (retries, functions, deadlines, outages, http, breakers, refusals, limiters)
    for probe in module.PROBES
}

#: Where Stormproof itself does not do what the rule asks, and why that is so. The tests hold it to these.
GAPS = {
    "exact-window": "Stormproof's limiter is a token bucket: it admits its burst and then its rate, so more "
    "than the rate in the first second. A limiter that keeps a record per call can promise an exact window.",
    "stale-answers": "Stormproof has no cache. `Fallback` can be given a callable that "
    "looks an old answer up.",
}


def installed(library: str) -> str | None:
    """The version of the distribution that ``library`` comes from, None when it is not there."""
    from importlib.metadata import PackageNotFoundError, version  # dear, and not needed to run one cell

    try:
        return version(library.partition(".")[0])
    except PackageNotFoundError:
        return None
