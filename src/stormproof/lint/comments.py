"""``# stormproof: ignore[SP003]``: what the author has decided otherwise."""

from __future__ import annotations

import re

from .findings import lines_of

_COMMENT = re.compile(r"#\s*stormproof:\s*ignore(?P<file>-file)?(?:\[(?P<codes>[\w\s,]*)\])?")
_ALL = frozenset({"*"})


class Ignored:
    """Which codes are ignored on which line.

    A comment counts for its own line; alone on a line, for the next one; ``ignore-file`` for the
    whole file. Without codes in brackets it counts for every rule.
    """

    def __init__(self, text: str) -> None:
        self._everywhere: frozenset[str] = frozenset()
        self._lines: dict[int, frozenset[str]] = {}
        if "stormproof:" not in text:
            return
        for number, line in enumerate(lines_of(text), 1):
            if (match := _COMMENT.search(line)) is None:
                continue
            listed = match["codes"]
            codes = _ALL if listed is None else frozenset(code.strip() for code in listed.split(","))
            if match["file"]:
                self._everywhere |= codes
                continue
            target = number + 1 if line.lstrip().startswith("#") else number
            self._lines[target] = self._lines.get(target, frozenset()) | codes

    def covers(self, code: str, first: int, last: int) -> bool:
        """Return True if ``code`` is ignored on a line from ``first`` to ``last``."""
        applying = [self._everywhere, *(self._lines[n] for n in range(first, last + 1) if n in self._lines)]
        return any("*" in codes or code in codes for codes in applying)
