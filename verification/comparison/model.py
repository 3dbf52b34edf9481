"""A probe: one question, one rule, and for each library a way to find the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

Judgement = Literal["as it should", "not", "not offered", "not installed", "broken"]

AS_IT_SHOULD: Judgement = "as it should"
NOT: Judgement = "not"
NOT_OFFERED: Judgement = "not offered"
NOT_INSTALLED: Judgement = "not installed"
#: The experiment itself failed: a fault of the probe, never a statement about the library.
BROKEN: Judgement = "broken"


@dataclass(frozen=True)
class Cell:
    """What was seen of one library in one probe, and how the probe's rule judges it."""

    fact: str
    judgement: Judgement


@dataclass
class Probe:
    """One experiment.

    ``judge`` turns what a way returned into a short fact and whether it obeys ``rule``; it is the same
    for every library. ``limit_s`` ends a way that hangs, and hanging is then the fact.
    """

    name: str
    group: str
    asks: str
    rule: str
    judge: Callable[[Any], tuple[str, bool]]
    limit_s: float = 15.0
    ways: dict[str, Callable[[], Any]] = field(default_factory=dict)
    #: Libraries that do not offer the thing, with a word on why where it is not plain.
    lacking: dict[str, str] = field(default_factory=dict)

    def by(self, library: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        """Say how ``library`` is probed, when its way is its own."""

        def keep(way: Callable[[], Any]) -> Callable[[], Any]:
            self.ways[library] = way
            return way

        return keep

    def on(
        self,
        setups: Mapping[str, Any],
        experiment: Callable[[Any], Any],
        without: Mapping[str, str] | None = None,
    ) -> None:
        """Run the same ``experiment`` on every setup but those ``without`` the thing: name and why."""
        self.lacking.update(without or {})
        for library, setup in setups.items():
            if library not in self.lacking:
                self.ways[library] = partial(experiment, setup)

    def lacks(self, *libraries: str, why: str = "not offered") -> None:
        self.lacking.update(dict.fromkeys(libraries, why))

    def cell(self, library: str) -> Cell:
        """Run it here and now on ``library``."""
        if library in self.lacking:
            return Cell(self.lacking[library], NOT_OFFERED)
        fact, ok = self.judge(self.ways[library]())
        return Cell(fact, AS_IT_SHOULD if ok else NOT)


@dataclass(frozen=True)
class Group:
    """Probes that share their columns: one table of the page."""

    name: str
    title: str
    about: str
    columns: tuple[str, ...]


def seconds(spent: float) -> str:
    return f"{spent:.1f} s"


def counted(n: int, one: str) -> str:
    """``counted(4, "call")`` is ``4 calls``."""
    return f"{n:,} {one}{'' if n == 1 else 's'}"


def exactly(wanted: int, one: str) -> Callable[[int], tuple[str, bool]]:
    """A judge of counts."""
    return lambda n: (counted(n, one), n == wanted)


def yes_no(yes: str, no: str) -> Callable[[bool], tuple[str, bool]]:
    """A judge of truths: ``yes`` is as it should be."""
    return lambda seen: (yes, True) if seen else (no, False)
