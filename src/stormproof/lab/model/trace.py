"""Recorded arrivals."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..._primitives.options import Options, number


class Trace(Options):
    """The times at which calls begin, in seconds from the start of the run, in any order."""

    def __init__(self, times: Iterable[float]) -> None:
        if isinstance(times, (str, bytes)) or not hasattr(times, "__iter__"):
            raise TypeError(f"Trace: times must be several numbers, got {times!r}")
        ordered = sorted(number("Trace", "times", time, least=0) for time in times)
        if not ordered:
            raise ValueError("Trace: times must hold at least one, got none")
        self.times: tuple[float, ...] = tuple(ordered)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Return the trace in a text file: one time per line, in seconds, before the first comma if there is
        one. They count from the earliest, so that they may be times of day. The first line may be a heading.
        """
        moments: list[float] = []
        with open(path, encoding="utf-8") as lines:
            for place, line in enumerate(lines, 1):
                text = line.partition(",")[0].strip().strip('"')
                if not text:
                    continue
                try:
                    moments.append(float(text))
                except ValueError:
                    if place > 1:
                        raise ValueError(
                            f"Trace: line {place} of {os.fspath(path)} must begin with a number, "
                            f"got {text[:60]!r}"
                        ) from None
        if not moments:
            raise ValueError(f"Trace: {os.fspath(path)} must hold at least one time, got none")
        first = min(moments)
        return cls(time - first for time in moments)

    def describe(self) -> dict[str, object]:
        """The trace in short: it may be long."""
        return {"kind": "Trace", "calls": len(self.times), "until": self.times[-1]}

    def __repr__(self) -> str:
        if len(self.times) <= 20:
            return super().__repr__()
        return f"<Trace of {len(self.times):,} calls in {self.times[-1]:g} s>"
