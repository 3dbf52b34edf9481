"""Reads a policy file: its policies as `Loop`, each thing with the line it stands on."""

from __future__ import annotations

import math
import os
import warnings
from typing import TYPE_CHECKING

from .._config import sources
from .._config.build import Builder
from .._config.detached import detached
from .._config.errors import ConfigError
from .._policy import checks
from .._policy.policy import Policy
from .._strategies.budget.budget import Budget
from .._strategies.deadline import Deadline
from .._strategies.retry.retry import Retry
from .findings import Place, lines_of
from .loops import Loop
from .ours import judge_budget

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .._config.build import Pipeline
    from .._config.errors import Spot

SUFFIXES = (".toml", ".json", ".yaml", ".yml")


class BrokenFile(Exception):
    """The file does not describe policies: what is wrong, and the line."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line or 1


def read(text: str, path: str) -> list[Loop]:
    """The retries of every policy in ``text``. Raises `BrokenFile`; imports nothing that the file names."""
    try:
        document = sources.parse(text, os.path.splitext(path)[1], path)
        named = document.data
        rows = Builder(detached(document)).build()
        lines = lines_of(text)
        return [loop for row in rows.values() for loop in _loops(row, named, lines)]
    except ConfigError as error:
        raise BrokenFile(": ".join(part for part in (error.key, error.message) if part), error.line) from None


def _loops(row: Pipeline, named: Any, lines: list[str]) -> list[Loop]:
    spots = dict(zip(row.kinds, _spots(row.spot), strict=True))
    retry = next((s for s in row.strategies if isinstance(s, Retry)), None)
    deadlines = [s.seconds for s in row.strategies if isinstance(s, Deadline)]
    if retry is None or retry.bounded or deadlines:
        _compose(row)
    if retry is None:
        return []
    spot = spots["retry"]
    loop = Loop("policy file", f"policy {row.spot.path[-1]!r}", _place(spot, lines))
    loop.bounded = retry.bounded or bool(deadlines)
    loop.timeout_s, loop.deadline_s = (
        None if math.isinf(seconds) else seconds for seconds in checks.bounds(tuple(row.strategies))
    )
    loop.warnings = tuple(checks.doubtful_order(tuple(row.strategies)))
    loop.unbounded_attempt = loop.timeout_s is None and loop.deadline_s is None
    waits = retry.backoff.preview(5)
    loop.waits = _waits(waits)
    loop.first_wait_s = waits[0].low
    loop.budget = _budget(retry)
    loop.retry_errors(_names(_at(named, (*spot.path, "on"))))
    loop.places = {
        name: _place(_inner(spot, key), lines)
        for name, key in (
            ("waits", "backoff"),
            ("budget", "budget"),
            ("catches", "on"),
            ("bounded", "attempts"),
        )
    }
    if "timeout" in spots:
        loop.places["timeout_s"] = _place(spots["timeout"], lines)
    return [loop]


def _waits(preview: Sequence[Any]) -> str:
    if all(wait.high == 0 for wait in preview):
        return "none"
    return "fixed" if all(wait.low == wait.high for wait in preview) else "jittered"


def _compose(row: Pipeline) -> None:
    """Yield the faults that only the whole pipeline shows."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Policy(*row.strategies)
    except (TypeError, ValueError) as error:
        raise row.spot.error(str(error)) from error


def _spots(spot: Spot) -> list[Spot]:
    entries = spot.entries()
    if "strategies" not in dict(entries):
        return [inner for _, inner in entries]
    listed = spot.at("strategies")
    return [listed.at(place).entries()[0][1] for place in range(len(listed.value))]


def _inner(spot: Spot, key: str) -> Spot:
    return spot.at(key) if isinstance(spot.value, dict) and key in spot.value else spot


def _place(spot: Spot, lines: list[str]) -> Place:
    line = spot.line or 1
    text = lines[line - 1] if line <= len(lines) else ""
    key = next((str(part) for part in reversed(spot.path) if isinstance(part, str)), "")
    column = max(0, text.find(key)) + 1
    return Place(line, column, line, column + max(1, len(key) if key in text else 1))


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _names(on: Any) -> tuple[str, ...] | None:
    if isinstance(on, str):
        return (on,)
    return tuple(str(name) for name in on) if isinstance(on, list) else None


def _budget(retry: Retry) -> str | None:
    if retry.budget is None:
        return "none"
    if type(retry.budget) is Budget:
        return judge_budget(retry.budget.ratio, retry.budget.burst)
    sustained = float(getattr(retry.budget, "sustained", math.nan))
    return "loose" if 1.0 <= sustained < math.inf else None
