"""The demo's numbers: counts per bucket of time, and the verdict drawn from them. Pure."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._demo_scenario import DemoScenario

SHARE = 0.95
WINDOW_S = 1.0


class Buckets:
    """Events counted per ``width_s`` of time: an event at ``t`` falls into bucket ``floor(t / width_s)``.

    A time before zero falls into the first bucket. Buckets never touched read as 0.
    """

    def __init__(self, width_s: float) -> None:
        self.width_s = width_s
        self.counts: list[int] = []

    def add(self, at_s: float, n: int = 1) -> None:
        self.put(max(0, math.floor(at_s / self.width_s)), n)

    def put(self, bucket: int, n: int) -> None:
        self.counts.extend([0] * (bucket + 1 - len(self.counts)))
        self.counts[bucket] += n

    def upto(self, length: int) -> list[int]:
        """The first ``length`` buckets, with 0 for those not reached."""
        return self.counts[:length] + [0] * (length - len(self.counts))

    def rate(self, first: int, last: int) -> float:
        """Events per second over buckets ``first`` to ``last``, the last not included."""
        first = max(0, first)
        return sum(self.counts[first:last]) / ((last - first) * self.width_s) if last > first else 0.0

    @property
    def total(self) -> int:
        return sum(self.counts)


class Series:
    """Everything counted in one lane, by the callers and by the server."""

    def __init__(self, bucket_s: float) -> None:
        self.offered, self.good, self.failed = Buckets(bucket_s), Buckets(bucket_s), Buckets(bucket_s)
        self.received, self.served, self.abandoned = Buckets(bucket_s), Buckets(bucket_s), Buckets(bucket_s)
        self.queued: list[int] = []
        self.attempts = 0
        self.reasons: Counter[str] = Counter()

    def add_report(self, row: Sequence[int]) -> None:
        """Add one line of the server's report: ``[bucket, received, served, abandoned, queued]``."""
        bucket, received, served, abandoned, queued = row
        self.received.put(bucket, received)
        self.served.put(bucket, served)
        self.abandoned.put(bucket, abandoned)
        self.queued.append(queued)

    def describe(self) -> dict[str, Any]:
        """The counts per bucket as plain data, all of one length."""
        names = ("offered", "good", "failed", "received", "served", "abandoned")
        length = max(len(getattr(self, name).counts) for name in names)
        return {name: getattr(self, name).upto(length) for name in names} | {
            "queued": self.queued + [0] * (length - len(self.queued))
        }


@dataclass(frozen=True, slots=True)
class LaneVerdict:
    """One lane in numbers. ``recovery_s`` is None if it did not recover while traffic lasted."""

    calls: int
    succeeded: int
    failed: int
    requests: int
    peak_rps: float
    peak_over_offered: float
    served_after: float
    wasted: int
    recovery_s: float | None
    reasons: dict[str, int]


def buckets_per_window(bucket_s: float) -> int:
    """Number of buckets that make up the window over which rates are judged (1 s)."""
    return max(1, round(WINDOW_S / bucket_s))


def peak_rate(received: Buckets) -> float:
    """The highest load over any window, in requests per second."""
    width = buckets_per_window(received.width_s)
    last = max(width, len(received.counts))
    return max(received.rate(i, i + width) for i in range(last - width + 1))


def recovery_time(offered: Buckets, good: Buckets, *, outage_end_s: float, end_s: float) -> float | None:
    """Seconds from the end of the outage until the offered load is served again; None if never.

    The first bucket from which at least 95 % of what is offered is served, both in the
    window that begins there and in all the time from there to the end of the traffic. (The
    second part distinguishes a recovery from a short reprieve; one late bucket does not undo it.)
    """
    step, width = offered.width_s, buckets_per_window(offered.width_s)
    first, last = math.ceil(outage_end_s / step - 1e-9), math.floor(end_s / step + 1e-9)
    wanted, served = offered.upto(last), good.upto(last)
    for k in range(first, last - width + 1):
        window_good = sum(served[k : k + width]) >= SHARE * sum(wanted[k : k + width])
        if window_good and sum(served[k:]) >= SHARE * sum(wanted[k:]):
            return k * step - outage_end_s
    return None


def drain_floor(scenario: DemoScenario) -> float:
    """Return the recovery time without any retry: the time for the outage's own queue. May be 0.

    With load ``L``, capacity ``M``, outage ``D`` and timeout ``t``: a caller that arrives
    ``(L D - M t) / (M - L)`` seconds after the outage is the first to wait no longer than ``t``,
    and is served ``t`` later.
    """
    offered, capacity = scenario.offered_rps, scenario.capacity_rps
    excess = offered * scenario.outage_s - capacity * scenario.timeout_s
    return excess / (capacity - offered) + scenario.timeout_s if excess > 0 else 0.0


def lane_verdict(series: Series, scenario: DemoScenario) -> LaneVerdict:
    """Return the verdict on one lane's counts."""
    step = scenario.bucket_s
    first, last = round(scenario.outage_end_s / step), round(scenario.seconds / step)
    peak = peak_rate(series.received)
    wanted = series.offered.rate(first, last)
    return LaneVerdict(
        calls=series.offered.total,
        succeeded=series.good.total,
        failed=series.failed.total,
        requests=series.received.total,
        peak_rps=peak,
        peak_over_offered=peak / scenario.offered_rps,
        served_after=series.good.rate(first, last) / wanted if wanted else 0.0,
        wasted=series.abandoned.total,
        recovery_s=recovery_time(
            series.offered, series.good, outage_end_s=scenario.outage_end_s, end_s=scenario.seconds
        ),
        reasons=dict(series.reasons),
    )


def state(series: Series, scenario: DemoScenario, now_s: float) -> str:
    """Return the state of a lane at ``now_s``, judged by the window before it.

    ``healthy``, ``broken`` while the server hangs, ``overloaded`` above 1.25 times its
    capacity, else ``recovering``; ``over`` when the traffic has ended.
    """
    if now_s > scenario.seconds + scenario.bucket_s:
        return "over"
    if scenario.outage_at_s <= now_s < scenario.outage_end_s:
        return "broken"
    last = math.floor(now_s / scenario.bucket_s)
    first = last - buckets_per_window(scenario.bucket_s)
    if first < 0 or now_s < scenario.outage_at_s:
        return "healthy"
    if series.received.rate(first, last) > 1.25 * scenario.capacity_rps:
        return "overloaded"
    good, wanted = series.good.rate(first, last), series.offered.rate(first, last)
    return "healthy" if good >= SHARE * wanted else "recovering"


def sentence(naive: LaneVerdict, stormproof: LaneVerdict, scenario: DemoScenario) -> str:
    """The verdict in words."""
    watched = scenario.seconds - scenario.outage_end_s

    def peak(lane: LaneVerdict) -> str:
        back = (
            f"had not recovered {watched:.1f} s later"
            if lane.recovery_s is None
            else f"was back to normal after {lane.recovery_s:.2f} s"
        )
        return f"{lane.peak_over_offered:.1f}x the offered load and {back}"

    return (
        f"After an outage of {scenario.outage_s:g} s the server with naive callers peaked at {peak(naive)}; "
        f"the one with Stormproof callers peaked at {peak(stormproof)}."
    )


def as_data(verdict: LaneVerdict) -> dict[str, Any]:
    """The verdict as plain data, ready for JSON."""
    return asdict(verdict)
