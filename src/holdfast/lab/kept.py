"""Results kept in a file while an experiment runs, so that one that was stopped goes on where it was.

JSON lines by default: one line a run, written when it ends. A path that ends in ``.parquet`` keeps the
figures in Parquet (needs pyarrow), written when the experiment ends or is stopped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..options import shown

Row = dict[str, Any]


class Kept:
    """The rows of an experiment by key; ``path=None`` keeps them in memory only."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._columns = self._path is not None and self._path.suffix == ".parquet"
        self.rows: dict[str, Row] = {}
        self._new = False
        if self._path is not None and self._path.exists():
            self._read(self._path)

    def _read(self, path: Path) -> None:
        if self._columns:
            import pyarrow.parquet  # type: ignore[import-untyped,unused-ignore]

            lines = [json.loads(text) for text in pyarrow.parquet.read_table(path)["row"].to_pylist()]
        else:
            lines = _lines(path)
        for row in lines:
            if not isinstance(row, dict) or not isinstance(row.get("key"), str):
                raise ValueError(f"save: {path} must hold results of an experiment, got {shown(row)[:200]}")
            self.rows[row["key"]] = row

    def put(self, row: Row) -> None:
        """Keep the row of one run."""
        self.rows[row["key"]] = row
        self._new = True
        if self._path is not None and not self._columns:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """Write what is written at the end."""
        if self._columns and self._new:
            import pyarrow  # type: ignore[import-untyped,unused-ignore]
            import pyarrow.parquet  # type: ignore[import-untyped,unused-ignore]

            rows = list(self.rows.values())
            columns: dict[str, list[Any]] = {"key": [row["key"] for row in rows]}
            for name in ("name", "seed"):
                columns[name] = [row[name] for row in rows]
            for name in sorted({n for row in rows for n in row["metrics"]} - {"failures"}):
                columns[name] = [row["metrics"].get(name) for row in rows]
            columns["row"] = [json.dumps(row, allow_nan=False) for row in rows]
            pyarrow.parquet.write_table(pyarrow.table(columns), os.fspath(self._path or ""))


def _lines(path: Path) -> list[Any]:
    found = []
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found.append(json.loads(line))
        except ValueError:
            if number == text.count("\n") + 1:
                # The writer was stopped in the middle of its last line.
                _cut(path, text)
                break
            raise ValueError(f"save: line {number} of {path} must be JSON, got {line[:80]!r}") from None
    return found


def _cut(path: Path, text: str) -> None:
    path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")
