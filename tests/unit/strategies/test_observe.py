"""`observe=True`: budgets and rate limits report what they would refuse, and refuse nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stormproof as sp

KINDS: dict[str, Any] = {
    "Budget": lambda **given: sp.Budget(ratio=0.1, burst=2, **given),
    "WindowBudget": lambda **given: sp.WindowBudget(ratio=0.1, floor=0.2, **given),
    "QuotaBudget": lambda **given: sp.QuotaBudget(capacity=10, **given),
    "ThrottleBudget": lambda **given: sp.ThrottleBudget(max_tokens=4, **given),
    "RateBudget": lambda **given: sp.RateBudget(rate=1, burst=2, **given),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def seen() -> Iterator[list[Any]]:
    events: list[Any] = []
    unsubscribe = sp.subscribe(events.append)
    yield events
    unsubscribe()


@each_kind
def test_observing_budget_evolves_as_one_that_refuses(kind: str, seen: list[Any]) -> None:
    clock = sp.testing.FakeClock()
    enforcing, observing = KINDS[kind](clock=clock), KINDS[kind](clock=clock, observe=True)
    refused = 0
    for step in range(200):
        clock.advance(0.1)
        for budget in (enforcing, observing):
            budget.started()
        if step % 3:
            enforcing.failure()
            observing.failure()
            paid, let_through = enforcing.withdraw(), observing.withdraw()
            assert let_through > 0
            refused += not paid
            if paid and step % 2:
                enforcing.success(paid)
            if step % 2:
                observing.success(let_through)
        else:
            enforcing.success()
            observing.success()
        assert observing.balance == enforcing.balance
    assert refused
    assert observing.describe()["would_refuse"] == refused
    assert [event for event in seen if isinstance(event, sp.events.WouldRefuse)] == [
        sp.events.WouldRefuse("budget", by="budget")
    ] * refused


@each_kind
def test_observing_budget_lets_every_retry_through(kind: str) -> None:
    clock = sp.testing.FakeClock()
    budget = KINDS[kind](clock=clock, observe=True)
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        raise ConnectionError

    policy = sp.retry(on=ConnectionError, attempts=20, backoff=sp.Constant(0), budget=budget, clock=clock)
    with pytest.raises(ConnectionError):
        policy.call(call)
    assert len(calls) == 20


def test_observing_rate_budget_never_waits() -> None:
    clock = sp.testing.FakeClock()
    budget = sp.RateBudget(rate=0.1, burst=1, wait=True, observe=True, clock=clock)
    policy = sp.retry(on=ConnectionError, attempts=4, backoff=sp.Constant(0), budget=budget, clock=clock)

    def call() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        policy.call(call)
    assert sum(clock.sleeps) == 0


@each_kind
def test_observing_budget_is_rebuilt_by_its_repr_and_named_by_its_errors(kind: str) -> None:
    made = KINDS[kind](observe=True)
    assert eval(repr(made), {name: getattr(sp, name) for name in sp.__all__}).observe is True
    assert made.fresh().observe is True
    assert "observe" not in repr(KINDS[kind]())
    with pytest.raises(TypeError, match=rf"^{kind}: observe must be True or False, got 1$"):
        KINDS[kind](observe=1)


@pytest.mark.parametrize("max_wait", [0, 5])
def test_observing_rate_limit_lets_calls_through_without_a_token(max_wait: float, seen: list[Any]) -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(1, 2, clock=clock)
    policy = sp.Policy(sp.RateLimit(limiter, max_wait=max_wait, observe=True), name="search", clock=clock)
    assert [policy.call(lambda: "ok") for _ in range(5)] == ["ok"] * 5
    assert limiter.tokens() == 0
    assert clock.sleeps == []
    assert seen == [sp.events.WouldRefuse("search", by="rate_limit")] * 3


def test_observing_rate_limit_charges_no_call_that_it_would_have_refused() -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(1, 3, clock=clock)
    policy = sp.Policy(sp.RateLimit(limiter, cost=2, cost_of_result=lambda used: used, observe=True))
    assert [policy.call(lambda: 3) for _ in range(4)] == [3] * 4
    assert limiter.tokens() == 0


def test_observe_can_be_switched_in_a_policy_file(tmp_path: Path) -> None:
    file = tmp_path / "stormproof.toml"
    text = "[policies.p]\nretry = {{ budget = {{ burst = 1, observe = {0} }} }}\n"
    text += "rate_limit = {{ limiter = '1/s', observe = {0} }}\n"
    file.write_text(text.format("true"))
    registry = sp.load(file)
    budget = registry["p"].strategies[0].budget
    assert budget.observe and registry["p"].strategies[1].observe
    file.write_text(text.format("false"))
    registry.reload()
    assert not registry["p"].strategies[1].observe
    assert registry["p"].strategies[0].budget is budget and not budget.observe
