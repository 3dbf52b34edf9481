"""Digits of other scripts are digits to Python; options, headers and files take ASCII ones only."""

from __future__ import annotations

import re

import pytest

import stormproof as sp
from stormproof._primitives import durations


@pytest.mark.parametrize(
    "text", ["p²", "p٣", "p९५", "p1²", "p.", "p", "p1.2.3", "p-5", "pnan", "p1e1", "p1_0"]
)
def test_percentile_of_other_digits_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Hedge: after must be seconds or a percentile"):
        sp.Hedge(text, idempotent=True)


@pytest.mark.parametrize("micro", ["us", "µs", "μs"])
def test_schema_takes_both_ways_to_type_micro(micro: str) -> None:
    assert durations.parse(f"5{micro}") == 5e-6
    assert re.search(durations.PATTERN, f"5{micro}")
