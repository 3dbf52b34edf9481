"""Text for people: colours on a terminal and nowhere else, times that read well."""

from __future__ import annotations

import math
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO


def _wrapping(code: int) -> Callable[[Style, str], str]:
    """A method of `Style` that wraps text in the terminal's ``code``."""
    return lambda style, text: f"\x1b[{code}m{text}\x1b[0m" if style.on else text


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

    bold, dim = _wrapping(1), _wrapping(2)
    red, green, yellow, cyan = _wrapping(31), _wrapping(32), _wrapping(33), _wrapping(36)


def in_units(seconds: float) -> str:
    """A time for people: three digits, in the unit that reads best."""
    if math.isinf(seconds):
        return "unbounded"
    if seconds == 0:
        return "0"
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 60:,.0f} min"
