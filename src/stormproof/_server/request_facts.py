"""Facts stated by a request: the caller's remaining time, and which attempt it is. Pure.

Headers come from anywhere: no input raises, and none is slow to read.
"""

from __future__ import annotations

import math

from .._classify.server_hints import is_digits
from .._http.headers import header_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    #: All values of a header, by its lower-case name.
    Find = Callable[[str], Iterable[str]]

TIMEOUT_HEADER = "X-Request-Timeout-Ms"
_GRPC_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}

#: Headers with the number of the attempt, and their value for a first attempt.
ATTEMPT_HEADERS = {
    "x-request-attempt": 1,
    "x-envoy-attempt-count": 1,
    "x-stainless-retry-count": 0,
    "grpc-previous-rpc-attempts": 0,
}


def header_names(owner: str, field: str, value: object) -> tuple[str, ...]:
    """One header name, or several in a list or tuple, in lower case."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, (list, tuple)) or not given:
        raise TypeError(f"{owner}: {field} must be a header name or several, got {value!r}")
    return tuple(header_name(owner, field, name).lower() for name in given)


def attempt_headers(owner: str, more: str | None) -> dict[str, int]:
    """`ATTEMPT_HEADERS`, and ``more``, which counts from 1."""
    named = {} if more is None else {header_name(owner, "attempt_header", more).lower(): 1}
    return {**ATTEMPT_HEADERS, **named}


def time_left(find: Find, names: Iterable[str]) -> float | None:
    """The caller's remaining seconds: the least of all that the headers ``names`` say, or ``None``.

    ``grpc-timeout`` has gRPC's form (digits and a unit), every other header milliseconds. 0 or less
    means that the caller has gone. What cannot be read says nothing.
    """
    remaining = [left for name in names for value in find(name) for left in _times_left(name, value)]
    return min(remaining, default=None)


def _times_left(name: str, value: str) -> Iterable[float]:
    # Repeated headers may have been joined by commas on the way.
    for part in value.split(","):
        left = _grpc(part.strip(" \t")) if name == "grpc-timeout" else _milliseconds(part.strip(" \t"))
        if left is not None:
            yield left


def _milliseconds(text: str) -> float | None:
    sign = -1.0 if text[:1] == "-" else 1.0
    whole, dot, fraction = text.removeprefix("-").partition(".")
    if not is_digits(whole) or (dot and not is_digits(fraction)):
        return None
    whole = whole.lstrip("0")
    amount = math.inf if len(whole) > 15 else float(f"{whole or '0'}.{fraction[:15] or '0'}")
    return sign * amount / 1000.0


def _grpc(text: str) -> float | None:
    digits, unit = text[:-1], text[-1:]
    if unit not in _GRPC_UNITS or not is_digits(digits) or len(digits) > 8:
        return None
    return int(digits) * _GRPC_UNITS[unit]


def attempt_number(find: Find, headers: dict[str, int]) -> int:
    """Which attempt this request is, 1 for a first one; the highest that any of ``headers`` says."""
    number = 1
    for name, first in headers.items():
        for value in find(name):
            digits = value.strip(" \t")
            if is_digits(digits):
                stated = int(digits) if len(digits) <= 9 else 10**9
                number = max(number, stated - first + 1)
    return number
