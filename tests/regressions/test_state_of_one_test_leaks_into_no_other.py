"""A breaker or budget at module level that one test opened or emptied refused in the next one.

Stormproof: `instant(fresh=True)`, `testing.reset()` and the fixture `stormproof_fresh` begin anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stormproof as sp

MADE: dict[str, tuple[Any, Callable[[Any], object]]] = {
    "Budget": (sp.Budget(burst=1), lambda it: it.balance),
    "WindowBudget": (sp.WindowBudget(ratio=0, floor=0.1), lambda it: it.balance),
    "QuotaBudget": (sp.QuotaBudget(capacity=5), lambda it: it.balance),
    "ThrottleBudget": (sp.ThrottleBudget(max_tokens=2), lambda it: it.balance),
    "RateBudget": (sp.RateBudget(rate=0, burst=1), lambda it: it.balance),
    "Limiter": (sp.Limiter(0, 1), lambda it: it.tokens()),
    "Pacer": (sp.Pacer(0.001), lambda it: it.tokens() > 0.5),
    "Breaker": (sp.Breaker(consecutive=1), lambda it: it.state),
    "Throttle": (sp.Throttle(), lambda it: it.rejection),
    "AdaptiveLimit": (sp.AdaptiveLimit("aimd", initial=20, min=1), lambda it: it.limit),
    "AdaptiveRate": (sp.AdaptiveRate(), lambda it: it.rate),
    "Hedge": (sp.Hedge(after="p50"), lambda it: it.delay()),
}


class Throttling(Exception):
    status_code = 429


def throttled() -> None:
    raise Throttling


def use_up(it: Any) -> None:
    if isinstance(it, sp.Breaker):
        it.admit().failure()
    elif isinstance(it, (sp.Throttle, sp.AdaptiveLimit, sp.AdaptiveRate)):
        with pytest.raises(Throttling):
            sp.Policy(it).call(throttled)
    elif isinstance(it, sp.Hedge):
        for _ in range(1000):
            it.measure(1.0)
    elif hasattr(it, "allow"):
        assert it.allow()
    else:
        it.failure()
        it.withdraw()


@pytest.mark.parametrize("kind", MADE)
def test_instant_fresh_resets_state_before_and_after(kind: str) -> None:
    it, look = MADE[kind]
    sp.testing.reset()
    full = look(it)
    use_up(it)
    assert look(it) != full
    with sp.testing.instant(fresh=True):
        assert look(it) == full
        use_up(it)
        assert look(it) != full
    assert look(it) == full


def test_instant_alone_keeps_the_state() -> None:
    budget = sp.Budget(burst=1)
    budget.withdraw()
    with sp.testing.instant():
        assert budget.balance == 0


def test_successes_counted_before_a_reset_earn_nothing_after_it() -> None:
    budget = sp.Budget(ratio=1, burst=1)
    for _ in range(5):
        budget.success()
    sp.testing.reset()
    assert budget.balance == 1


def test_decorated_function_uses_the_state_that_was_reset() -> None:
    calls: list[int] = []

    @sp.retry(on=ConnectionError, attempts=2, backoff=sp.Constant(0), budget=sp.Budget(burst=1))
    def call() -> None:
        calls.append(1)
        raise ConnectionError

    for _ in range(3):
        with sp.testing.instant(fresh=True), pytest.raises(ConnectionError):
            call()
    assert len(calls) == 6


def test_fixture_starts_with_fresh_state(stormproof_fresh: None) -> None:
    assert MADE["Budget"][0].balance == 1


def test_instant_refuses_a_fresh_that_is_not_a_bool() -> None:
    given: Any = 1
    with (
        pytest.raises(TypeError, match=r"^instant: fresh must be True or False, got 1$"),
        sp.testing.instant(given),
    ):
        pass
