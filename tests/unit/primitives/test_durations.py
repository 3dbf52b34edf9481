"""Durations as text: what is read, what is refused, and that writing is the inverse of reading."""

from __future__ import annotations

import math
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormproof._primitives.durations import PATTERN, parse, spell


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10ms", 0.01),
        ("100ms", 0.1),
        ("2s", 2.0),
        ("1.5s", 1.5),
        ("0.3s", 0.3),
        ("1m30s", 90.0),
        ("1h", 3600.0),
        ("1h0m5s", 3605.0),
        ("2d", 172800.0),
        ("250us", 0.00025),
        ("250µs", 0.00025),  # micro sign
        ("250μs", 0.00025),  # Greek mu
        ("7ns", 7e-9),
        ("1d2h3m4s5ms6us7ns", 93784.005006007),
        ("0", 0.0),
        ("0s", 0.0),
        ("inf", math.inf),
        ("9" * 350 + "s", math.inf),
    ],
)
def test_duration_text_is_parsed(text: str, seconds: float) -> None:
    assert parse(text) == seconds
    assert re.match(PATTERN, text.replace("μ", "µ"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "5",
        "1.5",
        "s",
        "ms",
        "1 s",
        " 1s",
        "1s ",
        "-1s",
        "+1s",
        "1e3s",
        ".5s",
        "5.s",
        "1..5s",
        "1.5.2s",
        "1s1s",
        "30s1m",
        "1ms1s",
        "1sec",
        "1M",
        "1S",
        "1mss",
        "infs",
        "nan",
        "1_000s",
        "\N{ARABIC-INDIC DIGIT ONE}s",
        "¹s",
        "1s\n",
    ],
)
def test_invalid_duration_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must read like '10ms'.*got"):
        parse(text)
    assert re.fullmatch(PATTERN, text) is None


def test_huge_text_is_refused_in_short() -> None:
    with pytest.raises(ValueError) as caught:
        parse("9" * 100_000 + "s")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [5, 5.0, None, b"5s"])
def test_duration_that_is_not_text_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="must read like"):
        parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "seconds"), [("5", 5.0), ("0.25", 0.25), ("2s", 2.0)])
def test_bare_numbers_are_seconds_if_allowed(text: str, seconds: float) -> None:
    assert parse(text, bare=True) == seconds


@pytest.mark.parametrize("text", ["5.", "-5", "1e3", "five", ""])
def test_invalid_text_is_refused_where_bare_numbers_are_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="must read like"):
        parse(text, bare=True)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.1, "100ms"),
        (0.5, "500ms"),
        (1.0, "1s"),
        (90.0, "90s"),
        (60.0, "1m"),
        (7200.0, "2h"),
        (0.00025, "250us"),
        (1 / 3, "0.3333333333333333s"),
        (math.inf, "inf"),
    ],
)
def test_duration_is_spelt_as_text(seconds: float, text: str) -> None:
    assert spell(seconds) == text


@given(st.floats(min_value=0, allow_nan=False))
def test_spelt_duration_reads_back_as_the_same_float(seconds: float) -> None:
    assert parse(spell(seconds)) == seconds


@pytest.mark.parametrize("seconds", [5e-324, sys.float_info.max, sys.float_info.min, 2.0**53 + 2, 1e22])
def test_extreme_durations_read_back(seconds: float) -> None:
    assert parse(spell(seconds)) == seconds


# The limits themselves, on both sides.


def test_text_beyond_the_longest_is_refused() -> None:
    assert parse("0" * 398 + "1s") == 1.0
    with pytest.raises(ValueError):
        parse("0" * 399 + "1s")


def test_unreadable_text_is_shown_whole_up_to_sixty_four_characters() -> None:
    with pytest.raises(ValueError) as whole:
        parse("?" * 64)
    assert str(whole.value).endswith(f"got {'?' * 64!r}")
    with pytest.raises(ValueError) as cut:
        parse("?" * 65)
    assert str(cut.value).endswith(f"got {'?' * 61 + '...'!r}")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (math.inf, "inf"),
        (0.0, "0s"),
        (3600.0, "1h"),
        (5400.0, "90m"),
        (61.0, "61s"),
        (0.0015, "1500us"),
        (7e-9, "7ns"),
        (1.5, "1500ms"),
        (1 / 3, "0.3333333333333333s"),
        (5e-324, "0." + "0" * 323 + "5s"),
        (1.5e-20, "0." + "0" * 19 + "15s"),
        (2.0**70, "1180591620717411300000s"),
    ],
)
def test_duration_is_spelt_in_its_most_readable_unit(seconds: float, text: str) -> None:
    assert spell(seconds) == text
    assert parse(text) == seconds


def test_several_fractions_are_summed_exactly() -> None:
    assert parse("1.5m1.25s") == 91.25
    assert parse("0.5h0.25m0.125s") == 1815.125
    assert parse("1.5s1.5ms1.5us") == 1.5015015


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1e22, "1" + "0" * 22 + "s"), (1e-30, "0." + "0" * 29 + "1s"), (1.5e300, "15" + "0" * 299 + "s")],
)
def test_float_with_an_exponent_is_written_out(seconds: float, text: str) -> None:
    assert spell(seconds) == text
    assert parse(text) == seconds
