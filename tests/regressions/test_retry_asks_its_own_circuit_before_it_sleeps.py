"""A retry slept and paid a token although its own circuit was open, and would be when the wait was over."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.scripted import Boom, BudgetSpy, each_way

import stormproof as sp


def policy(*inside: Any, **options: Any) -> sp.Policy:
    options = {"attempts": 9, "backoff": sp.Constant(1), **options}
    return sp.Policy(sp.Retry(**{"on": Boom, **options}), *inside)


@each_way
def test_open_circuit_ends_the_call_without_a_wait_or_a_token(play: Any) -> None:
    budget = BudgetSpy()
    breaker = sp.Breaker(consecutive=2, open_for=30)
    played = play(policy(breaker, budget=budget), Boom, Boom).stopped_for("circuit").made(2).slept(1)
    assert sum(what == ("withdraw", False) for what in budget.calls) == 1
    assert sp.stopped(played.error).retry_after == 30


@each_way
def test_circuit_that_admits_a_probe_by_then_is_waited_for(play: Any) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=5)
    play(policy(breaker, backoff=sp.Constant(5.001)), Boom, "ok").returned("ok").slept(5.001)


@each_way
def test_circuit_that_is_open_until_the_wait_ends_is_not_waited_for(play: Any) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=5)
    play(policy(breaker, backoff=sp.Constant(5)), Boom, "ok").stopped_for("circuit").made(1).slept()


@each_way
def test_open_circuit_ends_the_call_of_a_rule_that_retries_failures_only(play: Any) -> None:
    breaker = sp.Breaker(consecutive=1)
    play(policy(breaker, on=lambda error: True), Boom, "ok").stopped_for("circuit").made(1).slept()


@each_way
def test_rule_that_answers_with_a_verdict_retries_an_open_circuit(play: Any) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=5)
    rule = policy(breaker, on=lambda error: sp.Verdict(True), budget=None)
    play(rule, Boom, "ok").returned("ok")


@each_way
def test_raises_refusal_gives_circuit_open(play: Any) -> None:
    breaker = sp.Breaker(consecutive=1, name="shop")
    played = play(policy(breaker, raises="refusal"), Boom).raised(sp.CircuitOpen).caused_by_the_last_error()
    assert played.error.retry_after == 30 and played.sleeps == []


@pytest.mark.parametrize(
    ("inside", "options"),
    [
        ([sp.Fallback("kept"), sp.Breaker(consecutive=1)], {}),
        ([sp.keyed(sp.Breaker(consecutive=1), key=lambda *args: "key")], {}),
        ([sp.Breaker(consecutive=1)], {"on": (Boom, sp.CircuitOpen), "attempts": 2}),
        ([sp.Breaker(consecutive=1)], {"before_attempt": lambda attempt: None}),
        ([sp.Breaker(consecutive=1)], {"budget": sp.RateBudget(1, 1, wait=True)}),
    ],
    ids=["fallback", "keyed", "named", "before_attempt", "waiting budget"],
)
@pytest.mark.filterwarnings("ignore::stormproof.PolicyWarning")
def test_attempt_is_made_if_the_refusal_is_not_certain(inside: list[Any], options: dict[str, Any]) -> None:
    def fail() -> None:
        raise Boom

    with sp.testing.instant() as clock:
        try:
            sp.Policy(sp.Retry(**{"on": Boom, "backoff": sp.Constant(1), **options}), *inside).call(fail)
        except (Boom, sp.CircuitOpen):
            assert len(clock.sleeps) == 1
        else:
            assert isinstance(inside[0], sp.Fallback)
