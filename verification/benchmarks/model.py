"""What a benchmark consists of: cases in groups, a baseline to compare with, bars to keep."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

#: One case's result: figure name -> number. The first of a meter's ``units`` is the main one.
Figures = Mapping[str, float]
Comparison = Literal["ratio", "excess", "value"]
State = Literal["measured", "not installed", "failed"]


@dataclass(frozen=True)
class Effort:
    """How much to measure: rounds of batches lasting ``batch_s`` each, processes, calls for memory."""

    rounds: int
    batch_s: float
    spawns: int
    calls: int


FULL = Effort(rounds=50, batch_s=0.004, spawns=12, calls=100_000)
QUICK = Effort(rounds=3, batch_s=0.001, spawns=2, calls=2_000)


@dataclass(frozen=True)
class Case:
    """One thing to measure. ``make`` builds it; its docstring says how it is set up.

    ``needs`` names the module it cannot be measured without; None is ours, which must never fail.
    ``inside`` gives a context manager that surrounds every batch.
    """

    name: str
    make: Callable[[], Any]
    needs: str | None = None
    inside: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def setup(self) -> str:
        make = self.make.func if isinstance(self.make, partial) else self.make
        return " ".join((inspect.getdoc(make) or "").split())


@dataclass(frozen=True)
class Ready:
    """A case that has been made."""

    case: Case
    made: Any


class Meter(Protocol):
    """Measures all cases of a group together, so that they can take turns."""

    @property
    def units(self) -> tuple[str, ...]: ...

    def check(self, ready: Ready) -> None:
        """Raise if the case does not do what it should."""

    def measure(self, cases: list[Ready], effort: Effort) -> dict[str, Figures]: ...


@dataclass(frozen=True)
class Bar:
    """``case`` must stay at or under ``limit``; ``goal`` is where it should be, and is only shown.

    ``of="ratio"`` divides by the figure of ``against`` (None: the group's baseline), ``"excess"``
    subtracts it, ``"value"`` takes the figure as it is. ``unit`` None is the meter's main figure.
    """

    what: str
    case: str
    limit: float
    goal: float | None = None
    of: Comparison = "ratio"
    against: str | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Group:
    """Cases measured in turn by one meter, and compared with ``baseline``."""

    name: str
    title: str
    baseline: str
    meter: Meter
    cases: tuple[Case, ...]
    bars: tuple[Bar, ...] = ()
    compare: Comparison = "ratio"

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases]
        if len(set(names)) != len(names):
            raise ValueError(f"group {self.name!r}: two cases have the same name")
        for wanted in [self.baseline, *(n for bar in self.bars for n in (bar.case, bar.against) if n)]:
            if wanted not in names:
                raise ValueError(f"group {self.name!r}: there is no case {wanted!r}")


@dataclass(frozen=True)
class Row:
    """A case's line in the table."""

    name: str
    state: State
    figures: Figures = field(default_factory=dict)
    compared: float | None = None
    error: str = ""
    setup: str = ""
    ours: bool = True


@dataclass(frozen=True)
class Verdict:
    """How a bar came out. ``measured`` is None when it could not be judged, and ``why`` says why."""

    bar: Bar
    state: Literal["met", "missed", "not judged"]
    measured: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Outcome:
    """A group, measured: its rows, its verdicts, and whether it had to be measured twice."""

    group: Group
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]
    repeated: bool = False

    @property
    def missed(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.state == "missed"]

    @property
    def broken(self) -> list[Row]:
        """Cases of our own that did not even run."""
        return [row for row in self.rows if row.ours and row.state == "failed"]
