"""What a claim is, what comes of checking it, and where it was made."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """What a check comes to."""

    HOLDS = "holds"
    PARTLY = "holds partly"
    FAILS = "does not hold"
    OPEN = "cannot be checked"


@dataclass(frozen=True)
class Source:
    """Where a claim was made: a short name for the page's lines, and what it is."""

    name: str
    about: str


@dataclass(frozen=True)
class Found:
    """What was run, what came out, and what follows. ``why`` may be empty where the figures say it all.

    ``why`` is our reading: a figure of the run stands in ``out``, or is put into ``why`` from the run.
    """

    ran: str
    out: str
    verdict: Verdict
    why: str = ""


def found(ran: str, out: str, holds: bool, why: str = "", *, partly: bool = False) -> Found:
    """A `Found` that is judged by its figures: ``partly`` counts where ``holds`` is false."""
    verdict = Verdict.HOLDS if holds else Verdict.PARTLY if partly else Verdict.FAILS
    return Found(ran, out, verdict, why)


def unknown(why: str) -> Found:
    """A claim that nothing here can run."""
    return Found("nothing", "nothing", Verdict.OPEN, why)


@dataclass(frozen=True)
class Claim:
    """One claim in our own words. ``slow``: takes longer than a test of the page should wait for."""

    title: str
    says: str
    sources: tuple[Source, ...]
    check: Callable[[], Found]
    slow: bool = False

    @property
    def name(self) -> str:
        """What the command line and the page's links call it."""
        return slug(self.title)


@dataclass
class Topic:
    """Claims about one thing, in the order of the page; ``plots`` are (name of the file, what it shows)."""

    title: str
    intro: str = ""
    plots: tuple[tuple[str, str], ...] = ()
    claims: list[Claim] = field(default_factory=list)

    def claim(
        self, title: str, says: str, *sources: Source, slow: bool = False
    ) -> Callable[[Callable[[], Found]], Callable[[], Found]]:
        """Add the decorated check to the topic."""

        def add(check: Callable[[], Found]) -> Callable[[], Found]:
            self.claims.append(Claim(title, says, sources, check, slow))
            return check

        return add


def slug(title: str) -> str:
    """The anchor of a heading, alike on every renderer: titles keep to letters, digits, spaces and dashes."""
    if not re.fullmatch(r"[A-Za-z0-9 -]+", title):
        raise ValueError(f"slug: title must hold only letters, digits, spaces and dashes, got {title!r}")
    return title.lower().replace(" ", "-")
