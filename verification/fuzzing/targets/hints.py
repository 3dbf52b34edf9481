"""What servers say about retrying: Retry-After and its kin, HTTP dates, gRPC pushback."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_to_datetime

from stormproof._classify.server_hints import (
    FAR_S,
    STOP,
    http_date,
    pushback,
    read,
    retry_after,
    should_retry,
)

from ..model import Target, lines, must, text

NOW = 1_700_000_000.0


def _legal(wait: float | None) -> bool:
    return wait is None or wait == math.inf or 0.0 <= wait <= FAR_S


def check_retry_after(data: bytes) -> None:
    """Nothing raises; a wait is none, infinite or in [0, FAR_S]; repeating or spelling headers apart
    changes nothing; a further, shorter wait never shortens; a further "false" is final.
    """
    headers = lines(data)
    wait = retry_after(headers, NOW)
    must(_legal(wait), f"a wait must be None, inf or in [0, {FAR_S}], got {wait!r}")
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    must(retry_after(raw, NOW) == wait, "headers as bytes must read as headers in text do")
    must(retry_after(headers * 2, NOW) == wait, "a header given twice must count once")
    more = retry_after([*headers, ("Retry-After", "0"), ("Retry-After-Ms", "0")], NOW)
    named = {name.lower() for name, _ in headers}
    if not named & {"retry-after-ms", "x-amz-retry-after"}:
        later = retry_after([*headers, ("retry-after", "0")], NOW)
        must(later == (wait or 0.0), f"a further wait of 0 must not change {wait!r} to {later!r}")
    must(more is not None and _legal(more), "a valid header beside any other must be read")
    should = should_retry(read(headers))
    must(should in (True, False, None), "x-should-retry must read as a bool or None")
    must(should_retry(read([*headers, ("x-should-retry", "false")])) is False, "a false must be final")


def check_http_date(data: bytes) -> None:
    """None, or a finite time that reads the same when the standard library writes it, and that the
    standard library's own reader agrees with.
    """
    written = text(data)
    when = http_date(written, NOW)
    if when is None:
        return
    must(math.isfinite(when), "a time must be finite")
    if written.find(":60") > 0:
        # A leap second is the first of the next minute, which may be that of the year 10000.
        when -= 1
    rewritten = datetime.fromtimestamp(when, UTC)
    standard = formatdate(when, usegmt=True)
    must(http_date(standard, NOW) == when, f"{standard!r} must read as the same time")
    if written.rstrip().endswith("GMT") and "-" not in written:
        try:
            peer = parsedate_to_datetime(written)
        except (ValueError, TypeError, IndexError):
            return
        if peer.year >= 1000 and rewritten.year >= 1000:
            must(peer.timestamp() == when, f"email.utils reads {peer}, we read {rewritten}")


def check_pushback(data: bytes) -> None:
    """None, STOP, or seconds that 32 bits of milliseconds can say; said twice it is STOP."""
    pairs = lines(data)
    wait = pushback(pairs)
    said = [value for name, value in pairs if name.lower() == "grpc-retry-pushback-ms"]
    if wait is None:
        must(not said, "a pushback that is there must not be overlooked")
    elif wait is not STOP:
        must(isinstance(wait, float) and 0 <= wait <= (2**31 - 1) / 1000, f"out of range: {wait!r}")
        must(len(said) == 1 and wait == int(said[0]) / 1000, f"{said!r} read as {wait!r}")
    if said:
        must(pushback([*pairs, ("grpc-retry-pushback-ms", "1")]) is STOP, "twice must be STOP")


_DATES = (
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
    "Tue, 14 Nov 2023 22:13:20 GMT",
    "Fri, 31 Dec 9999 23:59:60 GMT",
    "Mon, 01 Jan 0001 00:00:00 GMT",
)
_WORDS = (
    "Retry-After:",
    "retry-after-ms:",
    "x-amz-retry-after:",
    "x-should-retry:",
    "Date:",
    "true",
    "false",
    "\n",
    ",",
    ", ",
    " ",
    "\t",
    ".",
    "-1",
    "0",
    "1",
    "120",
    "1e9",
    "999999999999999",
    "GMT",
    "UTC",
    "+0000",
    "Sun,",
    "Sunday,",
    "Feb",
    "29",
    "2024",
    "1900",
    "00:00:00",
    "23:59:60",
    "\x00",
    "\xb2",
    "٣",
    "inf",
    "nan",
)

TARGETS = (
    Target(
        "retry-after",
        "Retry-After, retry-after-ms, x-amz-retry-after, x-should-retry, Date",
        check_retry_after,
        (
            "Retry-After: 120",
            "Retry-After: 1.5, 7",
            "retry-after-ms: 250\nRetry-After: 3",
            "x-amz-retry-after: 1500",
            "x-should-retry: true\nRetry-After: 1000000000000",
            *(f"Date: {_DATES[0]}\nRetry-After: {date}" for date in _DATES),
            f"Retry-After: 3, {_DATES[0]}, {_DATES[1]}, 4",
        ),
        _WORDS,
        longest=160,
    ),
    Target("http-date", "the three forms of an HTTP date", check_http_date, _DATES, _WORDS, longest=80),
    Target(
        "grpc-pushback",
        "grpc-retry-pushback-ms",
        check_pushback,
        (
            "grpc-retry-pushback-ms:100",
            "grpc-retry-pushback-ms:-1",
            "grpc-retry-pushback-ms:2147483648",
            "grpc-retry-pushback-ms:1\ngrpc-retry-pushback-ms:1",
        ),
        (
            "grpc-retry-pushback-ms:",
            "\n",
            "0",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "2147483647",
            "4294967296",
            "²",
        ),
    ),
)
