"""The numbers behind every sink: counts of events, and readings of live objects.

`Meters` takes events and adds them up; `read` gives the totals. `gauges` looks at the strategies of
every living policy: balances, states, places in use.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

from .._events.operations import census
from .._runtime.locks import guard
from .._strategies.breaker.breaker import Breaker
from .._strategies.bulkhead.bulkhead import Bulkhead
from .._strategies.keyed import Keyed
from .._strategies.limiter.rate_limit import RateLimit
from .._strategies.retry.retry import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._events.types import Event

#: Attempts it took to succeed: upper bounds of the histogram's buckets.
ATTEMPTS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)
#: Seconds waited before a retry: upper bounds of the histogram's buckets.
WAITS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: From letting everything through to letting nothing through.
STATES = ("closed", "half_open", "open")


class Counted(NamedTuple):
    """A counter: its ``key`` in a reading, its meaning, the name of its kinds if it has any, and its unit."""

    key: str
    text: str
    kinds: str | None = None
    unit: str = "1"


#: Counters beside successes.
COUNTED = (
    Counted("attempts", "Attempts made.", unit="{attempt}"),
    Counted("retries", "Retries decided on.", unit="{retry}"),
    Counted("give_ups", "Calls that ended in failure, by reason.", "reason"),
    Counted("refusals", "Calls refused before they were made, by the strategy.", "by"),
    Counted("would_refuse", "Calls and retries that an observing strategy would have refused, by it.", "by"),
    Counted("late_results", "Results of plain functions that came past their limit, by its kind.", "scope"),
    Counted("hedges", "Attempts launched while others were still out."),
    Counted("fallbacks", "Calls answered by a fallback."),
    Counted("breaker_changes", "Breakers that changed their state, by the new one.", "state"),
    Counted("connections", "Connections made by reconnecting loops."),
    Counted("disconnections", "Connections of reconnecting loops that ended."),
    Counted("jobs", "Jobs a worker was done with, by outcome.", "outcome"),
    Counted("chaos", "Faults injected on purpose, by kind.", "what"),
)

_ATTEMPT = ("attempts", None)
#: Event -> each key it counts under, with the field that distinguishes its kinds.
_KEYS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "Retrying": (_ATTEMPT, ("retries", None)),
    "Succeeded": (_ATTEMPT,),
    "GaveUp": (_ATTEMPT, ("give_ups", "reason")),
    "Interrupted": (("give_ups", "reason"),),
    "Refused": (("refusals", "by"),),
    "WouldRefuse": (("would_refuse", "by"),),
    "Late": (("late_results", "scope"),),
    "Hedged": (("hedges", None),),
    "FellBack": (("fallbacks", None),),
    "BreakerChanged": (("breaker_changes", "after"),),
    "Connected": (("connections", None),),
    "Disconnected": (("disconnections", None),),
    "JobEnded": (("jobs", "outcome"),),
    "ChaosInjected": (("chaos", "what"),),
}

#: Gauges, read when they are asked for: key in `gauges`, and meaning.
MEASURED = (
    ("budget_balance", "Retries the budget would allow now."),
    ("limiter_tokens", "Tokens in the limiter; negative while calls wait."),
    ("bulkhead_in_use", "Places of the bulkhead in use."),
    ("bulkhead_queued", "Calls waiting for a place."),
)


class Histogram:
    """Counts by bucket: ``counts[i]`` is how many were <= ``bounds[i]`` and above the bound before it."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def copy(self) -> Histogram:
        copy = Histogram(self.bounds)
        copy.counts, copy.total = list(self.counts), self.total
        return copy

    def cumulative(self) -> list[tuple[str, int]]:
        """Return (upper bound as text, number of values up to it) per bound; the last one is ``+Inf``."""
        sofar, rows = 0, []
        for bound, count in zip((*map(str, map(float, self.bounds)), "+Inf"), self.counts, strict=True):
            sofar += count
            rows.append((bound, sofar))
        return rows


class Reading:
    """The totals of one moment. Every key begins with the operation."""

    def __init__(self) -> None:
        #: Event -> (operation, kind) -> count. ``kind`` is "" where there is only one.
        self.counts: dict[str, dict[tuple[str, str], int]] = {counted.key: {} for counted in COUNTED}
        self.successes: dict[str, Histogram] = {}
        self.waits: dict[str, Histogram] = {}


class Meters:
    """Adds events up. Takes first-try successes from `stormproof._events.operations`, so it need not hear of
    those."""

    def __init__(self) -> None:
        self._sums = Reading()
        # The census counts from the first subscriber on; its earlier counts are not of these meters.
        self._before = census.first_tries()
        self._lock = guard(self)

    def add(self, event: Event) -> None:
        """Count ``event``."""
        kind = type(event).__name__
        operation = census.name(event.operation)
        with self._lock:
            for key, field in _KEYS.get(kind, ()):
                _add(self._sums.counts[key], (operation, "" if field is None else getattr(event, field)))
            if kind == "Retrying":
                self._sums.waits.setdefault(operation, Histogram(WAITS)).add(event.wait)  # type: ignore[attr-defined]
            elif kind == "Succeeded":
                self._sums.successes.setdefault(operation, Histogram(ATTEMPTS)).add(event.attempts)  # type: ignore[attr-defined]

    def read(self) -> Reading:
        """The totals of this moment, first-try successes among them."""
        first_tries = census.first_tries()
        reading = Reading()
        with self._lock:
            sums = self._sums
            reading.counts = {what: dict(counts) for what, counts in sums.counts.items()}
            reading.waits = {name: waits.copy() for name, waits in sums.waits.items()}
            reading.successes = {name: successes.copy() for name, successes in sums.successes.items()}
        for name, total in first_tries.items():
            fresh = total - self._before.get(name, 0)
            if fresh:
                _add(reading.counts["attempts"], (name, ""), fresh)
                reading.successes.setdefault(name, Histogram(ATTEMPTS)).add(1, fresh)
        return reading


def _add(counts: dict[Any, int], key: object, by: int = 1) -> None:
    counts[key] = counts.get(key, 0) + by


def gauges() -> dict[str, dict[str, Any]]:
    """Return the live state by operation: "breaker_state", and each of `MEASURED`.

    Where several policies run one operation: the tightest.
    """
    reading: dict[str, dict[str, Any]] = {key: {} for key in ("breaker_state", *(key for key, _ in MEASURED))}
    seen: set[tuple[str, int]] = set()
    for name, part in _parts():
        if (name, id(part)) in seen:
            continue
        seen.add((name, id(part)))
        if isinstance(part, Breaker):
            states = reading["breaker_state"]
            states[name] = max(part.state, states.get(name, "closed"), key=STATES.index)
        elif isinstance(part, Bulkhead):
            _add(reading["bulkhead_in_use"], name, part.in_use)
            _add(reading["bulkhead_queued"], name, part.queued)
        elif isinstance(part, RateLimit):
            if not isinstance(part.limiter, Keyed):
                _least(reading["limiter_tokens"], name, part.limiter.tokens())
        elif isinstance(balance := getattr(part, "balance", None), float):
            _least(reading["budget_balance"], name, balance)
    return reading


def _least(values: dict[str, float], name: str, value: float) -> None:
    values[name] = min(value, values.get(name, value))


def _parts() -> Iterator[tuple[str, Any]]:
    """Every operation with each strategy it has; of a Retry, its budget."""
    for name, policy in census.policies():
        for strategy in policy.strategies:
            yield name, strategy.budget if isinstance(strategy, Retry) else strategy
