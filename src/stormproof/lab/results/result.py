"""The result of a run: its figures, its columns over time, its verdict; and ways to keep them."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

from ..._config.errors import ConfigError
from ..._config.write import Writer
from ..._version import __version__
from ..fingerprint import unaddressed
from ..model.scenario import Scenario
from ..policy_text import python, toml
from . import verdict_text
from .metrics import metrics
from .recorder import Raw, series
from .report import Reportable

Series = dict[str, list[float | None]]


class Result(Reportable):
    """Outcome of one run.

    ``peak_rps``: the highest load at the backend over `Scenario.peak_window`. ``amplification``: attempts per
    call. ``goodput``: successful calls per second over the whole run. ``recovered``: from some moment after
    the last fault until the end, goodput was at least 95 % of the offered load; ``recovery_time`` is that
    moment minus the fault's end (None: it did not recover). Without a fault ``recovered`` is that goodput
    kept up over the whole run, and ``recovery_time`` None. ``state`` is "survived", "recovered late" (the
    aftermath was longer than the fault, and than a second) or "collapsed". ``attempts`` counts the attempts
    on the backend, ``calls_per_success`` those per successful call. ``metrics`` has all figures, ``series``
    the columns over time. ``engine`` is "exact" or "fast", ``path`` which way it took, ``notes`` what is
    worth knowing.
    """

    def __init__(
        self,
        policy: object,
        scenario: Scenario,
        seed: int,
        engine: str,
        raw: Raw,
        notes: tuple[str, ...] = (),
        name: str = "policy",
    ) -> None:
        self.policy = policy
        self.scenario = scenario
        self.seed = seed
        self.engine = engine
        self.path = raw.path
        self.why = raw.why
        self.notes = notes
        self.name = name
        figures = self.metrics = metrics(raw, scenario)
        self.series: Series = series(raw, scenario)
        self.state: str = figures["state"]
        self.recovered: bool = figures["recovered"]
        self.recovery_time: float | None = figures["recovery_time"]
        self.peak_rps: float = figures["peak_rps"]
        self.goodput: float = figures["goodput"]
        self.amplification = _number(figures["amplification"])
        self.availability = _number(figures["availability"])
        self.calls_per_success = _number(figures["calls_per_success"])
        self.calls: int = figures["calls"]
        self.attempts: int = figures["attempts"]
        self.successes: int = figures["successes"]
        self.p50: float | None = figures["p50"]
        self.p99: float | None = figures["p99"]

    @property
    def verdict(self) -> str:
        """Outcome in words."""
        return verdict_text.verdict(self.metrics, self.scenario)

    def __str__(self) -> str:
        return " ".join([self.verdict, *self.notes])

    def __repr__(self) -> str:
        return f"<Result of {self.name!r}, seed {self.seed}: {self.verdict}>"

    # Keeping it.

    def run_data(self) -> dict[str, Any]:
        """This run's entry in `to_data`."""
        return {
            "name": self.name,
            "policy": policy_data(self.policy),
            "verdict": self.verdict,
            "explanation": verdict_text.explanation(self.metrics, self.scenario),
            "metrics": self.metrics,
            "series": self.series,
            "path": self.path,
            "why": self.why,
            "notes": list(self.notes),
            "seed": self.seed,
        }

    def to_data(self) -> dict[str, Any]:
        """Everything as plain data, ready for JSON: the form that reports and the page read."""
        return data_of([self], self.scenario, self.seed, self.engine)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the columns over time; a missing value is an empty field."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(self.series)
            rows.writerows(zip(*self.series.values(), strict=True))

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """The columns over time as Parquet (needs pyarrow)."""
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped,unused-ignore]

        about = json.dumps({key: value for key, value in self.to_data().items() if key != "runs"})
        table = pyarrow.table(self.series).replace_schema_metadata({"stormproof": about})
        pyarrow.parquet.write_table(table, os.fspath(path))

    def open(self) -> Path:
        """Write the report to a temporary file, open it in the browser and return its path."""
        import tempfile
        import webbrowser

        folder = Path(tempfile.mkdtemp(prefix="stormproof-"))
        self.report(folder / "report.html")
        webbrowser.open((folder / "report.html").as_uri())
        return folder / "report.html"


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def policy_data(policy: Any) -> dict[str, str | None]:
    """The policy's repr, its lines of Python, and its TOML (None: it holds what only code can give)."""
    try:
        written = None if policy is None else {policy.name or "policy": Writer().policy(policy)}
    except ConfigError:
        written = None
    text = None if written is None else toml({"policies": written})
    return {"repr": unaddressed(repr(policy)), "toml": text, "python": python(policy)}


def data_of(results: list[Result], scenario: Scenario, seed: int, engine: str) -> dict[str, Any]:
    """The shared form of one or several runs."""
    return {
        "format": 1,
        "version": __version__,
        "seed": seed,
        "engine": engine,
        "scenario": scenario.to_data(),
        "headline": verdict_text.headline([{"name": r.name, "metrics": r.metrics} for r in results]),
        "runs": [result.run_data() for result in results],
    }
