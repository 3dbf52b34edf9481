"""One rule of lint: what it says, why, what to do, and a sample that fails and one that passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .findings import Place
    from .loops import Loop
    from .source import Module

    Check = Callable[[Loop, Module | None], Iterator[tuple[Place | str, str]]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``severity`` is "error", "warning" or "note"; ``default`` whether it is on unless asked for.

    The samples are Python, or a policy file where ``language`` is "toml". ``mended`` is the passing one, or
    the replacements that make it of the failing one.
    """

    code: str
    name: str
    severity: str
    summary: str
    why: str
    fix: str
    failing: str
    mended: str | tuple[tuple[str, str], ...]
    check: Check | None = None
    language: str = "python"
    default: bool = True

    @property
    def passing(self) -> str:
        """Return the sample in which the rule finds nothing."""
        if isinstance(self.mended, str):
            return self.mended
        text = self.failing
        for wrong, right in self.mended:
            text = text.replace(wrong, right)
        return text
