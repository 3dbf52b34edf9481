"""Faults of a scenario and their times. Each fault is frozen data; the engines read it.

Times are seconds from the start of the run. Faults may overlap: capacities and loads multiply.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from ..._primitives.options import Options, choice, count, number, seconds

if TYPE_CHECKING:
    from ..._primitives.options import Seconds


T = TypeVar("T")


class Fault(Options):
    """Something that begins at ``at`` and lasts ``lasts`` seconds."""

    #: True if recovery is counted from its end.
    breaks = True

    def __init__(self, at: Seconds, lasts: Seconds) -> None:
        owner = type(self).__name__
        self.at = seconds(owner, "at", at)
        self.lasts = seconds(owner, "lasts", lasts)

    @property
    def end(self) -> float:
        """Time at which the fault ends."""
        return self.at + self.lasts


def _hint(owner: str, value: Seconds | None) -> float | None:
    return None if value is None else seconds(owner, "retry_after", value)


def failure_cost(owner: str, value: float | None) -> float | None:
    """Return ``value`` as the cost of a failed request; None is the scenario's."""
    return None if value is None else number(owner, "cost", value, least=0)


class Outage(Fault):
    """The backend is down. ``mode="hang"``: it stops serving, arrivals queue, and work whose caller has
    gone is still served afterwards. ``mode="fail"``: it answers 503, with ``retry_after`` as the
    server's hint (None: no hint); what was queued before is served meanwhile.

    ``cost`` is the share of the service time that a failed request still takes: 0 answers at once, 1 queues
    and works as for a success and then fails. None is the scenario's. A hanging backend fails nothing.
    """

    def __init__(
        self,
        at: Seconds,
        lasts: Seconds,
        mode: str = "hang",
        retry_after: Seconds | None = None,
        cost: float | None = None,
    ) -> None:
        super().__init__(at, lasts)
        self.mode = choice("Outage", "mode", mode, ("hang", "fail"))
        self.retry_after = _hint("Outage", retry_after)
        self.cost = failure_cost("Outage", cost)
        if self.mode == "hang" and self.cost:
            raise ValueError(
                f"Outage: cost must be 0 or None with mode='hang', which fails nothing, got {cost!r}"
            )


class Brownout(Fault):
    """The backend serves with ``capacity`` (0 to 1) of its capacity."""

    def __init__(self, at: Seconds, lasts: Seconds, capacity: float = 0.5) -> None:
        super().__init__(at, lasts)
        self.capacity = number("Brownout", "capacity", capacity, least=0, most=1)


class Ramp(Fault):
    """Capacity grows evenly from ``start`` (0 to 1) of what it is to all of it, in ``steps`` steps."""

    def __init__(self, at: Seconds, lasts: Seconds, start: float = 0.1, steps: int = 20) -> None:
        super().__init__(at, lasts)
        self.start = number("Ramp", "start", start, least=0, most=1)
        self.steps = count("Ramp", "steps", steps, most=1000)


class Errors(Fault):
    """Each attempt is answered 503 with probability ``rate``.

    ``cost`` is the share of the service time that a failed one still takes (None: the scenario's).
    """

    def __init__(
        self,
        at: Seconds,
        lasts: Seconds,
        rate: float = 0.5,
        retry_after: Seconds | None = None,
        cost: float | None = None,
    ) -> None:
        super().__init__(at, lasts)
        self.rate = number("Errors", "rate", rate, least=0, most=1)
        self.retry_after = _hint("Errors", retry_after)
        self.cost = failure_cost("Errors", cost)


class Latency(Fault):
    """The network takes ``extra`` seconds more for each round trip that begins in this time."""

    def __init__(self, at: Seconds, lasts: Seconds, extra: Seconds = 0.1) -> None:
        super().__init__(at, lasts)
        self.extra = seconds("Latency", "extra", extra)


class Partition(Fault):
    """A ``share`` (0 to 1) of the client processes cannot reach the backend: ``mode="hang"`` swallows
    their attempts without an answer, ``mode="fail"`` refuses them at once.
    """

    def __init__(self, at: Seconds, lasts: Seconds, share: float = 0.5, mode: str = "hang") -> None:
        super().__init__(at, lasts)
        self.share = number("Partition", "share", share, least=0, most=1)
        self.mode = choice("Partition", "mode", mode, ("hang", "fail"))


class Deploy(Fault):
    """A rolling deploy: ``instances`` restart one after the other, each gone for ``lasts / instances``.

    While one is gone its share of the capacity is. For the first ``detect`` seconds of each restart its
    share of the attempts is refused with 503; after that the others get them.
    """

    def __init__(self, at: Seconds, lasts: Seconds, instances: int = 10, detect: Seconds = 0.5) -> None:
        super().__init__(at, lasts)
        self.instances = count("Deploy", "instances", instances, most=10_000)
        self.detect = seconds("Deploy", "detect", detect)


class ColdCache(Fault):
    """From ``at`` on a request costs ``cost`` times the usual work, less with every one that is served,
    and the usual again after ``warm`` of them.
    """

    def __init__(self, at: Seconds, cost: float = 5.0, warm: int = 1000) -> None:
        self.at = seconds("ColdCache", "at", at)
        self.cost = number("ColdCache", "cost", cost, least=1)
        self.warm = count("ColdCache", "warm", warm)
        # Its length depends on the load.
        self.lasts = 0.0


class Spike(Fault):
    """The offered load is ``factor`` times the usual. 0 is silence."""

    def __init__(self, at: Seconds, lasts: Seconds, factor: float = 2.0) -> None:
        super().__init__(at, lasts)
        self.factor = number("Spike", "factor", factor, least=0)


class Burst(Fault):
    """``calls`` calls more, begun at ``at`` (or evenly over the ``over`` seconds after it): a crowd that
    was woken at the same moment. They go round the client processes.
    """

    def __init__(self, at: Seconds, calls: int, over: Seconds = 0.0) -> None:
        self.at = seconds("Burst", "at", at)
        self.calls = count("Burst", "calls", calls)
        self.over = self.lasts = seconds("Burst", "over", over)


class StoreLoss(Fault):
    """The shared store is out of reach; ``on_failure`` says what fleet-wide budgets do meanwhile:
    ``"local"`` lets each process have its share, ``"open"`` pays every retry, ``"closed"`` none. None: what
    the budget's own store says, or "local".
    """

    breaks = False

    def __init__(self, at: Seconds, lasts: Seconds, on_failure: str | None = None) -> None:
        modes = ("local", "open", "closed")
        super().__init__(at, lasts)
        self.on_failure = None if on_failure is None else choice("StoreLoss", "on_failure", on_failure, modes)


def several(field: str, value: object, kind: type[T], hint: str = "") -> tuple[T, ...]:
    """``value``, given as ``field`` of a scenario, as a tuple of ``kind``: one, several, or None for none."""
    if value is None or isinstance(value, kind):
        return () if value is None else (value,)
    if isinstance(value, (str, bytes, dict)) or not isinstance(value, Iterable):
        value = (value,)
    items: list[T] = []
    for item in value:
        if not isinstance(item, kind):
            raise TypeError(f"Scenario: {field} must hold {kind.__name__} objects{hint}, got {item!r}")
        items.append(item)
    return tuple(items)
