"""Server hints: what each header means, and what is not a hint."""

from __future__ import annotations

import math
import pickle
from email.message import Message
from typing import Any

import pytest

from stormproof._classify import server_hints
from stormproof._classify.server_hints import STOP, http_date, pushback, retry_after

NOW = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the moment RFC 9110 uses in its own examples
LATER = "Sun, 06 Nov 1994 08:51:37 GMT"  # two minutes after NOW


def after(value: Any, now: float = NOW) -> float | None:
    return retry_after({"Retry-After": value}, now)


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("  7\t", 7.0),
        ("007", 7.0),
        ("1.5", 1.5),
        ("0.25", 0.25),
        (b"30", 30.0),
        ("90000", 90000.0),  # 25 h, not the 3,600 s that timedelta.seconds makes of it
    ],
)
def test_seconds_are_read(value: Any, wait: float) -> None:
    assert after(value) == wait


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            " ",
            "-1",
            "+1",
            "-0.5",
            ".5",
            "5.",
            "1.2.3",
            "1e5",
            "1_000",
            "0x10",
            "nan",
            "inf",
            "-inf",
            "Infinity",
        ),
        *("soon", "1 2", "1s", "٣", "1²", "½", "1.٣", "\x00", "None", "1;2", "10:00"),
        *(None, 5, 5.0, object(), True),
    ],
)
def test_invalid_hint_is_ignored(value: Any) -> None:
    assert after(value) is None


@pytest.mark.parametrize(
    "digits", [str(10**12), "9" * 16, "9" * 5000, "9" * 1_000_000, "1" + "0" * 400 + ".5"]
)
def test_absurd_wait_is_longer_than_any_limit(digits: str) -> None:
    assert after(digits) == math.inf
    assert retry_after({"retry-after-ms": digits + "000"}, NOW) == math.inf


def test_leading_zeros_and_a_long_fraction_are_only_digits() -> None:
    assert after("0" * 5000 + "3") == 3.0
    assert after("3." + "0" * 5000) == 3.0


@pytest.mark.parametrize(
    "date",
    [
        "Sun, 06 Nov 1994 08:51:37 GMT",
        "Sunday, 06-Nov-94 08:51:37 GMT",
        "Sun Nov  6 08:51:37 1994",
        "sun, 06 nov 1994 08:51:37 GMT",
        "Mon, 06 Nov 1994 08:51:37 GMT",  # a wrong day of the week does not make the moment unclear
    ],
)
def test_all_three_date_forms_are_read(date: str) -> None:
    assert after(date) == 120.0


