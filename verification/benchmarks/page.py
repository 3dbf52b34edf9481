"""`python -m verification.benchmarks.page RUN.json ...`: write docs/benchmarks.md and the README's table.

Each file is what `python -m verification.benchmarks --json RUN.json` wrote; the README shows the first one.
No figure on either page is written by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .render import header, number

ROOT = Path(__file__).resolve().parents[2]
#: The lines of the README that are replaced stand between these two.
BEGIN, END = "<!-- costs: made by verification.benchmarks.page -->", "<!-- end of costs -->"

_INTRODUCTION = """\
# What it costs

Made by `python -m verification.benchmarks.page` from the results of
`python -m verification.benchmarks --json FILE`. `make bench` runs every suite and fails when a bar of ours is
missed; this page has those of the core. All cases of a table take turns in one run, and the fastest batch of
each counts; ratios are to the case called baseline. Absolute times are of the machine named in each section;
the ratios travel better.
"""
_CPU = "Calls are timed by the CPU time of their thread (`--cpu`), since the machine had other work to do."

#: Of a table's row: its label, and where the sync and the async figure are found: (group, case).
_LOOP = "hand-written loop"
_OWN = "Stormproof, the user's own exception"
_FIVE = "Stormproof five strategies"
_FIRST_USE = "first use of stormproof"
_ROWS = (
    ("succeeds: hand-written loop", ("sync", _LOOP), ("async", _LOOP)),
    (
        "succeeds: Stormproof retry with its default budget",
        ("sync", "Stormproof retry"),
        ("async", "Stormproof retry"),
    ),
    ("succeeds: nopanic, with a budget", ("sync", "nopanic + budget"), ("async", "nopanic + budget")),
    ("succeeds: backoff", ("sync", "backoff"), ("async", "backoff")),
    ("succeeds: tenacity", ("sync", "tenacity"), ("async", "tenacity")),
    ("succeeds: stamina", ("sync", "stamina"), ("async", "stamina")),
    (
        "succeeds: deadline, retry, breaker, bulkhead and timeout, the policy above",
        ("recommended", _FIVE),
        ("recommended-async", _FIVE),
    ),
    (
        "succeeds: nopanic's retry, breaker, bulkhead and deadline",
        ("recommended", "nopanic four: retry + budget, breaker, bulkhead, deadline"),
        None,
    ),
    (
        "fails three times, then succeeds: hand-written loop, without a wait",
        ("outage-retried", _LOOP),
        ("outage-retried-async", _LOOP),
    ),
    (
        "fails three times, then succeeds: Stormproof retry",
        ("outage-retried", _OWN),
        ("outage-retried-async", _OWN),
    ),
    (
        "fails three times, then succeeds: nopanic, with a budget",
        ("outage-retried", "nopanic + budget"),
        ("outage-retried-async", "nopanic + budget"),
    ),
    (
        "fails three times, then succeeds: tenacity",
        ("outage-retried", "tenacity"),
        ("outage-retried-async", "tenacity"),
    ),
    ("fails, attempts used up: Stormproof retry", ("outage-refused", "Stormproof, attempts used up"), None),
    (
        "fails, attempts used up: nopanic, with a budget",
        ("outage-refused", "nopanic, attempts used up"),
        None,
    ),
)


def page(runs: Sequence[dict[str, Any]]) -> str:
    """Return docs/benchmarks.md for ``runs``, each as `render.as_data` gives it."""
    parts = [_INTRODUCTION]
    for run in runs:
        parts.append(f"## {run['python']}\n\n{header(run)}".replace(" CPUs\n", " CPUs  \n"))
        if run.get("cpu"):
            parts.append(_CPU)
        parts += [_table(group) for group in run["groups"]]
        parts.append("\n".join(_bar(bar) for group in run["groups"] for bar in group["bars"]))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _table(group: dict[str, Any]) -> str:
    compared = {"ratio": ["ratio"], "excess": ["more"], "value": []}[group["compared"]]
    columns = [*group["units"], *compared]
    lines = [f"| {group['title']} | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for case in group["cases"]:
        if case["state"] == "measured":
            cells = [number(case["figures"][unit]) for unit in group["units"]]
            if compared:
                cells.append("-" if case["compared"] is None else number(case["compared"]))
        else:
            cells = [case["state"], *[""] * (len(columns) - 1)]
        name = f"{case['name']} (baseline)" if case["name"] == group["baseline"] else case["name"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _bar(bar: dict[str, Any]) -> str:
    asked = f"at most {number(bar['limit'])}"
    if bar["goal"] is not None:
        asked += f", goal {number(bar['goal'])}"
    value = bar["why"] if bar["measured"] is None else number(bar["measured"])
    return f"- {bar['state']}: {bar['what']}: {value} ({asked})"


def costs(run: dict[str, Any]) -> str:
    """Return the README's table: every figure is a ratio to the hand-written loop that succeeds."""
    cases = {(group["name"], case["name"]): case for group in run["groups"] for case in group["cases"]}

    def ratio(place: tuple[str, str] | None, kind: str) -> str:
        if place is None or place not in cases or cases[place]["state"] != "measured":
            return ""
        times = cases[place]["figures"]["ns"] / cases[kind, _LOOP]["figures"]["ns"]
        return f"{times:.0f}" if times >= 100 else f"{times:.1f}" if times >= 10 else f"{times:.2f}"

    lines = ["| one call | sync | async |", "|---|---|---|"]
    for label, sync, aio in _ROWS:
        times = ratio(sync, "sync"), ratio(aio, "async")
        if any(times):
            lines.append(f"| {label} | {times[0]} | {times[1]} |")
    versions = run["versions"]
    others = ", ".join(
        f"{name} {versions[name]}" for name in ("nopanic", "backoff", "tenacity", "stamina") if versions[name]
    )
    how = "in CPU time, " if run.get("cpu") else ""
    lines += ["", f"Measured {how}with {run['python']} on {run['cpus']} cores, next to {others}."]
    start = [cases.get(place) for place in (("import", "import stormproof"), ("first-use", _FIRST_USE))]
    if all(case is not None and case["compared"] is not None for case in start):
        load, use = (case["compared"] for case in start if case is not None)
        # The start of an interpreter varies by more than a lazy import takes.
        shown = f"{number(load)} ms" if load > 0 else "less than can be measured"
        lines.append(
            f"`import stormproof` takes {shown}, the first decorated function another {number(use)} ms."
        )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """The command: write both pages; return the exit code."""
    runs = [json.loads(Path(name).read_text(encoding="utf-8")) for name in arguments]
    if not runs:
        print(__doc__, file=sys.stderr)
        return 2
    (ROOT / "docs" / "benchmarks.md").write_text(page(runs), encoding="utf-8")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    readme.write_text(f"{before}{BEGIN}\n{costs(runs[0])}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
