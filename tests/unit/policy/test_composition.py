"""Strategies in a row: what their order decides, which rows are refused, and the worst they can do."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.scripted import Boom, Play, each_way

import holdfast as hf


def retry(**options: Any) -> hf.Retry:
    given = {"on": Boom, "attempts": 3, "backoff": hf.Constant(1), "budget": None, "within": None}
    return hf.Retry(**{**given, **options})


@each_way
def test_a_breaker_outside_retry_counts_calls_and_inside_attempts(play: Play) -> None:
    outside, inside = hf.Breaker(min_calls=50), hf.Breaker(min_calls=50)
    with hf.testing.instant():
        play(hf.Policy(outside, retry()), Boom, Boom, "ok").returned("ok")
        play(hf.Policy(retry(), inside), Boom, Boom, "ok").returned("ok")
        assert (outside.counts.requests, outside.counts.failures) == (1, 0)
        assert (inside.counts.requests, inside.counts.failures) == (3, 2)


@each_way
def test_a_breaker_that_opens_ends_the_retries(play: Play) -> None:
    """The refusal is final: Retry does not retry it unless told."""
    play(hf.Policy(retry(attempts=9), hf.Breaker(consecutive=2)), Boom, Boom).raised(hf.CircuitOpen).made(2)


@each_way
def test_a_refusal_is_retried_where_on_names_it(play: Play) -> None:
    breaker = hf.Breaker(consecutive=1, open_for=1.5)
    policy = hf.Policy(retry(on=(Boom, hf.CircuitOpen), attempts=9, backoff=hf.Constant(1)), breaker)
    play(policy, Boom, "ok").returned("ok").made(2)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (lambda: (retry(), retry()), "one Retry"),
        (lambda: (retry(attempts=None),), "attempts must be a number"),
        (lambda: (hf.Hedge(1, idempotent=True), retry()), "share its budget"),
        (lambda: (hf.Retry,), "must be strategies"),
        (lambda: (3,), "must be strategies"),
    ],
)
def test_rows_that_make_no_sense_are_refused(row: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        hf.Policy(*row())


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (lambda: (hf.Deadline(1), hf.Timeout(2)), "never acts"),
        (lambda: (hf.Timeout(1), retry()), "Deadline is made for that"),
        (lambda: (hf.Bulkhead(1), retry()), "keeps its place"),
        (lambda: (retry(), hf.Deadline(1)), "ends the call for good"),
        (lambda: (hf.Breaker(window=2), hf.Timeout(2)), "does not count a call that the Timeout"),
        (lambda: (hf.keyed(hf.Breaker(window=2), str), retry(), hf.Timeout(3)), "does not count a call"),
    ],
)
def test_doubtful_rows_are_warned_about(row: Any, says: str) -> None:
    with pytest.warns(UserWarning, match=says):
        hf.Policy(*row())


def test_sound_rows_are_not_warned_about() -> None:
    hf.Policy(hf.Deadline(5), retry(attempts=None), hf.Breaker(), hf.Bulkhead(5), hf.Timeout(1))
    hf.Policy(retry(), hf.Breaker(window=2), hf.Timeout(1.9))
    hf.Policy(retry(), hf.Breaker(window=None), hf.Timeout(100))
    hf.Policy(hf.Deadline(9), hf.Timeout(3), hf.Breaker(window=2))


# By hand: 3 attempts of 2 s; two waits of at most max(1, 1.1 * max_hint).
@pytest.mark.parametrize(
    ("row", "attempts", "seconds", "amplification"),
    [
        (lambda: (), 1, math.inf, 1),
        (lambda: (hf.Timeout(2),), 1, 2, 1),
        (lambda: (retry(max_hint=0), hf.Timeout(2)), 3, 3 * 2 + 2 * 1, 3),
        (lambda: (retry(max_hint=10), hf.Timeout(2)), 3, 3 * 2 + 2 * 11, 3),
        (lambda: (retry(within=5), hf.Timeout(2)), 3, 2 + 5 + 2, 3),
        (lambda: (hf.Deadline(4), retry(), hf.Timeout(2)), 3, 4, 3),
        (lambda: (hf.Deadline(4), retry(attempts=None)), math.inf, 4, math.inf),
        (lambda: (retry(budget=hf.Budget(ratio=0.1)), hf.Timeout(2)), 3, 3 * 2 + 2 * 66, 1.1),
    ],
)
def test_the_worst_case(row: Any, attempts: float, seconds: float, amplification: float) -> None:
    worst = hf.Policy(*row()).worst_case()
    assert worst.attempts == attempts
    assert worst.seconds == pytest.approx(seconds)
    assert worst.amplification == pytest.approx(amplification)


def test_the_worst_case_in_words() -> None:
    worst = hf.Policy(retry(budget=hf.Budget(ratio=0.1), max_hint=0), hf.Timeout(2)).worst_case()
    assert str(worst) == "at most 3 attempts, 8 s, 1.1 times the load in the long run"


def test_the_worst_case_of_retry_and_hedge_is_a_sum() -> None:
    worst = hf.Policy(retry(attempts=4), hf.Hedge(1, max=3, idempotent=True, budget=hf.Budget())).worst_case()
    assert worst.attempts == 4 + 3 - 1


def test_each_key_has_a_breaker_of_its_own() -> None:
    breakers = hf.keyed(hf.Breaker(consecutive=1), key=lambda host: host)

    @hf.Policy(breakers)
    def call(host: str) -> str:
        if host == "bad":
            raise Boom
        return host

    with pytest.raises(Boom):
        call("bad")
    with pytest.raises(hf.CircuitOpen):
        call("bad")
    assert call("good") == "good"
    assert (breakers["bad"].state, breakers["good"].state) == ("open", "closed")


def test_a_million_keys_stay_within_the_bound() -> None:
    made = hf.keyed(object, limit=100)
    for key in range(1_000_000):
        made[key]
    assert len(made) == 100
    assert list(made) == list(range(999_900, 1_000_000))


def test_the_least_recently_used_key_goes_first() -> None:
    made = hf.keyed(hf.Breaker(), limit=2)
    one = made["one"]
    made["two"]
    assert made["one"] is one
    made["three"]
    assert set(made) == {"one", "three"}
    assert made["one"] is one
