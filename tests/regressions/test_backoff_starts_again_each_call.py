"""hyx: calls shared one backoff iterator, so the second call began where the first had stopped.

Stormproof: a schedule keeps no state; each call counts its retries, and remembers its last wait, for itself.
"""

from __future__ import annotations

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom, every_way, retry

import stormproof as sp


@every_way
def test_consecutive_calls_start_with_the_first_wait(play):
    policy = retry(attempts=4)
    for _ in range(2):
        play(policy, Boom, Boom, Boom, "ok").slept(1, 2, 4)


@every_way
def test_decorrelated_waits_start_again_in_each_call(play):
    # At u -> 1 a decorrelated wait is thrice the one before: 3, 9, 27 from a base of 1.
    backoff = sp.Decorrelated(1, cap=1000)
    policy = retry(attempts=4, backoff=backoff, rng=lambda: 1.0)
    for _ in range(2):
        play(policy, Boom, Boom, Boom, "ok").slept(3, 9, 27)


@each_loop
def test_concurrent_calls_start_with_the_first_wait(loop):
    policy = retry(attempts=4)
    begun = {"a": [], "b": []}

    @policy
    async def call(who):
        begun[who].append(loop.time())
        if len(begun[who]) < 4:
            raise Boom

    async def scenario():
        await loop.together(lambda: call("a"), lambda: call("b"))

    loop.run(scenario)
    assert begun == {"a": [0, 1, 3, 7], "b": [0, 1, 3, 7]}


def test_iterators_of_one_schedule_are_independent():
    schedule = sp.Exponential(1, cap=1000, jitter="none")
    first, second = schedule.delays(), schedule.delays()
    assert [next(first) for _ in range(3)] == [1, 2, 4]
    assert [next(second) for _ in range(3)] == [1, 2, 4]
    assert next(first) == pytest.approx(8)
