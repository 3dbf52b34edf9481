"""Recorder of a run, and the columns made from its records."""

from __future__ import annotations

import bisect
import math
from array import array
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ..model.scenario import Scenario
from ..model.timeline import stretches

#: Approximate number of progress reports per run.
PROGRESS_REPORTS = 40


class Raw:
    """Records of either engine: counts per step of ``step`` seconds, gauges, totals.

    ``offered`` calls begun, ``received`` attempts that arrived at the backend, ``succeeded`` calls that
    succeeded, by the step in which it happened. Of the calls begun in a step, ``kept`` is how many succeeded,
    ``tries`` how many attempts they made, whenever that was. ``p50`` and ``p99`` are of the latencies of the
    calls that succeeded in the step (NaN: none did). ``queue``, ``budget`` (settled) and ``breaker_open`` are
    readings at the end of each step (NaN: not known). ``until`` is how far the run came.
    """

    __slots__ = (
        "attempts",
        "breaker_open",
        "budget",
        "calls",
        "failures",
        "kept",
        "latency",
        "mean",
        "offered",
        "p50",
        "p99",
        "path",
        "queue",
        "received",
        "step",
        "succeeded",
        "successes",
        "tries",
        "until",
        "why",
    )

    def __init__(self, step: float, until: float) -> None:
        self.step = step
        self.until = until
        size = steps(until, step)
        self.offered = np.zeros(size)
        self.received = np.zeros(size)
        self.succeeded = np.zeros(size)
        self.kept = np.zeros(size)
        self.tries = np.zeros(size)
        self.p50 = np.full(size, math.nan)
        self.p99 = np.full(size, math.nan)
        self.queue = np.full(size, math.nan)
        self.budget = np.full(size, math.nan)
        self.breaker_open = np.full(size, math.nan)
        self.calls = self.attempts = self.successes = 0
        #: Why calls failed: reason -> how many.
        self.failures: dict[str, int] = {}
        #: (p50, p99) of all calls that succeeded.
        self.latency: tuple[float, float] = (math.nan, math.nan)
        #: Their mean.
        self.mean = math.nan
        #: Which way the engine took, and why.
        self.path = ""
        self.why = ""


def steps(until: float, step: float) -> int:
    """Return the number of steps; the last one may be shorter."""
    return max(1, math.ceil(until / step - 1e-9))


def series(raw: Raw, scenario: Scenario) -> dict[str, list[float | None]]:
    """The columns over time, as rates per second; None for a missing value."""
    size = len(raw.offered)
    widths = np.full(size, raw.step)
    last = raw.until - raw.step * (size - 1)
    if last < raw.step * (1 - 1e-9):
        widths[-1] = max(1e-12, last)
    with np.errstate(divide="ignore", invalid="ignore"):
        amplification = np.where(raw.offered > 0, raw.tries / raw.offered, np.nan)
    return {
        "time": _column((np.arange(size) * raw.step).round(9)),
        "offered": _column(raw.offered / widths),
        "received": _column(raw.received / widths),
        "goodput": _column(raw.succeeded / widths),
        "p50": _column(raw.p50),
        "p99": _column(raw.p99),
        "queue": _column(raw.queue),
        "budget": _column(raw.budget),
        "breaker_open": _column(raw.breaker_open),
        "amplification": _column(amplification),
        "capacity": _column(_capacity(scenario, size, raw.step)),
    }


def _column(values: Any) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _capacity(scenario: Scenario, size: int, step: float) -> Any:
    """Return the capacity of the backend at the beginning of each step."""
    row = stretches(scenario)
    begins = np.array([stretch.begins for stretch in row])
    serves = np.array([0.0 if s.fails else s.capacity * scenario.capacity_rps for s in row])
    return serves[np.searchsorted(begins, np.arange(size) * step + 1e-9, side="right") - 1]


class SoFar:
    """A run under way: how far it is, and its columns up to there, made on demand."""

    __slots__ = ("_recorder", "until")

    def __init__(self, recorder: Recorder, until: float) -> None:
        self._recorder = recorder
        self.until = until

    def raw(self) -> Raw:
        return self._recorder.raw(self.until)


