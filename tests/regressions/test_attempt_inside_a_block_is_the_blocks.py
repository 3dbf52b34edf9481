"""Inside a block inside a decorated function hf.attempt() was the function's attempt: number 1 throughout.

Holdfast: it is the innermost loop's, and the function's again after the block.
"""

from __future__ import annotations

from tests.loops import each_loop
from tests.scripted import Boom, retry

import holdfast as hf


def test_sync():
    seen, around = [], []

    @retry(on=KeyError)
    def work():
        around.append(hf.attempt())
        for attempt in hf.retrying(on=Boom, backoff=hf.Constant(0)):
            with attempt:
                seen.append((hf.attempt().number, attempt.number))
                if attempt.number < 3:
                    raise Boom
        around.append(hf.attempt())

    work()
    assert seen == [(1, 1), (2, 2), (3, 3)]
    assert [attempt.number for attempt in around] == [1, 1]
    assert around[0].operation == around[1].operation
    assert hf.attempt() is None


@each_loop
def test_async(loop):
    seen, around = [], []

    @retry(on=KeyError)
    async def work():
        around.append(hf.attempt())
        async for attempt in hf.retrying(on=Boom, backoff=hf.Constant(0)):
            async with attempt:
                seen.append((hf.attempt().number, attempt.number))
                if attempt.number < 3:
                    raise Boom
        around.append(hf.attempt())

    loop.run(work)
    assert seen == [(1, 1), (2, 2), (3, 3)]
    assert [attempt.number for attempt in around] == [1, 1]
    assert around[0].operation == around[1].operation
