"""Durations as people write them: ``"10ms"``, ``"2s"``, ``"1m30s"``, ``"1h"``.

`parse` and `spell` are exact inverses: what `spell` writes, `parse` reads back as the same float.
"""

from __future__ import annotations

import math

#: Nanoseconds in each unit, longest first: that is also the order in which they may follow each other.
_UNITS = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
_NANOS = 1_000_000_000
_RULE = "must read like '10ms', '2s', '1m30s' or '1h'"
#: Room for every float written out (345 characters); ``int`` of many thousands would take its time.
_LONGEST = 400

#: What `parse` reads, but for numbers without a unit.
PATTERN = (
    r"^(?:0|inf|(?=[0-9])(?:[0-9]+(?:\.[0-9]+)?d)?(?:[0-9]+(?:\.[0-9]+)?h)?(?:[0-9]+(?:\.[0-9]+)?m(?!s))?"
    r"(?:[0-9]+(?:\.[0-9]+)?s)?(?:[0-9]+(?:\.[0-9]+)?ms)?(?:[0-9]+(?:\.[0-9]+)?[uµμ]s)?"
    r"(?:[0-9]+(?:\.[0-9]+)?ns)?)$"
)


def parse(text: str, *, bare: bool = False) -> float:
    """``text`` in seconds: numbers with a unit each (d, h, m, s, ms, us, ns), the longest unit first.

    ``"0"`` and ``"inf"`` need no unit. ``bare=True`` takes any number without a unit as seconds, as
    options do. The sum is rounded once, so ``"100ms"`` is exactly 0.1.
    """
    if not isinstance(text, str):
        raise TypeError(f"a duration {_RULE}, got {text!r}")
    if text in ("0", "inf"):
        return float(text)
    import re

    if bare and len(text) <= _LONGEST and re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return _exact([(text, "s")])
    if len(text) > _LONGEST or not re.fullmatch(PATTERN, text):
        raise _unreadable(text)
    return _exact(re.findall("([0-9.]+)([a-z]+)", text.replace("µ", "u").replace("μ", "u")))


def _exact(parts: list[tuple[str, str]]) -> float:
    """The sum in seconds. Whole numbers divide with one rounding, where floats would round at each step."""
    top, bottom = 0, 1
    for number, unit in parts:
        whole, _, fraction = number.partition(".")
        scale = 10 ** len(fraction)
        top = top * scale + int(whole + fraction) * _UNITS[unit] * bottom
        bottom *= scale
    try:
        return top / (bottom * _NANOS)
    except OverflowError:
        return math.inf


def _unreadable(text: str) -> ValueError:
    excerpt = text if len(text) <= 64 else text[:61] + "..."
    return ValueError(f"a duration {_RULE}, got {excerpt!r}")


def spell(seconds: float) -> str:
    """``seconds`` (>= 0) as `parse` reads it, in the unit that reads best: 0.1 is ``"100ms"``."""
    if math.isinf(seconds):
        return "inf"
    if seconds == 0:
        return "0s"
    for unit in ("h", "m", "s", "ms", "us", "ns"):
        amount = seconds * _NANOS / _UNITS[unit]
        if amount < 2**53 and (whole := round(amount)) and parse(text := f"{whole}{unit}") == seconds:
            return text
    from decimal import Decimal

    # The shortest decimal that is this float, without an exponent.
    return f"{Decimal(repr(seconds)):f}s"
