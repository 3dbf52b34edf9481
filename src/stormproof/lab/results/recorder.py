"""Recorder of a run, and the columns made from its records."""

from __future__ import annotations

import bisect
import math
from array import array
from collections import Counter
from collections.abc import Callable

import numpy as np

from ..model.arrivals import Floats, Ints
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

    def __init__(self, step: float, until: float) -> None:
        self.step = step
        self.until = until
        size = steps(until, step)
        self.offered: Floats = np.zeros(size)
        self.received: Floats = np.zeros(size)
        self.succeeded: Floats = np.zeros(size)
        self.kept: Floats = np.zeros(size)
        self.tries: Floats = np.zeros(size)
        self.p50: Floats = np.full(size, math.nan)
        self.p99: Floats = np.full(size, math.nan)
        self.queue: Floats = np.full(size, math.nan)
        self.budget: Floats = np.full(size, math.nan)
        self.breaker_open: Floats = np.full(size, math.nan)
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


def _column(values: Floats) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _capacity(scenario: Scenario, size: int, step: float) -> Floats:
    """Return the capacity of the backend at the beginning of each step."""
    row = stretches(scenario)
    begins = np.array([stretch.begins for stretch in row])
    serves = np.array([0.0 if s.fails else s.capacity * scenario.capacity_rps for s in row])
    return serves[np.searchsorted(begins, np.arange(size) * step + 1e-9, side="right") - 1]


class SoFar:
    """A run under way: how far it is, and its columns up to there, made on demand."""

    def __init__(self, recorder: Recorder, until: float) -> None:
        self._recorder = recorder
        self.until = until

    def raw(self) -> Raw:
        return self._recorder.raw(self.until)


class Recorder:
    """The exact engine's notebook: one entry per call begun, attempt received, call that succeeded."""

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
        self._ranked: tuple[Floats, Floats, int] = (np.empty(0), np.empty(0), 0)
        #: True if every call makes its first attempt as it begins, so that ``tried`` holds the others only.
        self.tries_every_call = False
        #: When calls begin, in order. There may be some ahead of their time.
        self.offered_at = array("d")
        self.received = received
        #: When calls succeeded, and when these began: in order, and those of `succeed_late`.
        self.done_at = array("d")
        self.began = array("d")
        self._done_late = array("d")
        self._began_late = array("d")
        #: For each attempt, when its call began.
        self.tried = array("d")
        self.queue = array("d")
        self.budget = array("d")
        self.breaker_open = array("d")
        self.failures: Counter[str] = Counter()

    def succeed_late(self, now: float, began: float) -> None:
        """Record a success, where later ones may have been recorded ahead of their time."""
        self._done_late.append(now)
        self._began_late.append(began)

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
        offered = np.array(self.offered_at[: self._begun(until)])
        done_at, began = self._successes(until)
        raw.offered = _counts(offered, step, size)
        raw.received = _counts(_up_to(self.received, until), step, size)
        raw.succeeded = _counts(done_at, step, size)
        raw.calls, raw.attempts, raw.successes = len(offered), len(self.tried), len(done_at)
        raw.failures = dict(sorted(self.failures.items()))
        raw.kept = _counts(began, step, size)
        raw.tries = _counts(np.array(self.tried), step, size)
        if self.tries_every_call:
            raw.attempts += raw.calls
            raw.tries += raw.offered
        took = done_at - began
        raw.p50, raw.p99 = self._percentiles_of(done_at, took, size, until)
        if len(took):
            p50, p99 = np.quantile(took, (0.5, 0.99)).tolist()
            raw.latency = p50, p99
            raw.mean = float(took.mean())
        samples = int(until / step + 1e-9) + (until >= self._scenario.duration)
        for name in ("queue", "budget", "breaker_open"):
            column = np.full(size, math.nan)
            read = np.array(getattr(self, name))[:samples]
            column[: len(read)] = read
            setattr(raw, name, column)
        return raw

    def _begun(self, until: float) -> int:
        """Return the number of calls begun: what is due at ``until`` happens before a call of that moment."""
        ends = until >= self._scenario.duration
        return len(self.offered_at) if ends else bisect.bisect_left(self.offered_at, until)

    def _successes(self, until: float) -> tuple[Floats, Floats]:
        """Return when calls succeeded, up to ``until``, in order, and when they began."""
        done_at, late = _up_to(self.done_at, until), _up_to(self._done_late, until)
        places = np.searchsorted(done_at, late, side="right")
        began = np.array(self.began)[: len(done_at)]
        return np.insert(done_at, places, late), np.insert(began, places, self._began_late[: len(late)])

    def _percentiles_of(
        self, done_at: Floats, took: Floats, size: int, until: float
    ) -> tuple[Floats, Floats]:
        """Return p50 and p99 of every step. Steps that were over the last time are not ranked again."""
        p50, p99, known = self._ranked
        step = self._scenario.step
        over = min(len(p50), size)
        places = np.minimum((done_at[known:] / step + 1e-9).astype(np.int64), size - 1)
        fresh = _percentiles(places - over, took[known:], size - over)
        percentiles = np.concatenate((p50[:over], fresh[0])), np.concatenate((p99[:over], fresh[1]))
        # The last step may hold successes of this very moment, which a longer run counts in the next.
        ended = min(int(until / step + 1e-9), size - 1)
        inside = int(np.searchsorted((done_at / step + 1e-9).astype(np.int64), ended))
        self._ranked = percentiles[0][:ended], percentiles[1][:ended], inside
        return percentiles


def _up_to(times: array[float], until: float) -> Floats:
    """The times, which are in order, up to ``until``."""
    return np.array(times[: bisect.bisect_right(times, until)])


def _places(times: Floats, step: float, size: int) -> Ints:
    return np.minimum((times / step + 1e-9).astype(np.int64), size - 1)


def _counts(times: Floats, step: float, size: int) -> Floats:
    return np.bincount(_places(times, step, size), minlength=size).astype(float)


def _percentiles(places: Ints, values: Floats, size: int) -> tuple[Floats, Floats]:
    """The median and the 99th percentile of ``values`` in each place: the smallest value that is enough.

    The places are in order.
    """
    p50, p99 = np.full(size, math.nan), np.full(size, math.nan)
    counts = np.bincount(places, minlength=size).tolist()
    first = 0
    for place, count in enumerate(counts):
        if count:
            ranked = np.sort(values[first : first + count])
            p50[place], p99[place] = ranked[math.ceil(0.5 * count) - 1], ranked[math.ceil(0.99 * count) - 1]
            first += count
    return p50, p99
