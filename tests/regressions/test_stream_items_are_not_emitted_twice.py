"""Elsewhere a stream that broke in the middle was started again, and its first items came out twice.

Stormproof: the way to the first item is retried; once one is out, an error passes through to the consumer.
"""

from __future__ import annotations

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom, retry

import stormproof as sp


class Source:
    """Opens fail ``fails`` times; then items 1, 2, 3, and an error after ``breaks_after`` of them."""

    def __init__(self, fails=0, breaks_after=None):
        self.fails, self.breaks_after = fails, breaks_after
        self.opened = 0

    def items(self):
        self.opened += 1
        if self.opened <= self.fails:
            raise Boom(f"open {self.opened}")
        for item in (1, 2, 3):
            if item - 1 == self.breaks_after:
                raise Boom(f"after {self.breaks_after}")
            yield item


def consume(source, policy):
    got = []
    with sp.testing.instant():
        try:
            for item in policy(source.items)():
                got.append(item)  # noqa: PERF402 -- what came before the error must be kept
        except Boom as error:
            return got, str(error)
    return got, None


def consume_async(source, policy, loop):
    @policy
    async def stream():
        for item in source.items():
            yield item

    got = []

    async def scenario():
        try:
            async for item in stream():
                got.append(item)  # noqa: PERF401
        except Boom as error:
            return got, str(error)
        return got, None

    with sp.testing.instant():
        return loop.run(scenario)


CASES = [
    (Source(breaks_after=1), [1], "after 1", 1),
    (Source(breaks_after=2), [1, 2], "after 2", 1),
    (Source(fails=2, breaks_after=2), [1, 2], "after 2", 3),
    (Source(fails=2), [1, 2, 3], None, 3),
    (Source(fails=9), [], "open 4", 4),
    (Source(breaks_after=0), [], "after 0", 4),
]
each_case = pytest.mark.parametrize(("source", "items", "error", "opened"), CASES)


@each_case
def test_generator_emits_no_item_twice(source, items, error, opened):
    source = Source(source.fails, source.breaks_after)
    assert consume(source, retry()) == (items, error)
    assert source.opened == opened


@each_loop
@each_case
def test_async_generator_emits_no_item_twice(loop, source, items, error, opened):
    source = Source(source.fails, source.breaks_after)
    assert consume_async(source, retry(), loop) == (items, error)
    assert source.opened == opened
