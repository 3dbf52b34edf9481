"""Hints at the edges of what is read: lengths, shapes, centuries, and headers of every kind."""

from __future__ import annotations

import datetime
import math
import time
from typing import Any

import pytest

from stormproof._classify import server_hints
from stormproof._classify.server_hints import (
    STOP,
    header,
    http_date,
    pushback,
    read,
    retry_after,
    should_retry,
)


def at(*when: int) -> float:
    return datetime.datetime(*when, tzinfo=datetime.UTC).timestamp()  # type: ignore[misc,arg-type]


NOW = at(2026, 11, 16)


# Amounts.


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("7", 7.0),
        (" 7\t", 7.0),
        ("1.5", 1.5),
        ("007", 7.0),
        ("0", 0.0),
        ("000", 0.0),
        ("0.25", 0.25),
        ("1000000000", 1e9),
        ("1000000001", math.inf),
        ("1" * 16, math.inf),
        ("0" * 5000 + "7", 7.0),
        ("1." + "1" * 5000, 1.111111111111111),
        ("5, 9, 7", 9.0),
        ("x, 9", 9.0),
        ("9, x", 9.0),
        ("1.", None),
        (".5", None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("٣", None),
        ("1.٣", None),
        ("", None),
        ("soon", None),
    ],
)
def test_retry_after_amount_is_read(value: str, wait: float | None) -> None:
    assert retry_after({"Retry-After": value}) == wait


def test_milliseconds_come_first_and_amazon_s_second() -> None:
    headers = {"retry-after-ms": "1500", "x-amz-retry-after": "2500", "retry-after": "9"}
    assert retry_after(headers) == 1.5
    del headers["retry-after-ms"]
    assert retry_after(headers) == 2.5
    del headers["x-amz-retry-after"]
    assert retry_after(headers) == 9.0
    assert retry_after({"retry-after-ms": "soon", "x-amz-retry-after": "", "retry-after": "9"}) == 9.0
    assert retry_after({"retry-after-ms": "200, 1000, 300"}) == 1.0
    assert retry_after([("retry-after-ms", "200"), ("retry-after-ms", "1000")]) == 1.0
    assert retry_after([("retry-after", "3"), ("retry-after", "8"), ("retry-after", "2")]) == 8.0
    assert retry_after({"retry-after-ms": "2000000000000"}) == math.inf
    assert retry_after({}) is None


# Dates.


@pytest.mark.parametrize(
    "text",
    ["Mon, 16 Nov 2026 00:01:00 GMT", "Monday, 16-Nov-26 00:01:00 GMT", "Mon Nov 16 00:01:00 2026"],
)
def test_all_three_date_forms_are_read(text: str) -> None:
    assert http_date(text, NOW) == NOW + 60
    assert http_date(text.lower().replace("gmt", "GMT"), NOW) == NOW + 60
    assert retry_after({"retry-after": text}, NOW) == 60.0
    assert retry_after({"retry-after": text}, NOW + 100) == 0.0
    assert retry_after({"retry-after": f"5, {text}, 7"}, NOW) == 60.0
    assert retry_after({"retry-after": f"{text}, 70"}, NOW) == 70.0
    assert retry_after({"retry-after": f"{text}, {text.replace(':01:', ':02:')}"}, NOW) == 120.0


def test_date_counts_from_the_response_s_own() -> None:
    headers = {"retry-after": "Mon, 16 Nov 2026 00:01:00 GMT", "date": "Mon, 16 Nov 2026 00:00:50 GMT"}
    assert retry_after(headers, NOW - 1000) == 10.0
    headers["date"] = "Mon, 16 Nov 2026 00:02:00 GMT"
    assert retry_after(headers, NOW - 1000) == 0.0
    headers["date"] = "yesterday"
    assert retry_after(headers, NOW) == 60.0
    pairs = [*headers.items(), ("date", "Mon, 16 Nov 2026 00:00:30 GMT")]
    assert retry_after(pairs, NOW) == 30.0


