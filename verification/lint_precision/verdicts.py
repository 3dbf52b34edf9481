"""The verdicts on findings: one row of ``verdicts.csv`` each, found again by its package, place and rule."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE = Path(__file__).with_name("verdicts.csv")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judged finding. ``release`` is ``package==release``, ``place`` a path in it with a line."""

    set: str
    release: str
    place: str
    rule: str
    verdict: str
    why: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.release, self.place, self.rule


def read(path: Path = TABLE) -> list[Verdict]:
    """Return the rows of the table."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [Verdict(**row) for row in csv.DictReader(stream)]


def by_rule(rows: Iterable[Verdict]) -> str:
    """Return the Markdown table of counts."""
    counts: dict[str, list[int]] = {}
    for row in rows:
        count = counts.setdefault(row.rule, [0, 0])
        count[0] += 1
        count[1] += row.verdict == "false"
    lines = [f"| {rule} | {total} | {wrong} |" for rule, (total, wrong) in sorted(counts.items())]
    return "\n".join(["| rule | findings | false |", "|---|---|---|", *lines])


def by_finding(rows: Iterable[Verdict]) -> str:
    """Return the Markdown table of every finding."""
    lines = [
        f"| {row.release.replace('==', ' ')} | `{row.place}` | {row.rule} | {row.verdict} | {row.why} |"
        for row in sorted(rows, key=lambda row: (row.release.lower(), *_in_order(row.place)))
    ]
    return "\n".join(["| package | place | rule | verdict | why |", "|---|---|---|---|---|", *lines])


def _in_order(place: str) -> tuple[str, int]:
    path, _, line = place.rpartition(":")
    return path, int(line)
