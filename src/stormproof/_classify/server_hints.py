"""Hints of a server on when to retry, parsed without trusting it.

A hint is a number of seconds >= 0, ``math.inf`` for an absurdly long one, or ``None`` when there is
none worth reading. No input raises, and none is slow to read.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: Longer than this many seconds (31 years) is "never": it would only overflow a sleep.
FAR_S = 1e9

#: Headers that `read` collects; it skips all others.
_WANTED = frozenset(
    {
        *("retry-after", "retry-after-ms", "x-amz-retry-after", "x-should-retry", "date"),
        *("ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset"),
    }
)

_LENGTHS = {len(name) for name in _WANTED}

#: A reset of at least this many seconds (three years) is a moment since the epoch.
_EPOCH_FROM = 1e8

#: No more than this many characters of a list of quotas are read.
_MAX_FIELD = 4096

_PUSHBACK = "grpc-retry-pushback-ms"
_MAX_PUSHBACK_MS = 2**31 - 1

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY, _LONG_DAY = "(?:mon|tue|wed|thu|fri|sat|sun)", "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
#: Sun, 06 Nov 1994 08:49:37 GMT; Sunday, 06-Nov-94 08:49:37 GMT; Sun Nov  6 08:49:37 1994
_DATE_FORMS = (
    rf"{_DAY}, (?P<day>\d\d?) (?P<month>[a-z]+) (?P<year>\d{{4}}) {_CLOCK} (?-i:GMT)",
    rf"{_LONG_DAY}, (?P<day>\d\d?)-(?P<month>[a-z]+)-(?P<year>\d\d) {_CLOCK} (?-i:GMT)",
    rf"{_DAY} (?P<month>[a-z]+) (?P<day>\d\d?) {_CLOCK} (?P<year>\d{{4}})",
)


class Pushback:
    """The type of `STOP`."""

    def __repr__(self) -> str:
        return "STOP"

    def __reduce__(self) -> str:
        return "STOP"


#: A gRPC server's "do not retry this call".
STOP = Pushback()


def retry_after(headers: object, wall_now: float | None = None) -> float | None:
    """Seconds to wait: ``retry-after-ms``, else ``x-amz-retry-after`` (ms), else ``Retry-After``, else what
    is left until a quota that is used up is filled again (``RateLimit``, ``X-RateLimit-Reset``).

    ``headers`` is any mapping or any iterable of pairs; names in any case, values str or bytes. Of
    a repeated header the longest valid value counts. A date counts from the response's own ``Date``
    if that is valid, else from ``wall_now`` (seconds since the epoch; ``None`` reads the wall
    clock, and only if it is needed). A past date is 0.0.
    """
    return wait_from(read(headers), wall_now)


def read(headers: object) -> dict[str, list[str]]:
    """The headers that steer retrying, by lower-case name, every value of each in order."""
    return _collect(headers, _WANTED)


def wait_from(headers: dict[str, list[str]], wall_now: float | None = None) -> float | None:
    """`retry_after`, of headers that `read` has collected."""
    for name in ("retry-after-ms", "x-amz-retry-after"):
        waits = [amount / 1000.0 for value in headers.get(name, ()) for amount in _amounts(value)]
        if waits:
            return _near(max(waits))
    waits = []
    for value in headers.get("retry-after", ()):
        waits.extend(_delays(value, headers, wall_now))
    waits = waits or _until_reset(headers, wall_now)
    return _near(max(waits)) if waits else None


def _until_reset(headers: dict[str, list[str]], wall_now: float | None) -> list[float]:
    """Seconds until each quota that is used up is filled again.

    ``RateLimit: "name";r=0;t=30`` (draft-ietf-httpapi-ratelimit-headers), or ``X-RateLimit-Remaining: 0``
    with ``X-RateLimit-Reset`` in seconds, or since the epoch. A quota with something left says nothing.
    """
    waits = []
    for item in ",".join(headers.get("ratelimit", ()))[:_MAX_FIELD].split(","):
        pairs = (part.strip(" \t").partition("=") for part in item.split(";"))
        given = {name: value for name, _, value in pairs}
        wait_s = _amount(given.get("t", ""))
        if wait_s is not None and _amount(given.get("r", "")) == 0.0:
            waits.append(wait_s)
    remaining, resets = headers.get("x-ratelimit-remaining", []), headers.get("x-ratelimit-reset", [])
    if waits or len(remaining) != 1 or len(resets) != 1 or _amount(remaining[0]) != 0.0:
        return waits
    reset = _amount(resets[0])
    if reset is None:
        return []
    return [reset if reset < _EPOCH_FROM else max(0.0, reset - (_wall() if wall_now is None else wall_now))]


def should_retry(headers: dict[str, list[str]]) -> bool | None:
    """``x-should-retry`` as the server's own word, ``None`` if it gave none. A "false" beats a "true"."""
    joined = ",".join(headers.get("x-should-retry", ()))
    words = [word.strip(" \t").lower() for word in joined.split(",")]
    if "false" in words:
        return False
    return True if "true" in words else None


