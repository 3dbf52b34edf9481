"""``except ConnectionError:`` stopped working in the outage it was written for.

An empty budget raised `BudgetExhausted`, the end of ``within`` `DeadlineExceeded`, an open circuit
`CircuitOpen`, although the caller had asked for none of these limits.
"""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from tests.support.scripted import Boom, BudgetSpy, every_way, retry

import stormproof as sp


@every_way
@pytest.mark.parametrize(
    ("options", "reason", "attempts"),
    [
        ({"attempts": 2}, "attempts", 2),
        ({"budget": BudgetSpy(allow=0)}, "budget", 1),
        ({"within": 1.5}, "within", 2),
    ],
    ids=["attempts", "budget", "within"],
)
def test_call_raises_its_failure_for_every_stop_reason(
    play: Any, options: dict[str, Any], reason: str, attempts: int
) -> None:
    played = play(retry(**options), Boom, ...).stopped_for(reason).made(attempts)
    assert len(played.notes) == 1 and f"{attempts} attempt" in played.notes[0]


@every_way
def test_hint_beyond_max_hint_stops_with_reason_hint(play: Any) -> None:
    error = Boom()
    played = play(retry(), sp.RetryAfter(100, error))
    assert played.error is error and sp.stopped(error) == sp.Stopped("hint", 1, 0.0, 100)


REFUSALS = {
    "circuit": (lambda: sp.Breaker(consecutive=1), sp.CircuitOpen),
    "limit": (lambda: sp.RateLimit(sp.Limiter(1e-9, 1)), sp.RateLimited),
}


def failing(*strategies: Any, **options: Any) -> Any:
    error = Boom()
    one = sp.Retry(Boom, backoff=sp.Constant(0), before_attempt=lambda attempt: None, **options)
    policy = sp.Policy(one, *strategies, clock=sp.testing.FakeClock())

    @policy
    def call() -> None:
        raise error

    return call, error


@pytest.mark.parametrize("reason", REFUSALS)
def test_later_attempt_refused_further_in_raises_the_failure_before_it(reason: str) -> None:
    strategy, kind = REFUSALS[reason]
    call, error = failing(strategy())
    with pytest.raises(Boom) as caught:
        call()
    assert caught.value is error
    why = sp.stopped(error)
    assert why is not None and (why.reason, why.attempts) == (reason, 1)
    assert why.retry_after is not None
    # The next call is refused before anything is tried.
    with pytest.raises(kind) as refused:
        call()
    never = sp.stopped(refused.value)
    assert never is not None and (never.reason, never.attempts) == (reason, 0)


@pytest.mark.parametrize("reason", REFUSALS)
def test_raises_refusal_gives_the_refusal_with_its_reason(reason: str) -> None:
    strategy, kind = REFUSALS[reason]
    call, error = failing(strategy(), raises="refusal")
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.__cause__ is error
    why = sp.stopped(caught.value)
    assert why is not None and (why.reason, why.attempts) == (reason, 1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"budget": sp.Budget(burst=0)}, sp.BudgetExhausted),
        ({"within": 0}, sp.DeadlineExceeded),
        ({"within": 0}, (KeyError, sp.StormproofError)),
    ],
)
def test_fallback_that_names_the_refusal_answers(options: dict[str, Any], named: Any) -> None:
    def fail() -> str:
        raise Boom

    fails = sp.Retry(Boom, backoff=sp.Constant(1), **options)
    assert sp.Policy(sp.Fallback("kept", on=named), fails).call(fail) == "kept"
    with pytest.raises(Boom):
        sp.Policy(sp.Fallback("kept", on=sp.CircuitOpen), fails).call(fail)


def test_outer_retry_treats_a_refusal_as_final_unless_on_names_it() -> None:
    calls = 0

    @sp.retry(on=Boom, budget=sp.Budget(burst=0))
    def inner() -> None:
        nonlocal calls
        calls += 1
        raise Boom

    for on, made in ((Boom, 1), (sp.BudgetExhausted, 3), (sp.CircuitOpen, 1)):
        calls = 0
        outer = sp.retry(on=on, attempts=3, backoff=sp.Constant(0), budget=None)
        with pytest.raises(Boom):
            outer.call(inner)
        assert calls == made


def test_breaker_outside_counts_the_failure() -> None:
    breaker = sp.Breaker(consecutive=1, on=Boom)
    policy = sp.Policy(breaker, sp.Retry(Boom, budget=sp.Budget(burst=0)))

    async def fail() -> None:
        raise Boom

    with pytest.raises(Boom):
        asyncio.run(policy.acall(fail))
    assert breaker.state == "open"


def test_stop_reason_survives_pickling() -> None:
    policy = sp.retry(on=ConnectionError, budget=sp.Budget(burst=0))

    def fail() -> None:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError) as caught:
        policy.call(fail)
    why = sp.stopped(pickle.loads(pickle.dumps(caught.value)))
    assert why is not None and (why.reason, why.attempts) == ("budget", 1)


def test_stopped_returns_none_for_an_error_that_no_policy_stopped() -> None:
    assert sp.stopped(Boom()) is None
    with pytest.raises(KeyError) as caught:
        sp.retry(on=Boom).call({}.__getitem__, "key")
    assert sp.stopped(caught.value) is None
