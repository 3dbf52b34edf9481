"""Rates as people write them: ``"100/s burst 200"``, ``"10/min"``, ``"900 per 15 minutes"``."""

from __future__ import annotations

TYPE_CHECKING = False

_RULE = "must read like '100/s', '10/min', '2 per second', '900/15min' or '5000/h burst 100'"

_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_LONGEST = 64
#: More digits than any real rate has; ``int`` of thousands of digits would take its time.
_DIGITS = 15


def parse(text: str, owner: str = "Limiter") -> tuple[float, int]:
    """(rate per second, burst) of ``text``.

    ``<number>/<unit>`` or ``<number> per <unit>``; the unit is ms, s, min, h or d, also spelt out,
    with a whole number in front if it is more than one; then ``burst <whole number>``, without
    which the burst is 1, as it is for a `Limiter`. Letters in either case; nothing else is read.
    """
    if not isinstance(text, str):
        raise TypeError(f"{owner}: the rate {_RULE}, got {text!r}")
    words = _words(text) if len(text) <= _LONGEST else None
    if words is None or len(words) < 3 or words[1] not in ("/", "per"):
        raise _unreadable(text, owner)
    amount, rest = _decimal(words[0]), words[2:]
    period = 1
    if rest[0].isdigit():
        period, rest = _whole(rest[0]), rest[1:]
    unit = _UNITS.get(rest[0]) if rest else None
    burst = 1 if len(rest) == 1 else _whole(rest[2]) if len(rest) == 3 and rest[1] == "burst" else -1
    if amount is None or unit is None or period <= 0 or burst < 0:
        raise _unreadable(text, owner)
    return amount / (period * unit), burst


def rate_and_burst(owner: str, rate: float | str, burst: int | None) -> tuple[float, int]:
    """Return both options of a limiter: ``rate`` may be a text that holds the two."""
    if not isinstance(rate, str):
        return rate, 1 if burst is None else burst
    if burst is not None:
        raise ValueError(f"{owner}: burst must be part of the text {rate!r}, got burst={burst!r} as well")
    return parse(rate, owner)


def _words(text: str) -> list[str] | None:
    """Split ``text`` into runs of digits and points, runs of letters, and slashes; None for any others."""
    words: list[str] = []
    kind = ""
    for char in text.lower():
        before, kind = kind, _kind(char)
        if not kind:
            return None
        if kind == before and kind in ("digit", "letter"):
            words[-1] += char
        elif kind != "space":
            words.append(char)
    return words


def _kind(char: str) -> str:
    # Only ASCII: "¹⁰" and "१०" are digits to Python, but not a rate.
    if char in "0123456789.":
        return "digit"
    if "a" <= char <= "z":
        return "letter"
    return "space" if char == " " else "slash" if char == "/" else ""


def _decimal(word: str) -> float | None:
    whole, point, fraction = word.partition(".")
    if not whole.isdigit() or (point and not fraction.isdigit()) or len(word) > _DIGITS:
        return None
    return float(word)


def _whole(word: str) -> int:
    return int(word) if word.isdigit() and len(word) <= _DIGITS else -1


def _unreadable(text: str, owner: str) -> ValueError:
    excerpt = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return ValueError(f"{owner}: the rate {_RULE}, got {excerpt!r}")
