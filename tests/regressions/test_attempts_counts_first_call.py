"""Elsewhere ``attempts=3`` (or ``retries=3``) makes 4 calls.

Stormproof: ``attempts`` counts calls, the first one included, in every form of use.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import Boom, every_way, retry


@every_way
@pytest.mark.parametrize("attempts", [1, 2, 3, 10])
def test_attempts_is_the_number_of_calls(play, attempts):
    played = play(retry(attempts=attempts), Boom, ...).raised_the_last_error().made(attempts)
    assert f"{attempts} attempt" in played.notes[-1]
    assert played.events[-1].attempts == attempts
    assert len(played.events) == attempts, "one event for each call"


@every_way
@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_last_attempt_may_succeed(play, attempts):
    played = play(retry(attempts=attempts), *[Boom] * (attempts - 1), "ok").returned("ok")
    assert played.events[-1].attempts == attempts


@every_way
def test_success_at_once_is_one_call(play):
    play(retry(attempts=3), "ok").returned("ok").made(1).slept()


@every_way
def test_refused_results_count_the_same(play):
    play(retry(attempts=3, on_result=lambda value: value == "bad"), "bad", "bad", "bad").returned("bad").made(
        3
    )