class Recorder:
    """The exact engine's notebook: one entry per call begun, attempt received, call that succeeded."""

    __slots__ = (
        "_gauges",
        "_progress",
        "_ranked",
        "_scenario",
        "_reported",
        "began",
        "breaker_open",
        "budget",
        "done_at",
        "failures",
        "offered_at",
        "queue",
        "received",
        "tried",
    )

    def __init__(
        self,
        scenario: Scenario,
        received: array[float],
        gauges: Callable[[float], tuple[float, float, float]],
        progress: Callable[[SoFar], object] | None,
    ) -> None:
        self._scenario = scenario
        self._gauges = gauges
        self._progress = progress
        self._reported = 0
        #: The percentiles of the steps that are over, and how many successes these hold.
        self._ranked: tuple[Any, Any, int] = (np.empty(0), np.empty(0), 0)
        self.offered_at = array("d")
        self.received = received
        self.done_at = array("d")
        #: When the calls began that succeeded, and, for each attempt, when its call began.
        self.began = array("d")
        self.tried = array("d")
        self.queue = array("d")
        self.budget = array("d")
        self.breaker_open = array("d")
        self.failures: Counter[str] = Counter()

    def sample(self, now: float) -> bool:
        """Read the gauges at the end of a step; False if the progress callback ends the run."""
        queue, budget, breaker_open = self._gauges(now)
        self.queue.append(queue)
        self.budget.append(budget)
        self.breaker_open.append(breaker_open)
        if self._progress is None:
            return True
        share = int(len(self.queue) * PROGRESS_REPORTS / steps(self._scenario.duration, self._scenario.step))
        if share == self._reported:
            return True
        self._reported = share
        return self._progress(SoFar(self, now)) is not False

    def raw(self, until: float) -> Raw:
        """The columns of the run up to ``until``; totals and reasons are those of this moment."""
        step = self._scenario.step
        raw = Raw(step, until)
        size = len(raw.offered)
        done_at = _up_to(self.done_at, until)
        raw.offered = _counts(_up_to(self.offered_at, until), step, size)
        raw.received = _counts(_up_to(self.received, until), step, size)
        raw.succeeded = _counts(done_at, step, size)
        raw.calls, raw.attempts, raw.successes = len(self.offered_at), len(self.tried), len(done_at)
        raw.failures = dict(sorted(self.failures.items()))
        began = np.array(self.began)[: len(done_at)]
        raw.kept = _counts(began, step, size)
        raw.tries = _counts(np.array(self.tried), step, size)
        took = done_at - began
        raw.p50, raw.p99 = self._percentiles_of(done_at, took, size, until)
        if len(took):
            raw.latency = float(np.quantile(took, 0.5)), float(np.quantile(took, 0.99))
            raw.mean = float(took.mean())
        taken = int(until / step + 1e-9) + (until >= self._scenario.duration)
        for name in ("queue", "budget", "breaker_open"):
            column = np.full(size, math.nan)
            read = np.array(getattr(self, name))[:taken]
            column[: len(read)] = read
            setattr(raw, name, column)
        return raw

    def _percentiles_of(self, done_at: Any, took: Any, size: int, until: float) -> tuple[Any, Any]:
        """Return p50 and p99 of every step. Steps that were over the last time are not ranked again."""
        p50, p99, known = self._ranked
        step = self._scenario.step
        over = min(len(p50), size)
        places = np.minimum((done_at[known:] / step + 1e-9).astype(np.int64), size - 1)
        fresh = _percentiles(places - over, took[known:], size - over)
        found = np.concatenate((p50[:over], fresh[0])), np.concatenate((p99[:over], fresh[1]))
        # The last step may hold successes of this very moment, which a longer run counts in the next.
        ended = min(int(until / step + 1e-9), size - 1)
        inside = int(np.searchsorted((done_at / step + 1e-9).astype(np.int64), ended))
        self._ranked = found[0][:ended], found[1][:ended], inside
        return found


def _up_to(times: array[float], until: float) -> Any:
    """The times, which are in order, up to ``until``."""
    return np.array(times[: bisect.bisect_right(times, until)])


def _places(times: Any, step: float, size: int) -> Any:
    return np.minimum((times / step + 1e-9).astype(np.int64), size - 1)


def _counts(times: Any, step: float, size: int) -> Any:
    return np.bincount(_places(times, step, size), minlength=size).astype(float)


def _percentiles(places: Any, values: Any, size: int) -> tuple[Any, Any]:
    """The median and the 99th percentile of ``values`` in each place: the smallest value that is enough."""
    order = np.lexsort((values, places))
    ranked = values[order]
    counts = np.bincount(places, minlength=size)
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    found = []
    for share in (0.5, 0.99):
        column = np.full(size, math.nan)
        some = counts > 0
        column[some] = ranked[(first + np.ceil(share * counts).astype(np.int64) - 1)[some]]
        found.append(column)
    return found[0], found[1]
