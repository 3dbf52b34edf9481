"""Elsewhere ``KeyboardInterrupt`` was retried three times before it got through.

Stormproof: what is not an ``Exception`` passes at once, is not a failure to any budget, and cannot even be
named in ``on``.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import Boom, BudgetSpy, every_way, retry

import stormproof as sp

EXITS = [KeyboardInterrupt, SystemExit, GeneratorExit]


@every_way
@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("on", [Exception, BaseException, lambda error: True], ids=["Exc", "BaseExc", "any"])
def test_interrupt_passes_at_once(play, kind, on):
    budget = BudgetSpy()
    with pytest.raises(kind, match="call 1"):
        play(retry(on=on, budget=budget), kind)  # a second call would be beyond the script
    assert not [call for call in budget.calls if call != "started"]


@every_way
def test_interrupt_on_a_later_attempt_passes_at_once(play):
    budget = BudgetSpy()
    with pytest.raises(KeyboardInterrupt, match="call 3"):
        play(retry(on=BaseException, budget=budget), Boom, Boom, KeyboardInterrupt)
    assert [call for call in budget.calls if call != "started"] == [
        ("failure", False),
        ("withdraw", False),
    ] * 2


@pytest.mark.parametrize("kind", [*EXITS, pytest.param("asyncio", id="CancelledError")])
def test_interrupt_cannot_be_named_in_on(kind):
    if kind == "asyncio":
        from asyncio import CancelledError as kind
    with pytest.raises(ValueError, match=f"Retry: on must not hold {kind.__name__}"):
        sp.Retry(on=(ConnectionError, kind))
