"""Elsewhere the loop sleeps once more after the last attempt, and only then raises.

Stormproof: n attempts have n - 1 waits between them, and a call that is given up ends at once.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import Boom, BudgetSpy, every_way, retry

import stormproof as sp


@every_way
@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_waits_are_one_fewer_than_attempts(play, attempts):
    played = play(retry(attempts=attempts), Boom, ...).raised_the_last_error().made(attempts)
    assert played.sleeps == [2.0**n for n in range(attempts - 1)]


@every_way
@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ({}, ValueError),
        ({}, sp.Permanent(Boom())),
        ({"budget": BudgetSpy(allow=0)}, Boom),
        ({"within": 0.5}, Boom),
        ({"max_hint": 5}, sp.RetryAfter(6, Boom())),
    ],
    ids=["fatal", "permanent", "budget", "within", "hint"],
)
def test_other_ends_do_not_wait(play, options, outcome):
    played = play(retry(**options), outcome).made(1)
    assert played.error is not None
    assert played.sleeps == []


@every_way
def test_last_refused_result_is_not_followed_by_a_wait(play):
    played = play(retry(attempts=3, on_result=lambda value: value == "bad"), "bad", "bad", "bad")
    played.returned("bad").slept(1, 2)
