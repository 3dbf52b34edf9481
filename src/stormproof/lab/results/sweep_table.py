"""The table that a sweep gives: a row for every combination of values and every policy."""

from __future__ import annotations

import csv
import itertools
import os
from typing import Any

from ..._primitives.options import plain
from .comparison import aligned, summary
from .result_store import Row


class Sweep:
    """``rows``: one dict for each point and policy, with the values, the policy's name and the summary."""

    def __init__(self, fields: tuple[str, ...], runs: list[tuple[dict[str, Any], str, list[Row]]]) -> None:
        self.fields = fields
        self.rows: list[dict[str, Any]] = [
            {**point, "policy": name, **summary(rows)} for point, name, rows in runs
        ]

    def threshold(self, field: str, policy: str | None = None, share: float = 0.5) -> tuple[Any, Any] | None:
        """Between which two neighbouring values of ``field`` the share of recovered runs crosses ``share``.

        None if it does not. Other fields of the sweep must have one value each.
        """
        rows = [row for row in self.rows if policy is None or row["policy"] == policy]
        rows.sort(key=lambda row: row[field])
        for before, after in itertools.pairwise(rows):
            if (before["recovered"] >= share) != (after["recovered"] >= share):
                return before[field], after[field]
        return None

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """The table as CSV."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.rows[0])
            writer.writeheader()
            writer.writerows({key: _cell(value) for key, value in row.items()} for row in self.rows)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """The table as Parquet (needs pyarrow)."""
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet  # type: ignore[import-untyped,unused-ignore]

        rows = [{key: _cell(value) for key, value in row.items()} for row in self.rows]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), os.fspath(path))

    def __str__(self) -> str:
        fields = (
            *self.fields,
            "policy",
            "recovered",
            "recovery_time",
            "peak_rps",
            "amplification",
            "availability",
        )
        cells = [fields, *(tuple(_short(row[name]) for name in fields) for row in self.rows)]
        return "\n".join(aligned(cells))


def _cell(value: object) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(plain(value))


def _short(value: object) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
