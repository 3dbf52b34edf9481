"""Policies compared over seeds."""

from __future__ import annotations

import os
from typing import Any

from ..._primitives.options import Options
from ..._version import __version__
from ..model.scenario import Scenario
from .result import policy_data, written_json
from .result_store import Row
from .statistics import mean_of, wilson

#: The figures that a summary gives the mean of.
MEANS = (
    "recovery_time",
    "peak_rps",
    "peak_rps_after",
    "amplification",
    "goodput",
    "availability",
    "calls_per_success",
    "p50",
    "p99",
)


class Share(Options):
    """``hits`` of ``total`` runs recovered: ``value``, and Wilson's interval of 95 % around it."""

    __slots__ = _fields = ("hits", "total")
    hits: int
    total: int

    def __init__(self, hits: int, total: int) -> None:
        self._set(hits=hits, total=total)

    @property
    def value(self) -> float:
        return self.hits / self.total

    @property
    def low(self) -> float:
        return wilson(self.hits, self.total)[0]

    @property
    def high(self) -> float:
        return wilson(self.hits, self.total)[1]

    def __str__(self) -> str:
        return f"{self.value:.0%} ({self.low:.0%} to {self.high:.0%})"


def summary(rows: list[Row]) -> dict[str, Any]:
    """What several runs of one policy come to, as plain data."""
    share = recovered(rows)
    data: dict[str, Any] = {
        "runs": share.total,
        "recovered": share.value,
        "recovered_low": share.low,
        "recovered_high": share.high,
    }
    for name in MEANS:
        found = mean_of([row["metrics"][name] for row in rows])
        for suffix, value in zip(("", "_low", "_high"), found or (None, None, None), strict=True):
            data[name + suffix] = value
    return data


def recovered(rows: list[Row]) -> Share:
    """How many of the runs recovered."""
    return Share(sum(bool(row["metrics"]["recovered"]) for row in rows), len(rows))


class Comparison:
    """Each policy's runs over the same seeds.

    ``recovery[name]`` is the share of runs that recovered (``.value``, ``.low``, ``.high``);
    ``metrics[name]`` the figures of each run, in the order of ``seeds``; ``summary[name]`` their means with
    intervals of 95 %. ``str()`` is a table and the verdict.
    """

    def __init__(
        self, policies: dict[str, Any], scenario: Scenario, seeds: list[int], rows: dict[str, list[Row]]
    ) -> None:
        self.policies = policies
        self.scenario = scenario
        self.seeds = tuple(seeds)
        self._rows = rows
        self.names = tuple(policies)
        self.metrics = {name: [row["metrics"] for row in rows[name]] for name in self.names}
        self.recovery = {name: recovered(rows[name]) for name in self.names}
        self.summary = {name: summary(rows[name]) for name in self.names}

    @property
    def best(self) -> str:
        """Whoever recovers most often, and among those soonest, and among those with the least load."""

        def rank(name: str) -> tuple[float, float, float]:
            told = self.summary[name]
            time = told["recovery_time"]
            return -told["recovered"], float("inf") if time is None else time, told["peak_rps"]

        return min(self.names, key=rank)

    @property
    def verdict(self) -> str:
        """The answer in a sentence or two."""
        best = self.best
        said = [f"{best!r} recovers in {self.recovery[best]} of {len(self.seeds)} runs"]
        for name in self.names:
            if name != best:
                apart = (
                    " (the intervals overlap)" if self.recovery[name].high >= self.recovery[best].low else ""
                )
                said.append(f"{name!r} in {self.recovery[name]}{apart}")
        return "; ".join(said) + "."

    def _often(self, name: str) -> str:
        return f"Over {len(self.seeds)} seeds it recovers in {self.recovery[name]}."

    def __str__(self) -> str:
        header = (
            "policy",
            "recovered",
            "after, s",
            "peak, /s",
            "peak after, /s",
            "attempts/call",
            "succeeded",
        )
        rows: list[tuple[str, ...]] = [header]
        for name in self.names:
            told = self.summary[name]
            rows.append(
                (
                    name,
                    str(self.recovery[name]),
                    _text(told["recovery_time"], ".2f"),
                    _text(told["peak_rps"], ",.0f"),
                    _text(told["peak_rps_after"], ",.0f"),
                    _text(told["amplification"], ".3f"),
                    _text(told["availability"], ".2%"),
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, "", self.verdict])

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
                    "summary": self.summary[name],
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
            "runs": runs,
            "verdict": self.verdict,
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The data as JSON, also written to ``path`` if given."""
        return written_json(self.to_data(), path)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML file."""
        from . import report

        report.write(path, self.to_data())

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the first seed's runs over each other (matplotlib)."""
        from .plot import draw

        draw(path, self.to_data())


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
