"""Policies compared over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._primitives.options import Options
from ..._version import __version__
from ..model.scenario import Scenario
from .metrics import COLLAPSED, LATE, SURVIVED
from .report import Reportable
from .result import policy_data
from .result_store import Row
from .statistics import mean_of, wilson
from .verdict_text import headline

#: The figures that a summary gives the mean of.
MEANS = (
    "recovery_time",
    "peak_rps",
    "peak_rps_after",
    "amplification",
    "goodput",
    "availability",
    "availability_calm",
    "availability_fault",
    "availability_after",
    "calls_per_success",
    "p50",
    "p99",
)


class Share(Options):
    """``hits`` of ``total`` runs recovered: ``value``, and Wilson's interval of 95 % around it."""

    def __init__(self, hits: int, total: int) -> None:
        self.hits = hits
        self.total = total
        self.value = hits / total
        self.low, self.high = wilson(hits, total)

    def __str__(self) -> str:
        return f"{self.value:.0%} ({self.low:.0%} to {self.high:.0%})"


def summary(rows: list[Row]) -> dict[str, Any]:
    """Summarise several runs of one policy, as plain data."""
    share = recovered(rows)
    states = [row["metrics"]["state"] for row in rows]
    data: dict[str, Any] = {
        "runs": share.total,
        "recovered": share.value,
        "recovered_low": share.low,
        "recovered_high": share.high,
        "survived": states.count(SURVIVED) / len(states),
    }
    for name in MEANS:
        mean = mean_of([row["metrics"][name] for row in rows])
        for suffix, value in zip(("", "_low", "_high"), mean or (None, None, None), strict=True):
            data[name + suffix] = value
    return data


def recovered(rows: list[Row]) -> Share:
    """Return the share of the runs that recovered."""
    return Share(sum(bool(row["metrics"]["recovered"]) for row in rows), len(rows))


#: The figures in the table of a comparison, their titles and their formats.
_TABLE = (
    ("recovery_time", "after, s", ".2f"),
    ("peak_rps", "peak, /s", ",.0f"),
    ("peak_rps_after", "peak after, /s", ",.0f"),
    ("amplification", "attempts/call", ".3f"),
    ("availability", "succeeded", ".2%"),
    ("calm", "in calm", ".2%"),
    ("availability_after", "in the aftermath", ".2%"),
    ("hour", "in an hour", ".2%"),
)

#: Seconds that `Comparison.hour` covers.
HOUR_S = 3600.0

#: Load after the fault that `Comparison.best` accepts, in multiples of the capacity.
LOAD_BOUND = 2.0


