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
#: Amount, slash or "per", number of units, unit, burst. Digits are ASCII: "¹⁰" is not a rate.
_FORM = r" *([0-9]+(?:\.[0-9]+)?) *(?:/|per(?![a-z])) *([0-9]+)? *([a-z]+)(?: +burst *([0-9]+))? *"
_LONGEST = 64
#: More digits than any real rate has; ``int`` of thousands of digits would take its time.
_DIGITS = 15


def parse(text: str, owner: str = "Limiter") -> tuple[float, int]:
    """(rate per second, burst) of ``text``.

    ``<number>/<unit>`` or ``<number> per <unit>``; the unit is ms, s, min, h or d, also spelt out,
    with a whole number in front if it is more than one; then ``burst <whole number>``, without
    which the burst is 1, as it is for a `Limiter`. Letters in either case; nothing else is read.
    """
    import re

    if not isinstance(text, str):
        raise TypeError(f"{owner}: the rate {_RULE}, got {text!r}")
    match = re.fullmatch(_FORM, text.lower()) if len(text) <= _LONGEST else None
    if match is None or any(len(number or "") > _DIGITS for number in match.group(1, 2, 4)):
        raise _unreadable(text, owner)
    amount, times, unit, burst = match.groups()
    period = int(times or 1) * _UNITS.get(unit, 0.0)
    if not period:
        raise _unreadable(text, owner)
    return float(amount) / period, int(burst or 1)


def rate_and_burst(owner: str, rate: float | str, burst: int | None) -> tuple[float, int]:
    """Return both options of a limiter: ``rate`` may be a text that holds the two."""
    if not isinstance(rate, str):
        return rate, 1 if burst is None else burst
    if burst is not None:
        raise ValueError(f"{owner}: burst must be part of the text {rate!r}, got burst={burst!r} as well")
    return parse(rate, owner)


def _unreadable(text: str, owner: str) -> ValueError:
    excerpt = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return ValueError(f"{owner}: the rate {_RULE}, got {excerpt!r}")
