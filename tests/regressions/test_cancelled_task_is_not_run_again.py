"""tenacity#529: a task cancelled by ``wait_for`` was run again, to success, by a rule that retries
"everything except X" (and #186: cancellation was retried at all).

Stormproof: a cancelled call makes no further attempt, wherever it is cancelled and whatever ``on`` says.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.support.loops import Loop, each_loop

import stormproof as sp


def all_but_value_errors(error):
    return not isinstance(error, ValueError)


RULES = [Exception, BaseException, all_but_value_errors, lambda error: True]
each_rule = pytest.mark.parametrize("on", RULES, ids=["Exception", "BaseException", "all but X", "all"])


def test_task_cancelled_by_wait_for_is_not_run_again():
    calls = 0

    @sp.retry(on=all_but_value_errors, attempts=5, backoff=sp.Constant(0))
    async def job():
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(60)
        return "ran to success"

    async def scenario():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(job(), 1)
        assert asyncio.get_running_loop().time() == 1

    Loop("asyncio").run(scenario)
    assert calls == 1


@each_loop
@each_rule
def test_task_cancelled_in_the_attempt_is_not_run_again(loop, on):
    calls = 0

    @sp.retry(on=on, attempts=5, backoff=sp.Constant(0), budget=None)
    async def job():
        nonlocal calls
        calls += 1
        if calls == 2:
            await loop.sleep(60)
        raise ConnectionError

    async def scenario():
        assert await loop.cut(1, job)
        assert loop.time() == 1

    loop.run(scenario)
    assert calls == 2


@each_loop
@each_rule
def test_call_cancelled_in_the_wait_makes_no_further_attempt(loop, on):
    calls = 0

    @sp.retry(on=on, attempts=5, backoff=sp.Constant(20), budget=None)
    async def job():
        nonlocal calls
        calls += 1
        raise ConnectionError

    async def scenario():
        assert await loop.cut(25, job)
        assert loop.time() == 25

    loop.run(scenario)
    assert calls == 2


@each_loop
def test_task_cancelled_in_a_block_is_not_run_again(loop):
    calls = 0

    async def job():
        nonlocal calls
        async for attempt in sp.retrying(on=all_but_value_errors, backoff=sp.Constant(0)):
            with attempt:
                calls += 1
                await loop.sleep(60)

    async def scenario():
        assert await loop.cut(1, job)

    loop.run(scenario)
    assert calls == 1


@each_loop
def test_stream_cancelled_while_opening_is_not_opened_again(loop):
    calls = 0

    @sp.retry(on=all_but_value_errors, backoff=sp.Constant(0))
    async def items():
        nonlocal calls
        calls += 1
        await loop.sleep(60)
        yield 1

    async def job():
        async for _ in items():
            pass

    async def scenario():
        assert await loop.cut(1, job)

    loop.run(scenario)
    assert calls == 1


@each_loop
def test_zero_wait_lets_the_cancellation_land(loop):
    calls = 0

    @sp.retry(on=ConnectionError, attempts=1000, backoff=sp.Constant(0), budget=None)
    async def job():
        nonlocal calls
        calls += 1
        raise ConnectionError

    async def scenario():
        assert await loop.cut(0, job)

    loop.run(scenario)
    assert calls < 10
