"""Server hints from hostile servers: never an exception, never a wait that cannot be slept or compared."""

from __future__ import annotations

import math
from email.utils import formatdate
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stormproof._classify.server_hints import FAR_S, STOP, http_date, pushback, retry_after

NOW = 1_700_000_000.0
names = st.sampled_from(
    ["Retry-After", "retry-after", "retry-after-ms", "x-amz-retry-after", "Date", "x-should-retry"]
)
texts = st.text() | st.binary() | st.from_regex(r"[0-9]{1,30}(\.[0-9]{0,20})?", fullmatch=True)
dates = st.integers(0, 2**33).map(lambda at: formatdate(at, usegmt=True))
anything = (
    st.none() | st.booleans() | st.integers() | st.floats() | texts | dates | st.lists(texts, max_size=3)
)


def legal(wait: float | None) -> bool:
    return wait is None or wait == math.inf or 0.0 <= wait <= FAR_S


@given(st.lists(st.tuples(names, anything), max_size=6))
def test_no_headers_raise_and_every_wait_is_legal(headers: list[tuple[str, Any]]) -> None:
    assert legal(retry_after(headers, NOW))
    assert legal(retry_after(dict(headers), NOW))


@given(
    st.recursive(
        anything, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    )
)
def test_hostile_headers_never_raise(headers: Any) -> None:
    assert legal(retry_after(headers, NOW))
    assert pushback(headers) is None or pushback(headers) is STOP or legal(pushback(headers))  # type: ignore[arg-type]


@given(st.integers(0, 10**9))
def test_whole_seconds_are_read_exactly(seconds: int) -> None:
    assert retry_after({"retry-after": str(seconds)}, NOW) == seconds
    assert retry_after({"retry-after-ms": str(seconds)}, NOW) == seconds / 1000


@given(st.integers(0, 10**6), st.integers(0, 999_999))
def test_fraction_is_read_exactly(whole: int, micro: int) -> None:
    text = f"{whole}.{micro:06d}"
    assert retry_after({"retry-after": text}, NOW) == float(text)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_longest_of_several_hints_counts_in_any_spelling(waits: list[int]) -> None:
    apart = [("retry-after", str(wait)) for wait in waits]
    joined = {"retry-after": ", ".join(map(str, waits))}
    assert retry_after(apart, NOW) == retry_after(joined, NOW) == max(waits)


@given(st.integers(0, 2**33), st.integers(-(10**6), 10**6))
def test_date_is_the_time_that_the_standard_library_wrote(at: int, shift: int) -> None:
    assert http_date(formatdate(at, usegmt=True), NOW) == at
    headers = {
        "retry-after": formatdate(max(0, at + shift), usegmt=True),
        "date": formatdate(at, usegmt=True),
    }
    assert retry_after(headers, NOW) == max(0, max(0, at + shift) - at)


@given(st.text(max_size=80))
def test_no_text_breaks_the_date_reader(text: str) -> None:
    when = http_date(text, NOW)
    assert when is None or math.isfinite(when)
