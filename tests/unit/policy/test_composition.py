"""Strategies in a row: what their order decides, which rows are refused, and the worst they can do."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.support.scripted import Boom, Play, each_way
from tests.support.sizes import sized

import stormproof as sp


def retry(**options: Any) -> sp.Retry:
    given = {"on": Boom, "attempts": 3, "backoff": sp.Constant(1), "budget": None, "within": None}
    return sp.Retry(**{**given, **options})


@each_way
def test_breaker_outside_retry_counts_calls_and_inside_attempts(play: Play) -> None:
    outside, inside = sp.Breaker(min_calls=50), sp.Breaker(min_calls=50)
    with sp.testing.instant():
        play(sp.Policy(outside, retry()), Boom, Boom, "ok").returned("ok")
        play(sp.Policy(retry(), inside), Boom, Boom, "ok").returned("ok")
        assert (outside.counts.requests, outside.counts.failures) == (1, 0)
        assert (inside.counts.requests, inside.counts.failures) == (3, 2)


@each_way
def test_breaker_that_opens_ends_the_retries(play: Play) -> None:
    """The refusal is final: Retry does not retry it unless `on` names it."""
    play(sp.Policy(retry(attempts=9), sp.Breaker(consecutive=2)), Boom, Boom).stopped_for("circuit").made(2)


@each_way
def test_refusal_is_retried_where_on_names_it(play: Play) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=1.5)
    policy = sp.Policy(retry(on=(Boom, sp.CircuitOpen), attempts=9, backoff=sp.Constant(1)), breaker)
    play(policy, Boom, "ok").returned("ok").made(2)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (lambda: (retry(), retry()), "one Retry"),
        (lambda: (retry(attempts=None),), "attempts must be a number"),
        (lambda: (sp.Hedge(1, idempotent=True), retry()), "share its budget"),
        (lambda: (sp.Retry,), "must be strategies"),
        (lambda: (3,), "must be strategies"),
    ],
)
def test_pipelines_that_contradict_themselves_are_refused(row: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        sp.Policy(*row())


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (lambda: (sp.Deadline(1), sp.Timeout(2)), "never acts"),
        (lambda: (sp.Timeout(1), retry()), "Deadline is made for that"),
        (lambda: (sp.Bulkhead(1), retry()), "keeps its place"),
        (lambda: (retry(), sp.Deadline(1)), "ends the call for good"),
        (lambda: (retry(), sp.Fallback(None)), "answers before Retry sees the failure"),
        (lambda: (retry(), sp.Timeout(500)), "500 seconds: durations are not milliseconds"),
        (
            lambda: (retry(backoff=sp.Exponential(100, cap=5000), within=30),),
            "may be 100 seconds, longer than",
        ),
        (lambda: (sp.Breaker(window=2), sp.Timeout(2)), "does not count a call that the Timeout"),
        (lambda: (sp.keyed(sp.Breaker(window=2), str), retry(), sp.Timeout(3)), "does not count a call"),
    ],
)
def test_doubtful_pipelines_are_warned_about(row: Any, says: str) -> None:
    with pytest.warns(UserWarning, match=says):
        sp.Policy(*row())


def test_sound_pipelines_are_not_warned_about() -> None:
    sp.Policy(sp.Deadline(5), retry(attempts=None), sp.Breaker(), sp.Bulkhead(5), sp.Timeout(1))
    sp.Policy(retry(), sp.Breaker(window=2), sp.Timeout(1.9))
    sp.Policy(retry(), sp.Breaker(window=None), sp.Timeout(100))
    sp.Policy(sp.Deadline(9), sp.Timeout(3), sp.Breaker(window=2))


# By hand: 3 attempts of 2 s; two waits of at most max(1, 1.1 * max_hint).
@pytest.mark.parametrize(
    ("row", "attempts", "seconds", "hinted", "amplification"),
    [
        (lambda: (), 1, math.inf, math.inf, 1),
        (lambda: (sp.Timeout(2),), 1, 2, 2, 1),
        (lambda: (retry(max_hint=0), sp.Timeout(2)), 3, 3 * 2 + 2 * 1, 3 * 2 + 2 * 1, 3),
        (lambda: (retry(max_hint=10), sp.Timeout(2)), 3, 3 * 2 + 2 * 1, 3 * 2 + 2 * 11, 3),
        (lambda: (retry(within=1, max_hint=10), sp.Timeout(2)), 3, 2 + 1 + 2, 2 + 1 + 11 + 2, 3),
        (lambda: (sp.Deadline(4), retry(), sp.Timeout(2)), 3, 4, 4, 3),
        (lambda: (sp.Deadline(4), retry(attempts=None)), math.inf, 4, 4, math.inf),
        (lambda: (retry(budget=sp.Budget(ratio=0.1)), sp.Timeout(2)), 3, 8, 3 * 2 + 2 * 66, 1.1),
    ],
)
def test_worst_case_is_computed(
    row: Any, attempts: float, seconds: float, hinted: float, amplification: float
) -> None:
    worst = sp.Policy(*row()).worst_case()
    assert worst.attempts == attempts
    assert worst.seconds == pytest.approx(seconds)
    assert worst.hinted_seconds == pytest.approx(hinted)
    assert worst.amplification == pytest.approx(amplification)


def test_worst_case_is_put_into_words() -> None:
    worst = sp.Policy(retry(budget=sp.Budget(ratio=0.1), max_hint=0), sp.Timeout(2)).worst_case()
    assert str(worst) == "at most 3 attempts, 8 s, 1.1 times the load in the long run"
    worst = sp.Policy(retry(budget=sp.Budget(ratio=0.1), max_hint=10), sp.Timeout(2)).worst_case()
    assert str(worst) == (
        "at most 3 attempts, 8 s (28 s if the server asks for waits), 1.1 times the load in the long run"
    )


def test_worst_case_of_retry_and_hedge_is_a_sum() -> None:
    worst = sp.Policy(retry(attempts=4), sp.Hedge(1, max=3, idempotent=True, budget=sp.Budget())).worst_case()
    assert worst.attempts == 4 + 3 - 1


def test_each_key_has_its_own_breaker() -> None:
    breakers = sp.keyed(sp.Breaker(consecutive=1), key=lambda host: host)

    @sp.Policy(breakers)
    def call(host: str) -> str:
        if host == "bad":
            raise Boom
        return host

    with pytest.raises(Boom):
        call("bad")
    with pytest.raises(sp.CircuitOpen):
        call("bad")
    assert call("good") == "good"
    assert (breakers["bad"].state, breakers["good"].state) == ("open", "closed")


@pytest.mark.sized
def test_keyed_strategies_stay_within_the_bound_however_many_keys() -> None:
    made = sp.keyed(object, limit=100)
    keys = sized(1_000_000, 50_000)
    for key in range(keys):
        made[key]
    assert len(made) == 100
    assert list(made) == list(range(keys - 100, keys))


def test_least_recently_used_key_is_dropped_first() -> None:
    made = sp.keyed(sp.Breaker(), limit=2)
    one = made["one"]
    made["two"]
    assert made["one"] is one
    made["three"]
    assert set(made) == {"one", "three"}
    assert made["one"] is one
