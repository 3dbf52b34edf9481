"""Inside a block inside a decorated function sp.attempt() was the function's attempt: number 1 throughout.

Stormproof: it is the innermost loop's, and the function's again after the block.
"""

from __future__ import annotations

from tests.support.loops import each_loop
from tests.support.scripted import Boom, retry

import stormproof as sp


def test_attempt_inside_a_sync_block_is_the_blocks():
    seen, around = [], []

    @retry(on=KeyError)
    def work():
        around.append(sp.attempt())
        for attempt in sp.retrying(on=Boom, backoff=sp.Constant(0)):
            with attempt:
                seen.append((sp.attempt().number, attempt.number))
                if attempt.number < 3:
                    raise Boom
        around.append(sp.attempt())

    work()
    assert seen == [(1, 1), (2, 2), (3, 3)]
    assert [attempt.number for attempt in around] == [1, 1]
    assert around[0].operation == around[1].operation
    assert sp.attempt() is None


@each_loop
def test_attempt_inside_an_async_block_is_the_blocks(loop):
    seen, around = [], []

    @retry(on=KeyError)
    async def work():
        around.append(sp.attempt())
        async for attempt in sp.retrying(on=Boom, backoff=sp.Constant(0), budget=None):
            async with attempt:
                seen.append((sp.attempt().number, attempt.number))
                if attempt.number < 3:
                    raise Boom
        around.append(sp.attempt())

    loop.run(work)
    assert seen == [(1, 1), (2, 2), (3, 3)]
    assert [attempt.number for attempt in around] == [1, 1]
    assert around[0].operation == around[1].operation