def test_past_date_gives_a_wait_of_0() -> None:
    assert after("Sun, 06 Nov 1994 08:49:36 GMT") == 0.0
    assert after("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0


def test_date_centuries_away_is_absurd() -> None:
    assert after("Fri, 31 Dec 9999 23:59:59 GMT") == math.inf


def test_leap_second_is_the_following_midnight() -> None:
    assert http_date("Sat, 31 Dec 2016 23:59:60 GMT", NOW) == 1483228800.0  # the midnight that follows


@pytest.mark.parametrize(
    "date",
    [
        "Sun, 06 Nov 1994 08:51:37",
        "Sun, 06 Nov 1994 08:51:37 UTC",
        "Sun, 06 Nov 1994 08:51:37 +0000",
        "Sun, 06 Nov 94 08:51:37 GMT",
        "Xyz, 06 Nov 1994 08:51:37 GMT",
        "Sun, 06 Foo 1994 08:51:37 GMT",
        "Sun, 31 Feb 1994 08:51:37 GMT",
        "Sun, 00 Nov 1994 08:51:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun, 06 Nov 1994 08:51:61 GMT",
        "Sun, 06 Nov 1994 8:51:37 GMT",
        "Sun, 06 Nov 1994 08-51:37 GMT",
        "Sun, 06 Nov 1994 08:51-37 GMT",
        "Sun, 06 Nov 1994 008:51:3 GMT",
        "Sun, 06 Nov 1994 08:51:370 GMT",
        "Sun, 06 Nov 1994 -8:51:37 GMT",
        "Sun, 06 Nov 1994 08:+1:37 GMT",
        "Sun, 06 Nov 1994 08:51:+7 GMT",
        "Sun, 006 Nov 1994 08:51:37 GMT",
        "Sun, 06 Nov 0000 08:51:37 GMT",
        "Sun, -6 Nov 1994 08:51:37 GMT",
        "Sun, ٠٦ Nov 1994 08:51:37 GMT",
        "Sunday, 06-Nov-1994 08:51:37 GMT",
        "Sunday, 06-Nov 08:51:37 GMT",
        "Sun 06-Nov-94 08:51:37 GMT",
        "Sun, 06-Nov-94 08:51:37 GMT",
        "Sun Nov 6 08:51:37 94",
        "1994-11-06T08:51:37Z",
        "Sun, 06 Nov 1994 08:51:37 GMT" + " " * 100 + "x",
    ],
)
def test_invalid_date_is_ignored(date: str) -> None:
    assert after(date) is None
    assert http_date(date, NOW) is None


@pytest.mark.parametrize(
    ("digits", "this_year", "year"),
    [
        ("94", 1994, 1994),
        ("44", 1994, 2044),
        ("45", 1994, 1945),
        ("05", 2099, 2105),
        ("76", 2026, 2076),
        ("77", 2026, 1977),
    ],
)
def test_two_digit_year_is_at_most_fifty_ahead(digits: str, this_year: int, year: int) -> None:
    now = http_date(f"Mon, 01 Jun {this_year} 00:00:00 GMT", 0.0)
    assert now is not None
    assert http_date(f"Monday, 01-Jun-{digits} 00:00:00 GMT", now) == http_date(
        f"Mon, 01 Jun {year} 00:00:00 GMT", 0.0
    )


def test_date_counts_from_the_servers_own_clock() -> None:
    wrong_clock = NOW + 3600
    assert retry_after({"retry-after": LATER, "date": "Sun, 06 Nov 1994 08:51:07 GMT"}, wrong_clock) == 30.0
    assert retry_after({"retry-after": LATER, "date": "yesterday"}, NOW) == 120.0
    assert retry_after({"retry-after": LATER, "date": "Sun, 06 Nov 1994 09:00:00 GMT"}, NOW) == 0.0


def test_wall_clock_is_read_for_a_date_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from stormproof._runtime import clock

    read = []
    monkeypatch.setattr(clock, "wall", lambda: read.append(1) or NOW)
    assert retry_after({"retry-after": "5"}) == 5.0
    assert retry_after({"retry-after": "junk"}) is None
    assert retry_after({}) is None
    assert read == []
    assert retry_after({"retry-after": LATER}) == 120.0
    assert read == [1]


def test_milliseconds_win_over_seconds() -> None:
    assert retry_after({"retry-after-ms": "1500", "retry-after": "60"}, NOW) == 1.5
    assert retry_after({"x-amz-retry-after": "250", "retry-after": "60"}, NOW) == 0.25
    assert retry_after({"retry-after-ms": "1500", "x-amz-retry-after": "250"}, NOW) == 1.5
    assert retry_after({"retry-after-ms": "0.5"}, NOW) == 0.0005
    assert retry_after({"retry-after-ms": "5, 9000, x, 7"}, NOW) == 9.0


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ([("RateLimit", '"default";r=0;t=30')], 30.0),
        ([("RateLimit", '"burst";r=5;t=1, "daily";r=0;t=600')], 600.0),
        ([("RateLimit", '"burst";r=0;t=1'), ("RateLimit", '"daily"; r=0; t=600')], 600.0),
        ([("RateLimit", '"default";r=3;t=30')], None),
        ([("RateLimit", '"default";r=0')], None),
        ([("RateLimit", '"default";r=0;t=-1')], None),
        ([("RateLimit", '"default";r=;t=;;==,,')], None),
        ([("RateLimit", '"default";r=0;t=' + "9" * 5000)], math.inf),
        ([("RateLimit", '"default";r=0;t=30'), ("Retry-After", "5")], 5.0),
        ([("RateLimit", '"default";r=0;t=30'), ("Retry-After", "junk")], 30.0),
        ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "12.5")], 12.5),
        ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", str(int(NOW) + 90))], int(NOW) + 90 - NOW),
        ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", str(int(NOW) - 5))], 0.0),
        ([("X-RateLimit-Remaining", "4"), ("X-RateLimit-Reset", "12")], None),
        ([("X-RateLimit-Reset", "12")], None),
        ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "6m0s")], None),
    ],
)
def test_used_up_quota_is_a_hint_where_no_other_is_given(
    headers: list[tuple[str, str]], wait: float | None
) -> None:
    assert retry_after(headers, NOW) == wait


