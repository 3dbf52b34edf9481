"""Faults of a scenario as consecutive stretches of time, in each of which nothing changes."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING

from .faults import Brownout, Deploy, Errors, Fault, Latency, Outage, Partition, Ramp, StoreLoss
from .scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable


class Stretch:
    """Conditions from ``begins`` on. ``capacity`` is a factor; ``fails`` answers every arrival 503."""

    def __init__(self, begins: float, error_rate: float, hint: float | None, cost: float = 0.0) -> None:
        self.begins = begins
        self.capacity = 1.0
        self.fails = False
        self.fail_hint: float | None = hint
        self.error_rate = error_rate
        self.error_hint: float | None = hint
        #: Share of the service time that a failed request takes: the scenario's, of errors, in an outage.
        self.cost = self.error_cost = self.fail_cost = cost
        self.extra_s = 0.0
        #: (share of the clients, "hang" or "fail") of every partition.
        self.parted: tuple[tuple[float, str], ...] = ()
        #: What fleet-wide budgets do while the store is away; "" while it is there.
        self.store = ""

    def add_errors(self, rate: float, hint: float | None, cost: float | None) -> None:
        before = self.error_rate
        self.error_rate = 1.0 - (1.0 - before) * (1.0 - rate)
        self.error_hint = hint if hint is not None else self.error_hint
        if self.error_rate > 0.0:
            # Of several kinds of errors, the mean cost, each by its part of the errors.
            added = (self.error_rate - before) * (self.cost if cost is None else cost)
            self.error_cost = (before * self.error_cost + added) / self.error_rate


#: From when, to when, and what it does to a stretch.
Piece = tuple[float, float, "Callable[[Stretch], None]"]


def stretches(scenario: Scenario) -> list[Stretch]:
    """The stretches of a scenario, in order; the first begins at 0, the last never ends."""
    pieces = [piece for fault in scenario.every_fault for piece in _pieces(fault)]
    times = sorted({0.0, *(at for at, _, _ in pieces), *(end for _, end, _ in pieces)})
    usual = (scenario.error_rate, scenario.retry_after, scenario.cost)
    row = [Stretch(at, *usual) for at in times if math.isfinite(at)]
    for at, end, change in pieces:
        for stretch in row:
            if at <= stretch.begins < end:
                change(stretch)
    return row


def _pieces(fault: Fault) -> list[Piece]:
    """Return what ``fault`` changes, piece by piece, with start and end."""
    if isinstance(fault, Ramp):
        width = fault.lasts / fault.steps
        return [
            _slower(fault.at + i * width, width, fault.start + (1.0 - fault.start) * i / fault.steps)
            for i in range(fault.steps)
        ]
    if isinstance(fault, Deploy):
        return _deploy(fault)
    if isinstance(fault, Brownout):
        return [_slower(fault.at, fault.lasts, fault.capacity)]
    change = _change(fault)
    return [] if change is None else [(fault.at, fault.end, change)]


def _slower(at: float, lasts: float, factor: float) -> Piece:
    def change(stretch: Stretch) -> None:
        stretch.capacity *= factor

    return at, at + lasts, change


def _deploy(fault: Deploy) -> list[Piece]:
    width, share = fault.lasts / fault.instances, 1.0 / fault.instances

    def refused(stretch: Stretch) -> None:
        # Nothing answers where an instance is gone, so nothing works on it either.
        stretch.add_errors(share, None, 0.0)

    pieces = [_slower(fault.at, fault.lasts, 1.0 - share)]
    for turn in range(fault.instances):
        begins = fault.at + turn * width
        pieces.append((begins, begins + min(width, fault.detect), refused))
    return pieces


def _change(fault: Fault) -> Callable[[Stretch], None] | None:
    def change(stretch: Stretch) -> None:
        if isinstance(fault, Outage):
            if fault.mode == "hang":
                stretch.capacity = 0.0
            else:
                stretch.fails = True
                stretch.fail_hint = fault.retry_after if fault.retry_after is not None else stretch.fail_hint
                stretch.fail_cost = fault.cost if fault.cost is not None else stretch.fail_cost
        elif isinstance(fault, Errors):
            stretch.add_errors(fault.rate, fault.retry_after, fault.cost)
        elif isinstance(fault, Latency):
            stretch.extra_s += fault.extra
        elif isinstance(fault, Partition):
            stretch.parted = (*stretch.parted, (fault.share, fault.mode))
        elif isinstance(fault, StoreLoss):
            stretch.store = fault.on_failure or "own"

    return change if isinstance(fault, (Outage, Errors, Latency, Partition, StoreLoss)) else None


class Capacity:
    """The backend's speed over time, piecewise constant: when is work done, how much was done between."""

    def __init__(self, row: list[Stretch]) -> None:
        self._times = [stretch.begins for stretch in row]
        self._factors = [stretch.capacity for stretch in row]
        self._ends = [*self._times[1:], math.inf]
        self._sums = [0.0]
        for index in range(len(row) - 1):
            self._sums.append(
                self._sums[-1] + (self._times[index + 1] - self._times[index]) * self._factors[index]
            )

    def finish(self, start: float, work: float) -> float:
        """Return the time at which ``work`` seconds of work end that begin at ``start``; inf if never."""
        index = bisect.bisect_right(self._times, start) - 1
        while True:
            factor = self._factors[index]
            if factor > 0.0:
                end = start + work / factor
                if end <= self._ends[index]:
                    return end
                work -= (self._ends[index] - start) * factor
            start = self._ends[index]
            if start == math.inf:
                return math.inf
            index += 1

    def speed(self, now: float) -> tuple[float, float]:
        """The factor that holds at ``now``, and until when."""
        index = bisect.bisect_right(self._times, now) - 1
        return self._factors[index], self._ends[index]

    def done(self, until: float) -> float:
        """Seconds of work that one worker gets done from 0 to ``until``."""
        index = bisect.bisect_right(self._times, until) - 1
        return self._sums[index] + (until - self._times[index]) * self._factors[index]