def test_wall_clock_is_read_only_for_a_date_without_a_time_to_count_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def wall() -> float:
        asked.append(1)
        return NOW

    monkeypatch.setattr("stormproof._runtime.clock.wall", wall)
    assert retry_after({"retry-after": "5"}) == 5.0
    assert retry_after({"retry-after": "not, a date"}) is None
    assert asked == []
    assert retry_after({"retry-after": "Mon, 16 Nov 2026 00:01:00 GMT"}) == 60.0
    assert asked == [1]


@pytest.mark.parametrize(
    "text",
    [
        "Mon, 16 Nov 2026 00:01:00 UTC",
        "Mon, 16 Nov 26 00:01:00 GMT",
        "Mon 16 Nov 2026 00:01:00 GMT",
        "Xyz, 16 Nov 2026 00:01:00 GMT",
        "Mon, 16 Xyz 2026 00:01:00 GMT",
        "Mon, 116 Nov 2026 00:01:00 GMT",
        "Mon, 31 Feb 2026 00:01:00 GMT",
        "Mon, 16 Nov 2026 00:01:61 GMT",
        "Mon, 16 Nov 2026 24:01:00 GMT",
        "Mon, 16 Nov 2026 00:60:00 GMT",
        "Mon, 16 Nov 2026 00-01-00 GMT",
        "Mon, 16 Nov 2026 00:01-00 GMT",
        "Mon, 16 Nov 2026 0:01:00 GMT",
        "Mon, 16 Nov 2026 00:01:000 GMT",
        "Mon, 1x Nov 2026 00:01:00 GMT",
        "Mon, 16 Nov 20x6 00:01:00 GMT",
        "Mon, 16 Nov 2026 0x:01:00 GMT",
        "Mon, 16 Nov 2026 00:0x:00 GMT",
        "Mon, 16 Nov 2026 00:01:0x GMT",
        "Mon, 16 Nov 0000 00:01:00 GMT",
        "Mon, 16-Nov-26 00:01:00 GMT",
        "Monday 16-Nov-26 00:01:00 GMT",
        "Monday, 16-Nov-26 00:01:00 UTC",
        "Monday, 16-Nov-2026 00:01:00 GMT",
        "Monday, 16Nov-26 00:01:00 GMT",
        "Monday, 1-6-Nov-26 00:01:00 GMT",
        "Xyz Nov 16 00:01:00 2026",
        "Mon Nov 16 00:01:00 26",
        "Monday Nov 16 00:01:00 2026",
        "Mon Nov 16 2026",
        "Mon, 16 Nov 2026 00:01:00 GMT or so",
        "",
    ],
)
def test_text_that_is_not_a_date_is_ignored(text: str) -> None:
    assert http_date(text, NOW) is None
    assert retry_after({"retry-after": text}, NOW) is None


def test_leap_second_is_one_second_later() -> None:
    assert http_date("Sat, 31 Dec 2016 23:59:60 GMT", NOW) == at(2017, 1, 1)
    assert http_date("Sat, 31 Dec 2016 23:59:59 GMT", NOW) == at(2017, 1, 1) - 1


def test_date_of_up_to_sixty_four_characters_is_read() -> None:
    text = "Mon, 16 Nov 2026 00:01:00 GMT"
    assert http_date(text + " " * (64 - len(text)), NOW) == NOW + 60
    assert http_date(text + " " * (65 - len(text)), NOW) is None


@pytest.mark.parametrize(
    ("digits", "year"), [("26", 2026), ("27", 2027), ("76", 2076), ("77", 1977), ("99", 1999), ("00", 2000)]
)
def test_year_of_two_digits_is_at_most_fifty_years_ahead(digits: str, year: int) -> None:
    assert http_date(f"Monday, 16-Nov-{digits} 00:00:00 GMT", NOW) == at(year, 11, 16)


def test_two_digit_year_is_read_relative_to_the_century() -> None:
    late = at(2090, 6, 1)
    assert http_date("Monday, 16-Nov-40 00:00:00 GMT", late) == at(2140, 11, 16)
    assert http_date("Monday, 16-Nov-41 00:00:00 GMT", late) == at(2041, 11, 16)
    assert http_date("Monday, 16-Nov-39 00:00:00 GMT", late) == at(2139, 11, 16)


