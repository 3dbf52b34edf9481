"""Faults of a scenario and their times. Each fault is frozen data; the engines read it.

Times are seconds from the start of the run. Faults may overlap: capacities and loads multiply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._primitives.options import Options, choice, count, number, seconds

if TYPE_CHECKING:
    from ..._primitives.options import Seconds


class Fault(Options):
    """Something that begins at ``at`` and lasts ``lasts`` seconds."""

    __slots__ = ()
    at: float
    lasts: float

    @property
    def end(self) -> float:
        """Time at which the fault ends."""
        return self.at + self.lasts

    @property
    def breaks(self) -> bool:
        """True if recovery is counted from its end; False for faults that only add load."""
        return True


def _when(owner: str, at: Seconds, lasts: Seconds) -> dict[str, float]:
    return {"at": seconds(owner, "at", at), "lasts": seconds(owner, "lasts", lasts)}


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

    __slots__ = _fields = ("at", "lasts", "mode", "retry_after", "cost")
    mode: str
    retry_after: float | None
    cost: float | None

    def __init__(
        self,
        at: Seconds,
        lasts: Seconds,
        mode: str = "hang",
        retry_after: Seconds | None = None,
        cost: float | None = None,
    ) -> None:
        self._set(
            **_when("Outage", at, lasts),
            mode=choice("Outage", "mode", mode, ("hang", "fail")),
            retry_after=_hint("Outage", retry_after),
            cost=failure_cost("Outage", cost),
        )
        if self.mode == "hang" and self.cost:
            raise ValueError(
                f"Outage: cost must be 0 or None with mode='hang', which fails nothing, got {cost!r}"
            )


class Brownout(Fault):
    """The backend serves with ``capacity`` (0 to 1) of its capacity."""

    __slots__ = _fields = ("at", "lasts", "capacity")
    capacity: float

    def __init__(self, at: Seconds, lasts: Seconds, capacity: float = 0.5) -> None:
        self._set(
            **_when("Brownout", at, lasts),
            capacity=number("Brownout", "capacity", capacity, least=0, most=1),
        )


class Ramp(Fault):
    """Capacity grows evenly from ``start`` (0 to 1) of what it is to all of it, in ``steps`` steps."""

    __slots__ = _fields = ("at", "lasts", "start", "steps")
    start: float
    steps: int

    def __init__(self, at: Seconds, lasts: Seconds, start: float = 0.1, steps: int = 20) -> None:
        self._set(
            **_when("Ramp", at, lasts),
            start=number("Ramp", "start", start, least=0, most=1),
            steps=count("Ramp", "steps", steps, most=1000),
        )


class Errors(Fault):
    """Each attempt is answered 503 with probability ``rate``.

    ``cost`` is the share of the service time that a failed one still takes (None: the scenario's).
    """

    __slots__ = _fields = ("at", "lasts", "rate", "retry_after", "cost")
    rate: float
    retry_after: float | None
    cost: float | None

    def __init__(
        self,
        at: Seconds,
        lasts: Seconds,
        rate: float = 0.5,
        retry_after: Seconds | None = None,
        cost: float | None = None,
    ) -> None:
        self._set(
            **_when("Errors", at, lasts),
            rate=number("Errors", "rate", rate, least=0, most=1),
            retry_after=_hint("Errors", retry_after),
            cost=failure_cost("Errors", cost),
        )


class Latency(Fault):
    """The network takes ``extra`` seconds more for each round trip that begins in this time."""

    __slots__ = _fields = ("at", "lasts", "extra")
    extra: float

    def __init__(self, at: Seconds, lasts: Seconds, extra: Seconds = 0.1) -> None:
        self._set(**_when("Latency", at, lasts), extra=seconds("Latency", "extra", extra))


class Partition(Fault):
    """A ``share`` (0 to 1) of the client processes cannot reach the backend: ``mode="hang"`` swallows
    their attempts without an answer, ``mode="fail"`` refuses them at once.
    """

    __slots__ = _fields = ("at", "lasts", "share", "mode")
    share: float
    mode: str

    def __init__(self, at: Seconds, lasts: Seconds, share: float = 0.5, mode: str = "hang") -> None:
        self._set(
            **_when("Partition", at, lasts),
            share=number("Partition", "share", share, least=0, most=1),
            mode=choice("Partition", "mode", mode, ("hang", "fail")),
        )


class Deploy(Fault):
    """A rolling deploy: ``instances`` restart one after the other, each gone for ``lasts / instances``.

    While one is gone its share of the capacity is. For the first ``detect`` seconds of each restart its
    share of the attempts is refused with 503; after that the others get them.
    """

    __slots__ = _fields = ("at", "lasts", "instances", "detect")
    instances: int
    detect: float

    def __init__(self, at: Seconds, lasts: Seconds, instances: int = 10, detect: Seconds = 0.5) -> None:
        self._set(
            **_when("Deploy", at, lasts),
            instances=count("Deploy", "instances", instances, most=10_000),
            detect=seconds("Deploy", "detect", detect),
        )


class ColdCache(Fault):
    """From ``at`` on a request costs ``cost`` times the usual work, less with every one that is served,
    and the usual again after ``warm`` of them.
    """

    __slots__ = _fields = ("at", "cost", "warm")
    cost: float
    warm: int

    def __init__(self, at: Seconds, cost: float = 5.0, warm: int = 1000) -> None:
        self._set(
            at=seconds("ColdCache", "at", at),
            cost=number("ColdCache", "cost", cost, least=1),
            warm=count("ColdCache", "warm", warm),
        )

    @property
    def lasts(self) -> float:  # type: ignore[override]
        """Its length depends on the load."""
        return 0.0


class Spike(Fault):
    """The offered load is ``factor`` times the usual. 0 is silence."""

    __slots__ = _fields = ("at", "lasts", "factor")
    factor: float

    def __init__(self, at: Seconds, lasts: Seconds, factor: float = 2.0) -> None:
        self._set(
            **_when("Spike", at, lasts),
            factor=number("Spike", "factor", factor, least=0),
        )


class Burst(Fault):
    """``calls`` calls more, begun at ``at`` (or evenly over the ``over`` seconds after it): a crowd that
    was woken at the same moment. They go round the client processes.
    """

    __slots__ = _fields = ("at", "calls", "over")
    calls: int
    over: float

    def __init__(self, at: Seconds, calls: int, over: Seconds = 0.0) -> None:
        self._set(
            at=seconds("Burst", "at", at),
            calls=count("Burst", "calls", calls),
            over=seconds("Burst", "over", over),
        )

    @property
    def lasts(self) -> float:  # type: ignore[override]
        return self.over


class StoreLoss(Fault):
    """The shared store is out of reach; ``on_failure`` says what fleet-wide budgets do meanwhile:
    ``"local"`` lets each process have its share, ``"open"`` pays every retry, ``"closed"`` none. None: what
    the budget's own store says, or "local".
    """

    __slots__ = _fields = ("at", "lasts", "on_failure")
    on_failure: str | None

    def __init__(self, at: Seconds, lasts: Seconds, on_failure: str | None = None) -> None:
        modes = ("local", "open", "closed")
        self._set(
            **_when("StoreLoss", at, lasts),
            on_failure=None if on_failure is None else choice("StoreLoss", "on_failure", on_failure, modes),
        )

    @property
    def breaks(self) -> bool:
        return False


def checked(owner: str, value: Any) -> tuple[Fault, ...]:
    """``value`` as a tuple of faults: one, several, or None for none."""
    if value is None:
        return ()
    if isinstance(value, Fault):
        return (value,)
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__iter__"):
        raise TypeError(
            f"Scenario: {owner} must be a fault such as Outage(2, 0.2), or several, got {value!r}"
        )
    found = tuple(value)
    for fault in found:
        if not isinstance(fault, Fault):
            raise TypeError(f"Scenario: {owner} must hold faults such as Outage(2, 0.2), got {fault!r}")
    return found
