"""Results kept in a file while an experiment runs, so that one that was stopped goes on where it was.

JSON lines by default: one line a run, written when it ends. A path that ends in ``.parquet`` keeps the
figures in Parquet (needs pyarrow), written when the experiment ends or is stopped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..._primitives.options import shown

Row = dict[str, Any]

#: How every line begins. What does not was not written here, and is left alone.
_BEGIN = b'{"key":"'


class ResultStore:
    """Rows of an experiment by key; ``path=None`` keeps them in memory only."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._columns = self._path is not None and self._path.suffix == ".parquet"
        self.rows: dict[str, Row] = {}
        self._new = False
        if self._path is not None and self._path.exists():
            self._read(self._path)

    def _read(self, path: Path) -> None:
        for row in _column(path) if self._columns else _lines(path):
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
            # Atomic: a process that is stopped here leaves the file as it was.
            part = f"{self._path}.part"
            pyarrow.parquet.write_table(pyarrow.table(columns), part)
            os.replace(part, self._path or "")


def _column(path: Path) -> list[Any]:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]
    import pyarrow.parquet  # type: ignore[import-untyped,unused-ignore]

    try:
        texts = pyarrow.parquet.read_table(os.fspath(path))["row"].to_pylist()
        return [json.loads(text) for text in texts]
    except PermissionError:
        raise
    except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        message = " ".join(str(error).split())[:200]
        raise ValueError(f"save: {path} must be a Parquet file of an experiment: {message}") from None


def _lines(path: Path) -> list[Any]:
    """The rows of ``path``. A last line that was cut short is completed or dropped."""
    *whole, last = path.read_bytes().split(b"\n")
    rows = [_parsed(line, number, path) for number, line in enumerate(whole, 1)]
    if not last:
        return rows
    ours = last.startswith(_BEGIN)
    try:
        rows.append(_parsed(last, len(whole) + 1, path))
    except ValueError:
        if not ours and not _BEGIN.startswith(last):
            raise
        os.truncate(path, path.stat().st_size - len(last))
        return rows
    if ours:
        with path.open("ab") as file:
            file.write(b"\n")
    return rows


def _parsed(line: bytes, number: int, path: Path) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except ValueError:
        raise ValueError(f"save: line {number} of {path} must be JSON in UTF-8, got {line[:80]!r}") from None
