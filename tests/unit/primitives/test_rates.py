"""Rates as text: what is read, and what is refused, with the text and the rule named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stormproof as sp
from stormproof._primitives import rates
from stormproof._primitives.rates import parse


@pytest.mark.parametrize(
    ("text", "rate", "burst"),
    [
        ("100/s burst 200", 100, 200),
        ("10/min", 10 / 60, 1),
        ("5000/h burst 100", 5000 / 3600, 100),
        ("1.5/s", 1.5, 1),
        ("2 per second", 2, 1),
        ("2 per seconds", 2, 1),
        ("100/sec", 100, 1),
        ("1 / minute", 1 / 60, 1),
        ("900/15min", 1, 1),
        ("900 per 15 minutes burst 5", 1, 5),
        ("24/d", 24 / 86400, 1),
        ("24 per day", 24 / 86400, 1),
        ("7 per hour", 7 / 3600, 1),
        ("1/100ms", 10, 1),
        ("0/s burst 3", 0, 3),
        ("10/s burst 0", 10, 0),
        ("  10 / S   BURST 3 ", 10, 3),
        ("100/s burst200", 100, 200),
    ],
)
def test_rate_text_is_parsed(text: str, rate: float, burst: int) -> None:
    assert parse(text) == (pytest.approx(rate), burst)


REFUSED = [
    "",
    " ",
    "100",
    "100/",
    "/s",
    "s/100",
    "100/s/s",
    "100//s",
    "100/x",
    "100/m",
    "100/month",
    "-1/s",
    "+1/s",
    "1e3/s",
    "1_000/s",
    "1,000/s",
    ".5/s",
    "5./s",
    "1.2.3/s",
    "inf/s",
    "nan/s",
    "100/s burst",
    "100/s burst -1",
    "100/s burst 1.5",
    "100/s burst 2 3",
    "100/s bursts 2",
    "100/s, burst 2",
    "100/sburst2",
    "burst 2 100/s",
    "100/0s",
    "100/1.5s",
    "100 s",
    "100 per",
    "per second",
    "100/s\n",
    "100\t/s",
    "\u0661\u0660/s",
    "\u00b9/s",
    "\uff11/s",
    "1" * 16 + "/s",
    "1/s burst " + "9" * 16,
    "1/" + "1" * 16 + "s",
    "1/s" + " " * 100,
]


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_invalid_rate_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must read like '100/s'") as caught:
        parse(text, "RateLimit")
    assert str(caught.value).startswith("RateLimit: the rate ")
    assert repr(text)[:20] in str(caught.value)


@pytest.mark.parametrize("value", [None, 5, b"10/s", True])
def test_rate_that_is_not_text_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"Limiter: the rate must read like .*, got "):
        parse(value)


@given(st.text(alphabet="0123456789./ persminhdbut", max_size=30))
def test_anything_is_read_or_refused(text: str) -> None:
    try:
        rate, burst = parse(text)
    except ValueError:
        return
    assert 0 <= rate < float("inf") and burst >= 0
    sp.Limiter(rate, burst)


@given(
    st.integers(1, 10**6),
    st.sampled_from([("s", 1), ("min", 60), ("h", 3600), ("d", 86400)]),
    st.integers(1, 99),
    st.integers(0, 10**6),
)
def test_both_spellings_of_a_rate_parse_alike(
    amount: int, unit: tuple[str, int], period: int, burst: int
) -> None:
    expected = (pytest.approx(amount / (period * unit[1])), burst)
    assert parse(f"{amount}/{period}{unit[0]} burst {burst}") == expected
    assert parse(f"{amount} per {period} {unit[0]} burst {burst}") == expected


@pytest.mark.parametrize("text", ["1" * 10**6, "1/" * 10**5, " " * 10**6 + "x", "burst " * 10**5])
def test_long_text_is_not_read_and_not_repeated(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_FORM", None)
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert len(str(caught.value)) < 300


def test_rate_limit_and_pacer_parse_rate_texts() -> None:
    limiter = sp.RateLimit("100/s burst 200").limiter
    assert (limiter.rate, limiter.burst) == (100, 200)
    pacer = sp.Pacer("90/min")
    assert (pacer.rate, pacer.burst) == (1.5, 1)
    with pytest.raises(ValueError, match="RateLimit: the rate must read like"):
        sp.RateLimit("fast")
    with pytest.raises(ValueError, match="Pacer: the rate must read like"):
        sp.Pacer("fast")
    with pytest.raises(ValueError, match="burst must be part of the text '1/s'"):
        sp.Pacer("1/s", 2)


# The limits themselves, on both sides.


def test_text_beyond_the_longest_is_refused() -> None:
    assert parse("10/s".ljust(64)) == (10, 1)
    with pytest.raises(ValueError):
        parse("10/s".ljust(65))


def test_unreadable_text_is_shown_whole_up_to_the_longest_that_is_read() -> None:
    with pytest.raises(ValueError) as whole:
        parse("?" * 64)
    assert str(whole.value).endswith(f"got {'?' * 64!r}")
    with pytest.raises(ValueError) as cut:
        parse("?" * 65)
    assert str(cut.value).endswith(f"got {'?' * 61 + '...'!r}")


def test_fifteen_digits_are_read_and_no_more() -> None:
    assert parse(f"{'1' * 15}/s") == (float("1" * 15), 1)
    assert parse(f"1/s burst {'1' * 15}") == (1, int("1" * 15))
    for text in (f"{'1' * 16}/s", f"1/s burst {'1' * 16}", f"1/{'1' * 16}s"):
        with pytest.raises(ValueError):
            parse(text)


def test_refused_rate_names_its_owner() -> None:
    with pytest.raises(ValueError, match=r"^Limiter: the rate must read like "):
        parse("ten a second")
    with pytest.raises(ValueError, match=r"^Pacer: the rate must read like "):
        parse("ten a second", "Pacer")
