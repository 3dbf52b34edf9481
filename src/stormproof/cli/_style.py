"""Text for people: colours on a terminal and nowhere else, times that read well."""

from __future__ import annotations

import math
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


class Style:
    """Wraps text in colours if ``on``; NO_COLOR and a dumb terminal switch them off.

    ``blocks`` says whether the stream's encoding has the characters that bars are drawn with.
    """

    def __init__(self, on: bool, blocks: bool = True) -> None:
        self.on = on
        self.blocks = blocks

    @classmethod
    def of(cls, stream: TextIO) -> Style:
        """Return the style that suits ``stream``."""
        colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(stream.isatty() and colours, (stream.encoding or "").lower().startswith("utf"))

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text

    def bold(self, text: str) -> str:
        return self._in("1", text)

    def dim(self, text: str) -> str:
        return self._in("2", text)

    def red(self, text: str) -> str:
        return self._in("31", text)

    def green(self, text: str) -> str:
        return self._in("32", text)

    def yellow(self, text: str) -> str:
        return self._in("33", text)

    def cyan(self, text: str) -> str:
        return self._in("36", text)


def in_units(seconds: float) -> str:
    """A time for people: three digits, in the unit that reads best."""
    if math.isinf(seconds):
        return "unbounded"
    if seconds == 0:
        return "0"
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 60:,.0f} min"
