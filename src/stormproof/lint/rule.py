"""One rule of lint: what it says, why, what to do, and a sample that fails and one that passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .findings import Place
    from .loops import Loop
    from .source import Module

    Check = Callable[[Loop, Module | None], Iterator[tuple[Place, str]]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``severity`` is "error", "warning" or "note"; ``default`` whether it is on unless asked for.

    The samples are Python, or a policy file where ``language`` is "toml".
    """

    code: str
    name: str
    severity: str
    summary: str
    why: str
    fix: str
    failing: str
    passing: str
    check: Check | None = None
    language: str = "python"
    default: bool = True