# The server's word.


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([], None),
        (["true"], True),
        ([" TRUE\t"], True),
        (["false"], False),
        (["true", "false"], False),
        (["true, False"], False),
        (["yes"], None),
        (["truefalse"], None),
        (["x", "true"], True),
    ],
)
def test_should_retry_header_is_read(values: list[str], word: bool | None) -> None:
    assert should_retry(read([("X-Should-Retry", value) for value in values])) is word


# Pushback.


@pytest.mark.parametrize(
    ("values", "wait"),
    [
        ([], None),
        (["1500"], 1.5),
        (["0"], 0.0),
        (["2147483647"], 2147483.647),
        (["2147483648"], STOP),
        (["0000000001"], 0.001),
        (["00000000001"], STOP),
        (["-1"], STOP),
        (["1.5"], STOP),
        ([""], STOP),
        (["soon"], STOP),
        (["5", "5"], STOP),
    ],
)
def test_pushback_metadata_is_read(values: list[str], wait: Any) -> None:
    metadata = [("grpc-retry-pushback-ms", value) for value in values]
    assert pushback(metadata) == wait
    assert pushback([("other", "1"), *metadata]) == wait
    if len(values) == 1:
        assert pushback({"grpc-retry-pushback-ms": values[0]}) == wait


def test_pushback_is_read_from_bytes_and_not_from_broken_metadata() -> None:
    assert pushback([(b"grpc-retry-pushback-ms", b"5")]) == 0.005
    assert pushback(None) is None
    assert pushback([1, 2]) is None


# Headers of every kind.


class Raw:
    raw = [(b"Retry-After", b"5"), (b"retry-after", b"6")]


class NotRaw:
    raw = "something else"

    def items(self) -> Any:
        return [("Retry-After", "5")]


class Multi:
    def multi_items(self) -> Any:
        return [("Retry-After", "5"), ("Retry-After", "6")]

    def items(self) -> Any:
        return [("Retry-After", "5")]


class Broken:
    def items(self) -> Any:
        yield "Retry-After", "6"
        raise RuntimeError


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        (None, None),
        ([], None),
        ((), None),
        ({"RETRY-AFTER": "5"}, 5.0),
        ({b"retry-after": b"5"}, 5.0),
        ({"retry-after": ["5", "6"]}, 6.0),
        ({"retry-after": ("5", "6")}, 6.0),
        ({"retry-after": 5}, None),
        ([["retry-after", "5"]], 5.0),
        (iter([("retry-after", "5")]), 5.0),
        (Raw(), 6.0),
        (NotRaw(), 5.0),
        (Multi(), 6.0),
        (Broken(), 6.0),
        (7, None),
        ({7: "5"}, None),
        ({"x-retry-after": "5"}, None),
    ],
)
def test_headers_of_any_kind_are_read(headers: Any, wait: float | None) -> None:
    assert retry_after(headers) == wait


def test_retry_headers_are_collected_in_order() -> None:
    found = read([("Date", "x"), ("Retry-After", "1"), ("Server", "y"), ("retry-after", "2")])
    assert found == {"date": ["x"], "retry-after": ["1", "2"]}


def test_header_is_there_if_it_is_not_blank() -> None:
    names = frozenset({"idempotency-key", "x-key"})
    assert header({"Idempotency-Key": "a"}, names)
    assert header([("x-key", " "), ("X-Key", "b")], names)
    assert not header({"idempotency-key": " \t"}, names)
    assert not header({"other": "a"}, names)
    assert not header({"idempotency-key": 5}, names)


def test_only_ascii_digits_count_as_digits() -> None:
    assert server_hints.is_digits("0123456789")
    for text in ("", "1a", "٣", "²", " 1"):
        assert not server_hints.is_digits(text)


def test_dates_are_read_alike_in_every_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    new_year_s_eve = at(2026, 12, 31, 20)
    for zone in ("Asia/Tokyo", "America/Los_Angeles"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            assert http_date("Mon, 16 Nov 2026 00:01:00 GMT", NOW) == NOW + 60
            # In Tokyo it is 2027 already, from where 2077 would be fifty years ahead.
            assert http_date("Monday, 16-Nov-77 00:00:00 GMT", new_year_s_eve) == at(1977, 11, 16)
        finally:
            monkeypatch.undo()
            time.tzset()
