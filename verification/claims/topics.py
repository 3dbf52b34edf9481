"""Every topic, in the order of the page."""

from __future__ import annotations

from . import (
    budgets,
    contention,
    defaults,
    layers,
    outages,
    overload,
    synchronized_clients,
    tail_latency,
    time_limits,
    waits,
)
from .model import Claim, Topic

TOPICS: tuple[Topic, ...] = (
    waits.topic,
    synchronized_clients.topic,
    outages.topic,
    contention.topic,
    layers.topic,
    budgets.topic,
    overload.topic,
    time_limits.topic,
    tail_latency.topic,
    defaults.topic,
)


def by_name() -> dict[str, Claim]:
    """Every claim by its name; two of one name are an error."""
    claims = [claim for topic in TOPICS for claim in topic.claims]
    named = {claim.name: claim for claim in claims}
    if len(named) < len(claims):
        raise ValueError(f"claims: {len(claims) - len(named)} titles are used twice")
    return named
