"""A duration at the longest text that is read."""

from __future__ import annotations

import pytest

from stormproof._primitives.durations import parse


@pytest.mark.parametrize(("bare", "unit"), [(True, ""), (False, "s"), (True, "s")])
def test_duration_of_400_characters_is_the_longest_that_is_read(bare: bool, unit: str) -> None:
    text = "5" + unit
    assert parse(text.rjust(400, "0"), bare=bare) == 5.0
    with pytest.raises(ValueError, match="must read like"):
        parse(text.rjust(401, "0"), bare=bare)