def pushback(metadata: object) -> float | Pushback | None:
    """Seconds from ``grpc-retry-pushback-ms``; ``None`` if absent.

    `STOP` if it is negative, unparsable (also: beyond 32 bits) or repeated: do not retry.
    """
    pairs = metadata.items() if isinstance(metadata, dict) else metadata
    values = _collect(pairs, frozenset({_PUSHBACK}), mapping=False).get(_PUSHBACK, [])
    if not values:
        return None
    digits = values[0]
    if len(values) > 1 or not is_digits(digits) or len(digits) > 10 or int(digits) > _MAX_PUSHBACK_MS:
        return STOP
    return int(digits) / 1000.0


def header(headers: object, names: frozenset[str]) -> bool:
    """Return True if one of ``names`` (lower case) is present and not blank."""
    return any(value.strip() for values in _collect(headers, names).values() for value in values)


def _collect(headers: Any, names: frozenset[str], mapping: bool = True) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    lengths = _LENGTHS if names is _WANTED else {len(name) for name in names}
    try:
        for name, value in _pairs(headers) if mapping else headers:
            # The length alone excludes most headers.
            if len(name) in lengths and (key := _text(name).lower()) in names:
                for item in value if isinstance(value, (list, tuple)) else (value,):
                    values.setdefault(key, []).append(_text(item))
    except Exception:
        # Headers of a broken or foreign kind: keep what was read so far.
        pass
    return values


def _pairs(headers: Any) -> Iterable[Any]:
    """Return name and value pairs, with repeated headers separate where the class keeps them so."""
    if headers is None or isinstance(headers, (list, tuple)):
        return headers or ()
    raw = getattr(headers, "raw", None)
    if isinstance(raw, list):
        return raw
    listed = getattr(headers, "multi_items", None) or getattr(headers, "items", None)
    return listed() if callable(listed) else headers  # type: ignore[no-any-return]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return value.decode("latin-1") if isinstance(value, bytes) else ""


def _near(wait_s: float) -> float:
    return wait_s if wait_s <= FAR_S else math.inf


def is_digits(text: str) -> bool:
    """One or more ASCII digits and nothing else: neither other scripts' digits nor what float() accepts."""
    return text.isascii() and text.isdigit()


def _amount(text: str) -> float | None:
    """ASCII digits with an optional fraction, else ``None``; too many digits are infinite."""
    whole, dot, fraction = text.strip(" \t").partition(".")
    if not is_digits(whole) or (dot and not is_digits(fraction)):
        return None
    whole = whole.lstrip("0")
    if len(whole) > 15:
        return math.inf
    return float(f"{whole or '0'}.{fraction[:15] or '0'}")


def _amounts(value: str) -> Iterable[float]:
    for part in value.split(","):
        amount = _amount(part)
        if amount is not None:
            yield amount


def _delays(value: str, headers: dict[str, list[str]], wall_now: float | None) -> Iterable[float]:
    """Every wait in one ``Retry-After`` value, in which repeated headers may have been joined by commas."""
    parts = value.split(",")
    at = 0
    while at < len(parts):
        amount = _amount(parts[at])
        if amount is None:
            # Two of the three date forms contain a comma of their own.
            for width in (2, 1):
                amount = _until(",".join(parts[at : at + width]), headers, wall_now)
                if amount is not None:
                    at += width - 1
                    break
        if amount is not None:
            yield amount
        at += 1


def _until(text: str, headers: dict[str, list[str]], wall_now: float | None) -> float | None:
    """Seconds from the response's ``Date``, else from now, to the date in ``text``; a past one is 0."""
    if _date_fields(text) is None:
        return None
    now = _wall() if wall_now is None else wall_now
    when = http_date(text, now)
    if when is None:
        return None
    for sent in headers.get("date", ()):
        reference = http_date(sent, now)
        if reference is not None:
            return max(0.0, when - reference)
    return max(0.0, when - now)


def _wall() -> float:
    from .._runtime.clock import wall

    return wall()


def http_date(text: str, now: float) -> float | None:
    """Seconds since the epoch of an HTTP-date in one of its three forms, else ``None``.

    ``now`` places a two-digit year: at most 50 years ahead, else the century before.
    """
    fields = _date_fields(text)
    if fields is None or int(fields["second"]) > 60:
        return None
    from datetime import UTC, datetime

    second = min(int(fields["second"]), 59)
    try:
        year = _full_year(fields["year"], datetime.fromtimestamp(now, UTC).year)
        month = 1 + _MONTHS.index(fields["month"].lower())
        day, hour, minute = (int(fields[name]) for name in ("day", "hour", "minute"))
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    is_leap_second: bool = fields["second"] == "60"
    return moment.timestamp() + is_leap_second


def _full_year(digits: str, this_year: int) -> int:
    year = int(digits)
    if len(digits) != 2:
        return year
    year += this_year - this_year % 100
    if year > this_year + 50:
        return year - 100
    return year + 100 if year <= this_year - 50 else year


def _date_fields(text: str) -> Any:
    """Return the match of one of the three forms, or None; what the fields hold may be no date."""
    if not 23 <= len(text) <= 64:
        return None
    import re

    words = " ".join(text.split())
    return next(filter(None, (re.fullmatch(form, words, re.I | re.A) for form in _DATE_FORMS)), None)
