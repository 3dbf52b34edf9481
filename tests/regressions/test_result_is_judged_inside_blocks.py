"""tenacity#326: a retrying block had no way to reject its *result*.

Stormproof: ``on_result`` judges what the block stores in ``attempt.result``; no result counts as
None.
"""

from __future__ import annotations

import pytest
from tests.support.loops import each_loop

import stormproof as sp


@pytest.fixture(autouse=True)
def instant():
    with sp.testing.instant() as clock:
        yield clock


def block(**options):
    given = {"on": ConnectionError, "attempts": 4, "backoff": sp.Constant(1), "budget": None}
    return sp.retrying(**{**given, **options})


def test_block_is_repeated_until_its_result_is_accepted(instant):
    answers = iter(["pending", "pending", "done"])
    for attempt in block(on_result=lambda value: value == "pending"):
        with attempt:
            attempt.result = next(answers)
    assert attempt.result == "done" and attempt.number == 3
    assert instant.sleeps == [1, 1]


@each_loop
def test_async_block_judges_its_result(loop, instant):
    answers = iter(["pending", "pending", "done"])

    async def scenario():
        async for attempt in block(on_result=lambda value: value == "pending"):
            async with attempt:
                attempt.result = next(answers)
        return attempt.number, attempt.result

    assert loop.run(scenario) == (3, "done")
    assert instant.sleeps == [1, 1]


def test_last_refused_result_remains_on_the_attempt(instant):
    for attempt in block(on_result=lambda value: True):
        with attempt:
            attempt.result = f"answer {attempt.number}"
    assert attempt.result == "answer 4"
    assert instant.sleeps == [1, 1, 1]


def test_results_and_errors_share_the_attempts():
    outcomes = iter([ConnectionError(), "pending", ConnectionError(), "pending"])
    numbers = []
    for attempt in block(on_result=lambda value: value == "pending"):
        with attempt:
            numbers.append(attempt.number)
            outcome = next(outcomes)
            if isinstance(outcome, Exception):
                raise outcome
            attempt.result = outcome
    assert numbers == [1, 2, 3, 4]


def test_block_without_result_has_the_result_none():
    judged = []
    for attempt in block(on_result=lambda value: judged.append(value) or False):
        with attempt:
            pass
    assert judged == [None]


def test_result_set_before_an_error_does_not_hide_the_error():
    with pytest.raises(KeyError):
        for attempt in block(on_result=lambda value: False):
            with attempt:
                attempt.result = "half done"
                raise KeyError


def test_result_is_judged_after_the_block():
    for attempt in block(on_result=lambda value: value < 3):
        with attempt:
            attempt.result = 0
            attempt.result = attempt.number
    assert attempt.number == 3