def test_bad_header_is_skipped_for_the_next() -> None:
    assert retry_after({"retry-after-ms": "-1", "x-amz-retry-after": "x", "retry-after": "60"}, NOW) == 60.0


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("1, 3, 2", 3.0),
        ("1, junk, -5", 1.0),
        (f"5, {LATER}", 120.0),
        (f"{LATER}, 500", 500.0),
        (f"{LATER}, 5", 120.0),
        (f"{LATER}, {LATER}", 120.0),
        ("Sun Nov  6 08:51:37 1994, 5", 120.0),
        (f"junk, {LATER}", 120.0),
        (",,,", None),
    ],
)
def test_longest_of_repeated_headers_joined_by_commas_counts(value: str, wait: float | None) -> None:
    assert after(value) == wait


class Multi(list[tuple[Any, Any]]):
    """Headers in the manner of HTTP clients: a class of its own, pairs from ``multi_items``."""

    def multi_items(self) -> list[tuple[Any, Any]]:
        return list(self)


def message(*values: str) -> Message:
    made = Message()
    for value in values:
        made.add_header("Retry-After", value)
    return made


@pytest.mark.parametrize(
    "headers",
    [
        {"RETRY-AFTER": "9", "Retry-After": "3"},
        {b"retry-after": b"9"},
        {"retry-after": ["3", "9"]},
        [("Retry-After", "3"), ("retry-after", "9")],
        ((b"Retry-After", b"9"), (b"x", b"y")),
        Multi([("retry-after", "9"), ("retry-after", "3")]),
        message("9", "3"),
    ],
)
def test_headers_of_any_kind_are_read(headers: Any) -> None:
    assert retry_after(headers, NOW) == 9.0


class Broken:
    def items(self) -> Any:
        raise RuntimeError("closed")


class Halfway:
    def items(self) -> Any:
        yield "Retry-After", "4"
        raise RuntimeError("closed")


@pytest.mark.parametrize(
    "headers", [None, 5, "retry-after: 5", b"x", [], {}, [1, 2], [("a", "b", "c")], Broken()]
)
def test_headers_of_an_unknown_type_hold_no_hint(headers: Any) -> None:
    assert retry_after(headers, NOW) is None


def test_headers_read_before_an_error_count() -> None:
    assert retry_after(Halfway(), NOW) == 4.0


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf, 1e300])
def test_clock_without_a_date_gives_no_wait(now: float) -> None:
    assert after(LATER, now) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"X-Should-Retry": "true"}, True),
        ({"x-should-retry": " FALSE "}, False),
        ({"x-should-retry": "maybe"}, None),
        ({"x-should-retry": ""}, None),
        ({"x-should-retry": "1"}, None),
        ([("x-should-retry", "true"), ("x-should-retry", "false")], False),
    ],
)
def test_should_retry_header_is_read(headers: Any, expected: bool | None) -> None:
    assert server_hints.should_retry(server_hints.read(headers)) is expected


@pytest.mark.parametrize(
    ("metadata", "answer"),
    [
        (None, None),
        ((), None),
        ((("other", "5"),), None),
        ((("grpc-retry-pushback-ms", "0"),), 0.0),
        ((("grpc-retry-pushback-ms", "1500"),), 1.5),
        ((("grpc-retry-pushback-ms", b"20"),), 0.02),
        ([("Grpc-Retry-Pushback-Ms", "20")], 0.02),
        ({"grpc-retry-pushback-ms": "20"}, 0.02),
        ((("grpc-retry-pushback-ms", str(2**31 - 1)),), (2**31 - 1) / 1000),
        ((("grpc-retry-pushback-ms", "-1"),), STOP),
        ((("grpc-retry-pushback-ms", ""),), STOP),
        ((("grpc-retry-pushback-ms", "soon"),), STOP),
        ((("grpc-retry-pushback-ms", "1.5"),), STOP),
        ((("grpc-retry-pushback-ms", " 5"),), STOP),
        ((("grpc-retry-pushback-ms", "٣"),), STOP),
        ((("grpc-retry-pushback-ms", str(2**31)),), STOP),
        ((("grpc-retry-pushback-ms", "9" * 5000),), STOP),
        ((("grpc-retry-pushback-ms", "5"), ("grpc-retry-pushback-ms", "5")), STOP),
        ((("grpc-retry-pushback-ms", 5),), STOP),
        (42, None),
    ],
)
def test_pushback_metadata_is_read(metadata: Any, answer: Any) -> None:
    assert pushback(metadata) == answer


def test_stop_is_a_singleton() -> None:
    assert repr(STOP) == "STOP"
    assert pickle.loads(pickle.dumps(STOP)) is STOP
