"""A rule registered with `transient` that answered with a match object raised a `TypeError` in the outage."""

from __future__ import annotations

import re
from typing import Any

import pytest

import stormproof as sp


class Odd(Exception):
    pass


@pytest.mark.parametrize(
    ("answer", "is_retried"), [(re.match("a", "a"), True), (1, True), (0, False), ("", False), (None, False)]
)
def test_rule_answer_counts_by_its_truth_and_none_leaves_it_to_the_next_rule(
    answer: Any, is_retried: bool
) -> None:
    mine = sp.transient.with_().register(Odd, lambda error: answer)
    assert bool(mine(Odd())) is is_retried


def test_rule_that_must_be_awaited_is_refused() -> None:
    async def rule(error: Odd) -> bool:
        return True

    mine = sp.transient.with_().register(Odd, rule)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a rule must answer at once"):
        mine(Odd())