class Comparison(Reportable):
    """Each policy's runs over the same seeds.

    ``recovery[name]`` is the share of runs that recovered (``.value``, ``.low``, ``.high``);
    ``metrics[name]`` the figures of each run, in the order of ``seeds``; ``summary[name]`` their means with
    intervals of 95 %; ``calm[name]`` the figures of its calm leg: the same clients and backend without a
    fault, where 1 % of the attempts fail; ``hour[name]`` the availability over an hour that is calm but for
    one such incident. ``str()`` is a table and the verdict.
    """

    def __init__(
        self,
        policies: dict[str, Any],
        scenario: Scenario,
        seeds: list[int],
        rows: dict[str, list[Row]],
        calm: dict[str, Row],
    ) -> None:
        self.policies = policies
        self.scenario = scenario
        self.seeds = tuple(seeds)
        self._rows = rows
        self.names = tuple(policies)
        self.metrics = {name: [row["metrics"] for row in rows[name]] for name in self.names}
        self.recovery = {name: recovered(rows[name]) for name in self.names}
        self.calm = {name: _ended(calm[name]["metrics"]) for name in self.names}
        self.summary = {name: summary(rows[name]) for name in self.names}
        self.hour = {name: self._hour(name) for name in self.names}

    def _hour(self, name: str) -> float:
        runs, calm = self.metrics[name], self.calm[name]["availability"]
        calls = sum(run["calls"] for run in runs) / len(runs)
        lost = calls - sum(run["successes"] for run in runs) / len(runs)
        until = sum(run["until"] for run in runs) / len(runs)
        quiet = max(0.0, HOUR_S / until - 1.0) * calls if calm is not None else 0.0
        return 1.0 - (lost + quiet * (1.0 - (calm or 0.0))) / (calls + quiet) if calls else 1.0

    @property
    def best(self) -> str:
        """The policy that serves the most calls, of those that recover and keep the load within twice the
        capacity: see `choose`.
        """
        return self.choose()

    def choose(self, load: float = LOAD_BOUND) -> str:
        """Return the name of the policy that serves the most calls over an hour with one such incident.

        Considered are the policies that recover as often as the best (their intervals overlap), and of these
        the ones whose peak after the fault is at most ``load`` times the capacity, or the one with the lowest
        peak if there are none. Among equals (0.01 %) the soonest recovery decides, then the least load.
        """
        often = max(self.recovery.values(), key=lambda share: share.value)
        able = [name for name in self.names if self.recovery[name].high >= often.low]
        if often.value > 0:
            able = [name for name in able if self.recovery[name].hits]
        bounded = [name for name in able if self._peak(name) <= load * self.scenario.capacity_rps]
        return min(bounded or [min(able, key=self._peak)], key=self._rank)

    def _peak(self, name: str) -> float:
        figures = self.summary[name]
        peak = figures["peak_rps_after"] if figures["peak_rps_after"] is not None else figures["peak_rps"]
        return float(peak)

    def _rank(self, name: str) -> tuple[float, float, float]:
        figures = self.summary[name]
        time = figures["recovery_time"]
        return -round(self.hour[name], 4), float("inf") if time is None else time, self._peak(name)

    def state(self, name: str) -> str:
        """Return the most frequent state of the runs of ``name``; of equally frequent ones, the worse."""
        states = [figures["state"] for figures in self.metrics[name]]
        return max((COLLAPSED, LATE, SURVIVED), key=states.count)

    @property
    def verdict(self) -> str:
        """The answer in a sentence or two."""
        best = self.best
        own = self.recovery[best]
        sentences = [f"{best!r} recovers in {own} of {len(self.seeds)} runs and serves {self._served(best)}"]
        for name in self.names:
            if name != best:
                share = self.recovery[name]
                doubt = (
                    " (the intervals overlap)" if share.value != own.value and share.high >= own.low else ""
                )
                sentences.append(f"{name!r} recovers in {share}{doubt} and serves {self.hour[name]:.2%}")
        return "; ".join(sentences) + "."

    def _served(self, name: str) -> str:
        return f"{self.hour[name]:.2%} of the calls of an hour with one such incident"

    def _often(self, name: str) -> str:
        return f"Over {len(self.seeds)} seeds it recovers in {self.recovery[name]}."

    def __str__(self) -> str:
        rows = [("policy", "state", "recovered", *(title for _, title, _ in _TABLE))]
        for name in self.names:
            figures = self._figures(name)
            cells = (_text(figures[key], form) for key, _, form in _TABLE)
            rows.append((name, self.state(name), str(self.recovery[name]), *cells))
        return "\n".join([*aligned(rows), "", self.verdict])

    def _figures(self, name: str) -> dict[str, Any]:
        return {**self.summary[name], "calm": self.calm[name]["availability"], "hour": self.hour[name]}

    def to_data(self) -> dict[str, Any]:
        """The form that reports and the page read: the first seed's run of each policy, with the summary."""
        runs = []
        for name in self.names:
            first = dict(self._rows[name][0]["run"])
            runs.append(
                {
                    **first,
                    "name": name,
                    "policy": policy_data(self.policies[name]),
                    "summary": self._figures(name),
                    "state": self.state(name),
                    "verdict": f"{first['verdict']} {self._often(name)}",
                }
            )
        engines = {row["engine"] for rows in self._rows.values() for row in rows}
        return {
            "format": 1,
            "version": __version__,
            "seed": self.seeds[0],
            "seeds": list(self.seeds),
            "engine": "fast" if "fast" in engines else "exact",
            "scenario": self.scenario.to_data(),
            "headline": headline(runs),
            "runs": runs,
            "verdict": self.verdict,
        }


def _ended(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a calm leg with the availability of the calls that ended: the run stops in the
    middle of the others, which are not lost.
    """
    finished = figures["calls"] - figures["unfinished"]
    return {**figures, "availability": figures["successes"] / finished if finished else None}


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines, with columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
