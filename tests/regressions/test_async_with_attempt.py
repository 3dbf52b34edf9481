"""tenacity#469: inside ``async for`` people write ``async with attempt``, and it failed.

Stormproof: ``with attempt`` and ``async with attempt`` both work, in ``async for`` and in ``for``.
"""

from __future__ import annotations

import warnings

import pytest
from tests.support.loops import each_loop

import stormproof as sp


def block(**options):
    given = {"on": ConnectionError, "attempts": 3, "backoff": sp.Constant(10), "budget": None}
    return sp.retrying(**{**given, **options})


@each_loop
@pytest.mark.parametrize("style", ["with", "async with"])
def test_async_with_attempt_works_in_async_for(loop, style):
    numbers = []

    async def body(attempt):
        numbers.append((attempt.number, loop.time()))
        await loop.sleep(1)
        if attempt.number < 3:
            raise ConnectionError

    async def scenario():
        async for attempt in block():
            if style == "with":
                with attempt:
                    await body(attempt)
            else:
                async with attempt:
                    await body(attempt)

    loop.run(scenario)
    assert numbers == [(1, 0), (2, 11), (3, 22)]


@each_loop
def test_exhausted_async_block_raises_the_last_error(loop):
    async def scenario():
        async for attempt in block():
            async with attempt:
                raise ConnectionError(attempt.number)

    with pytest.raises(ConnectionError, match="3"):
        loop.run(scenario)


@each_loop
@pytest.mark.parametrize("leave", ["break", "return", "raise"])
def test_block_left_early_leaves_no_attempt_behind(loop, leave):
    """trio warns about async generators that are not closed; asyncio closes them in a task of its own."""

    async def scenario():
        async for attempt in block():
            async with attempt:
                if leave == "raise":
                    raise KeyError
            if leave == "break":
                break
            return

    async def guarded():
        try:
            await scenario()
        except KeyError:
            pass
        assert sp.attempt() is None

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop.run(guarded)


@each_loop
def test_async_with_attempt_works_in_a_sync_for(loop):
    async def scenario():
        for attempt in block(backoff=sp.Constant(0)):
            async with attempt:
                if attempt.number < 2:
                    raise ConnectionError
        return attempt.number

    assert loop.run(scenario) == 2


def test_attempt_without_with_raises():
    with pytest.raises(RuntimeError, match="must be `with attempt:`"):
        for _ in block():
            pass


def test_attempt_entered_twice_raises():
    for attempt in block():
        with attempt:
            with pytest.raises(RuntimeError, match="entered once"), attempt:
                pass
