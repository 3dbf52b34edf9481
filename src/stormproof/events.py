"""Every event, one frozen dataclass each; `subscribe` delivers them. See docs/events.md.

A call that succeeds at once is counted instead: `first_tries`.
"""

from __future__ import annotations

from ._events.operations import census
from ._events.types import (
    BreakerChanged,
    ChaosInjected,
    Connected,
    Declined,
    Disconnected,
    Event,
    FellBack,
    GaveUp,
    Hedged,
    IdempotentCall,
    Interrupted,
    JobEnded,
    Late,
    LeaseExchanged,
    Refused,
    Retrying,
    Shed,
    StoreDown,
    StoreUp,
    Succeeded,
    WouldRefuse,
)

__all__ = [
    "BreakerChanged",
    "ChaosInjected",
    "Connected",
    "Declined",
    "Disconnected",
    "Event",
    "FellBack",
    "GaveUp",
    "Hedged",
    "IdempotentCall",
    "Interrupted",
    "JobEnded",
    "Late",
    "LeaseExchanged",
    "Refused",
    "Retrying",
    "Shed",
    "StoreDown",
    "StoreUp",
    "Succeeded",
    "WouldRefuse",
    "first_tries",
]


def first_tries() -> dict[str, int]:
    """Return the successes at the first attempt by operation, counted since the first `subscribe`."""
    return census.first_tries()
