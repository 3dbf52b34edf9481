"""Writes outcomes as aligned text, Markdown and JSON."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .model import Group, Outcome, Row, Verdict

_COMPARED = {"ratio": "ratio", "excess": "more", "value": ""}


def machine(packages: Iterable[str]) -> dict[str, Any]:
    """What the numbers depend on. A package that is not installed has the version None."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "versions": {package: _version(package) for package in packages},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        # A source tree on the path has no metadata.
        found: str | None = getattr(sys.modules.get(package), "__version__", None)
        return found


def header(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {found or 'not installed'}" for name, found in facts["versions"].items())
    return f"{facts['python']}, {facts['platform']}, {facts['cpus']} CPUs\n{versions}"


def number(value: float) -> str:
    """As many digits as are worth reading; counts in full."""
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    size = abs(value)
    places = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 0.01 else 5
    return f"{value:,.{places}f}"


def _columns(group: Group) -> list[str]:
    compared = _COMPARED[group.compare]
    return [*group.meter.units, *([compared] if compared else [])]


def _cells(group: Group, row: Row) -> list[str] | str:
    """The row's numbers, or the words that stand in their place."""
    if row.state != "measured":
        return row.state if not row.error else f"{row.state}: {row.error}"
    cells = [number(row.figures[unit]) for unit in group.meter.units]
    if _COMPARED[group.compare]:
        cells.append("-" if row.compared is None else number(row.compared))
    return cells


def _label(group: Group, row: Row) -> str:
    return f"{row.name} (baseline)" if row.name == group.baseline else row.name


def table(outcome: Outcome) -> str:
    """One group as aligned text."""
    group = outcome.group
    lines: list[tuple[str, list[str] | str]] = [(group.title, _columns(group))]
    lines += [(f"  {_label(group, row)}", _cells(group, row)) for row in outcome.rows]
    first = max(len(label) for label, _ in lines)
    full = [cells for _, cells in lines if isinstance(cells, list)]
    widths = [max(len(cells[i]) for cells in full) for i in range(len(full[0]))]
    text = []
    for label, cells in lines:
        if isinstance(cells, str):
            rest = cells
        else:
            rest = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        text.append(f"{label:<{first}}  {rest}".rstrip())
    if outcome.repeated:
        text.append("  measured twice, because a bar was missed the first time")
    return "\n".join(text)


def verdict_line(verdict: Verdict) -> str:
    """A bar and how it came out, in one line."""
    bar = verdict.bar
    asked = f"<= {number(bar.limit)}" + ("" if bar.goal is None else f", goal {number(bar.goal)}")
    if verdict.measured is None:
        return f"{verdict.state:<10}  {bar.what}: {verdict.why} (asked: {asked})"
    goal = ""
    if bar.goal is not None and verdict.state == "met":
        goal = ", goal reached" if verdict.measured <= bar.goal else ", goal not reached"
    return f"{verdict.state:<10}  {bar.what}: {number(verdict.measured)} (asked: {asked}{goal})"


def markdown(facts: dict[str, Any], outcomes: list[Outcome]) -> str:
    """Everything as Markdown tables."""
    parts = [header(facts).replace("\n", "  \n")]
    for outcome in outcomes:
        group = outcome.group
        columns = _columns(group)
        lines = [
            f"| {group.title} | {' | '.join(columns)} |",
            f"|---|{'---:|' * len(columns)}",
        ]
        for row in outcome.rows:
            cells = _cells(group, row)
            padded = [cells, *[""] * (len(columns) - 1)] if isinstance(cells, str) else cells
            lines.append(f"| {_label(group, row)} | {' | '.join(padded)} |")
        parts.append("\n".join(lines))
    verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts]
    if verdicts:
        parts.append("\n".join(f"- {' '.join(verdict_line(verdict).split())}" for verdict in verdicts))
    return "\n\n".join(parts) + "\n"


def as_data(facts: dict[str, Any], outcomes: list[Outcome]) -> dict[str, Any]:
    """Everything as plain data, for JSON."""
    return {
        **facts,
        "groups": [_group(outcome) for outcome in outcomes],
        "missed": [verdict.bar.what for outcome in outcomes for verdict in outcome.missed],
    }


def _group(outcome: Outcome) -> dict[str, Any]:
    group = outcome.group
    return {
        "name": group.name,
        "title": group.title,
        "baseline": group.baseline,
        "units": list(group.meter.units),
        "compared": group.compare,
        "measured_twice": outcome.repeated,
        "cases": [_case(row) for row in outcome.rows],
        "bars": [_bar(verdict) for verdict in outcome.verdicts],
    }


def _case(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "setup": row.setup,
        "state": row.state,
        "figures": dict(row.figures),
        "compared": row.compared,
        "error": row.error or None,
    }


def _bar(verdict: Verdict) -> dict[str, Any]:
    bar = verdict.bar
    return {
        "what": bar.what,
        "case": bar.case,
        "of": bar.of,
        "limit": bar.limit,
        "goal": bar.goal,
        "measured": verdict.measured,
        "state": verdict.state,
        "why": verdict.why or None,
    }
