"""A finding: a rule's code, a place, a message."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence
    from typing import Any


def lines_of(text: str) -> list[str]:
    """The lines of ``text`` as parsers count them. To `str.splitlines` a form feed ends a line too."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Place in a file: lines and columns count from 1; the end column is one past the last character."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, node: ast.expr | ast.stmt | ast.excepthandler) -> Place:
        """The first line of ``node`` for a statement with a body, all of it for an expression."""
        if hasattr(node, "body") and not hasattr(node, "args"):
            return cls(node.lineno, node.col_offset + 1, node.lineno, node.col_offset + 2)
        end_line = node.end_lineno or node.lineno
        return cls(node.lineno, node.col_offset + 1, end_line, (node.end_col_offset or 0) + 1)

    def in_characters(self, lines: Sequence[str] | None) -> Place:
        """The same place with columns in characters: the parser counts bytes. ``None``: they are the same."""
        if lines is None or self.end_line > len(lines):
            return self
        first, last = (lines[line - 1].encode(errors="replace") for line in (self.line, self.end_line))
        column = len(first[: self.column - 1].decode(errors="ignore")) + 1
        return Place(
            self.line, column, self.end_line, len(last[: self.end_column - 1].decode(errors="ignore")) + 1
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. ``path`` is as it was given; ``why`` and ``fix`` are the rule's."""

    path: str
    place: Place
    code: str
    severity: str
    message: str
    why: str
    fix: str

    def as_data(self) -> dict[str, Any]:
        """Return the finding as plain data, the parts of its place beside the rest."""
        return {
            **{name: getattr(self, name) for name in ("code", "severity", "path")},
            **asdict(self.place),
            **{name: getattr(self, name) for name in ("message", "why", "fix")},
        }
