"""Event types, one frozen dataclass each. Nothing here carries arguments, URLs or server text.

Every attempt of a call that ends by itself is reported by exactly one of `Retrying`, `Succeeded` and
`GaveUp`, so the three together count the calls made. (`Interrupted` reports the end of a wait, not of an
attempt.)
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """``operation`` is the policy's name, or the function's when it has none."""

    operation: str

    def as_dict(self) -> dict[str, Any]:
        """The event as plain data, with its kind."""
        return {
            "event": type(self).__name__,
            **{field.name: getattr(self, field.name) for field in fields(self)},
        }


@dataclass(frozen=True, slots=True)
class Retrying(Event):
    """Attempt ``attempt`` failed with ``error``; the next one follows after ``wait`` seconds.

    ``error`` is the exception's type, or ``None`` when a result was refused. ``hint`` is what the
    server asked for, in seconds.
    """

    attempt: int
    wait: float
    error: str | None
    hint: float | None = None


@dataclass(frozen=True, slots=True)
class Succeeded(Event):
    """The call succeeded at its ``attempts``-th attempt, ``elapsed`` seconds after its first failure."""

    attempts: int
    elapsed: float = 0.0


@dataclass(frozen=True, slots=True)
class GaveUp(Event):
    """The call ended in failure after ``attempts`` attempts, ``elapsed`` seconds after the first one failed.

    ``reason`` is one of "fatal", "permanent", "attempts", "exhausted" (by an inner layer), "hint",
    "deadline", "within", "cancelled", "budget", "unrepeatable" (a client must not send the request again), or
    what refused the next attempt: "circuit", "bulkhead", "limit", "throttle".
    """

    attempts: int
    elapsed: float
    error: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Interrupted(GaveUp):
    """The call's scope ended ("deadline" or "cancelled") during the wait that `Retrying` announced."""


@dataclass(frozen=True, slots=True)
class Late(Event):
    """A plain function, which nothing interrupts, returned after ``elapsed`` seconds, past its ``limit``.

    ``scope`` is "deadline" or "timeout". The result is returned all the same.
    """

    limit: float
    elapsed: float
    scope: str


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """A call was not made: ``by`` names the strategy that refused it.

    One of "breaker", "bulkhead", "rate_limit", "throttle", "adaptive_limit" and "adaptive_rate".
    ``operation`` is the strategy's own name where it has one.
    """

    by: str


@dataclass(frozen=True, slots=True)
class BreakerChanged(Event):
    """A breaker went from state ``before`` to state ``after``; ``operation`` is its name.

    ``observed`` means that it only would have: it is set to observe. ``error`` is the type of the
    failure it counted last.
    """

    before: str
    after: str
    observed: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Hedged(Event):
    """Attempt ``attempt`` was launched while others were still out."""

    attempt: int


@dataclass(frozen=True, slots=True)
class FellBack(Event):
    """The call failed with ``error`` (the exception's type), and its fallback answered instead."""

    error: str | None


@dataclass(frozen=True, slots=True)
class ChaosInjected(Event):
    """Chaos was injected into a call: ``what`` is "fault", "outcome", "latency" or "behaviour"."""

    what: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """A reconnecting loop has a connection, at the ``attempts``-th try since the last stable one."""

    attempts: int


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """A connection ended after ``alive`` seconds, with ``error`` (the exception's type).

    ``wait`` is the wait before the next connect; ``None`` when the connection was not stable, and
    `Retrying` or `GaveUp` reports what follows.
    """

    alive: float
    error: str | None
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class JobEnded(Event):
    """A worker is done with a job: ``outcome`` is "succeeded", "failed", "unfinished" or "requeued".

    ``error`` is the type of what the job raised, or of what ended it.
    """

    outcome: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class IdempotentCall(Event):
    """A call with an idempotency key; ``decision`` is how it was answered.

    "new" and "taken_over" (after an unknown outcome) run; "replay", "in_progress", "mismatch" and "unknown"
    do not. "lost": it ran, but another owner had taken its key over. "unrecorded": it ran, and the store
    could not record it. A `MemoryStore` without room emits "dropped" for a key it forgets, and "refused".
    """

    decision: str


@dataclass(frozen=True, slots=True)
class Shed(Event):
    """A server refused a request to stay alive: ``reason`` is "full", or "retry" when only retries are."""

    reason: str


@dataclass(frozen=True, slots=True)
class StoreDown(Event):
    """The store of a fleet cannot be used: ``error`` is the error's type, ``on_failure`` the rule now.

    ``operation`` is the store's prefix, or the resource when only its key is unusable.
    """

    error: str | None
    on_failure: str


@dataclass(frozen=True, slots=True)
class StoreUp(Event):
    """The store, or a resource's key in it, can be used again, after ``down_for`` seconds."""

    down_for: float


@dataclass(frozen=True, slots=True)
class LeaseExchanged(Event):
    """A budget or limiter has settled with the store: ``granted`` tokens more (or, if negative, given back).

    ``held`` is what it may spend now without asking, ``level`` what the store has left, ``instances``
    how many took part lately, ``latency`` the mean time of a round trip in seconds.
    """

    kind: str
    granted: float
    held: float
    level: float
    instances: int
    latency: float


@dataclass(frozen=True, slots=True)
class Declined(Event):
    """A server answered for a handler that gave up with ``error`` (its type); ``code`` is the answer's."""

    code: str
    error: str | None


@dataclass(frozen=True, slots=True)
class WouldRefuse(Event):
    """A strategy with ``observe=True`` let a call or a retry through that it would have refused.

    ``by`` is "budget", "breaker", "bulkhead", "throttle" or "rate_limit".
    """

    by: str


for _kind in (Event, *Event.__subclasses__()):
    # Users import them from there, and reprs and pickles should say so.
    _kind.__module__ = "stormproof.events"
