"""Generators and async generators that are closed, dropped, broken off or interrupted before their end.

The function's own generator must be closed exactly once, in order, and nothing of Stormproof's may linger.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import warnings

import pytest
import trio
from tests.support.loops import each_loop
from tests.support.scripted import Boom, retry

import stormproof as sp

pytestmark = pytest.mark.proves("fault closed-early")

POLICIES = {
    "retry": retry(),
    "deadline": sp.Policy(sp.Deadline(60), sp.Retry(on=Boom, budget=None)),
    "hooks": retry(before_attempt=lambda attempt: None),
}
each_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


class Source:
    """Writes down what happens to each of its generators."""

    def __init__(self, fails=0):
        self.fails = fails
        self.log = []

    def items(self):
        self._open()
        try:
            yield from range(10)
        except GeneratorExit:
            self.log.append("exit")
            raise
        finally:
            self.log.append("closed")

    async def aitems(self):
        self._open()
        try:
            for item in range(10):
                yield item
        except GeneratorExit:
            self.log.append("exit")
            raise
        finally:
            self.log.append("closed")

    def _open(self):
        if self.fails:
            self.fails -= 1
            self.log.append("failed")
            raise Boom
        self.log.append("open")


@pytest.fixture(autouse=True)
def instant():
    with sp.testing.instant():
        yield


def ends_clean():
    assert sp.attempt() is None and sp.remaining() is None


# Generators


@each_policy
@pytest.mark.parametrize("taken", [1, 2, 5])
@pytest.mark.parametrize("fails", [0, 2])
def test_closed_generator_closes_its_source(policy, taken, fails):
    source = Source(fails)
    items = policy(source.items)()
    for _ in range(taken):
        next(items)
    items.close()
    assert source.log == ["failed"] * fails + ["open", "exit", "closed"]
    items.close()  # twice is once
    assert source.log[-1] == "closed" and source.log.count("closed") == 1
    with pytest.raises(StopIteration):
        next(items)
    ends_clean()


@each_policy
def test_generator_closed_before_it_began_opens_nothing(policy):
    source = Source()
    items = policy(source.items)()
    items.close()
    assert source.log == []


@each_policy
def test_dropped_generator_closes_its_source(policy):
    source = Source()
    for _ in policy(source.items)():
        break
    gc.collect()
    assert source.log == ["open", "exit", "closed"]
    ends_clean()


@each_policy
def test_error_thrown_into_a_generator_closes_its_source(policy):
    for kind in (KeyError, KeyboardInterrupt, GeneratorExit):
        source = Source()
        items = policy(source.items)()
        next(items)
        with pytest.raises(kind):
            items.throw(kind())
        assert source.log[-1] == "closed" and source.log.count("open") == 1


@each_policy
def test_generator_that_ignores_close_raises_runtime_error(policy):
    @policy
    def stubborn():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    items = stubborn()
    next(items)
    with pytest.raises(RuntimeError, match="generator ignored GeneratorExit"):
        items.close()


@each_policy
def test_error_while_closing_is_raised(policy):
    @policy
    def bad_end():
        try:
            yield 1
        finally:
            raise KeyError("in the end")

    items = bad_end()
    next(items)
    with pytest.raises(KeyError, match="in the end"):
        items.close()


def test_interrupt_while_opening_closes_the_source():
    log = []

    @retry(on=BaseException)
    def items():
        try:
            log.append("open")
            raise KeyboardInterrupt
            yield
        finally:
            log.append("closed")

    with pytest.raises(KeyboardInterrupt):
        next(items())
    assert log == ["open", "closed"]
    ends_clean()


def test_deadline_around_a_stream_ends_with_its_block():
    """A deadline opened around a stream that is left half-way ends with the block, not with the stream."""
    source = Source()

    def consumer():
        with sp.deadline(60):
            for item in retry()(source.items)():
                yield item
                assert sp.remaining() is not None

    items = consumer()
    next(items)
    next(items)
    items.close()
    assert source.log[-1] == "closed"
    ends_clean()


# Async generators


@each_loop
@each_policy
@pytest.mark.parametrize("taken", [1, 2, 5])
@pytest.mark.parametrize("fails", [0, 2])
def test_aclosed_generator_closes_its_source(loop, policy, taken, fails):
    source = Source(fails)

    async def scenario():
        items = policy(source.aitems)()
        for _ in range(taken):
            await anext(items)
        await items.aclose()
        assert source.log == ["failed"] * fails + ["open", "exit", "closed"]
        await items.aclose()
        assert source.log.count("closed") == 1
        with pytest.raises(StopAsyncIteration):
            await anext(items)
        ends_clean()

    loop.run(scenario)


@each_loop
@each_policy
def test_async_generator_closed_before_it_began_opens_nothing(loop, policy):
    source = Source()

    async def scenario():
        await policy(source.aitems)().aclose()
        assert source.log == []

    loop.run(scenario)


@each_loop
@each_policy
def test_aclosing_closes_the_source(loop, policy):
    source = Source()

    async def scenario():
        async with contextlib.aclosing(policy(source.aitems)()) as items:
            async for _ in items:
                break
        assert source.log == ["open", "exit", "closed"]

    loop.run(scenario)


@each_loop
@each_policy
def test_stream_cancelled_between_two_items_closes_its_source(loop, policy):
    log = []

    @policy
    async def items():
        try:
            log.append("open")
            yield 1
            await loop.sleep(1000)
            yield 2
        finally:
            log.append("closed")

    async def consume():
        async with contextlib.aclosing(items()) as stream:
            async for _ in stream:
                pass

    async def scenario():
        assert await loop.cut(1, consume)
        assert log == ["open", "closed"]
        ends_clean()

    loop.run(scenario)


@each_loop
@each_policy
def test_async_generator_cancelled_while_opening_leaves_nothing_behind(loop, policy):
    log = []

    @policy
    async def items():
        try:
            log.append("open")
            await loop.sleep(1000)
            yield 1
        finally:
            log.append("closed")

    async def consume():
        async for _ in items():
            pytest.fail("an item")

    async def scenario():
        assert await loop.cut(1, consume)
        assert log == ["open", "closed"]
        ends_clean()

    loop.run(scenario)


@each_loop
@each_policy
@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt, GeneratorExit])
def test_error_thrown_into_an_async_generator_closes_its_source(loop, policy, kind):
    source = Source()

    async def scenario():
        items = policy(source.aitems)()
        await anext(items)
        with pytest.raises(kind):
            await items.athrow(kind())
        assert source.log[-1] == "closed" and source.log.count("open") == 1

    loop.run(scenario)


@each_policy
def test_generator_dropped_in_asyncio_is_closed_by_the_loop(policy):
    source = Source()

    async def scenario():
        async for _ in policy(source.aitems)():
            break
        gc.collect()
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert source.log == ["open", "exit", "closed"]


@each_policy
def test_generator_left_open_is_closed_with_the_loop(policy):
    source = Source()
    kept = []

    async def scenario():
        items = policy(source.aitems)()
        await anext(items)
        kept.append(items)

    asyncio.run(scenario())  # shuts async generators down at its end
    assert source.log == ["open", "exit", "closed"]


@each_policy
def test_generator_dropped_in_trio_is_closed_by_trio(policy):
    source = Source()

    async def scenario():
        async for _ in policy(source.aitems)():
            break
        gc.collect()
        await trio.lowlevel.checkpoint()

    with warnings.catch_warnings():
        # trio's advice to use aclosing() is meant for the consumer above.
        warnings.simplefilter("ignore", ResourceWarning)
        trio.run(scenario)
    assert source.log == ["open", "exit", "closed"]


# Blocks


def test_block_left_early_is_a_success():
    budget = sp.Budget()
    for attempt in retry(budget=budget).retrying():
        with attempt:
            break
    ends_clean()
    assert budget.balance == pytest.approx(sp.Budget().burst + 0.1), "leaving without an error is a success"


def test_block_dropped_between_attempts_leaves_nothing_behind():
    iterator = iter(retry().retrying())
    with next(iterator):
        raise Boom
    del iterator
    gc.collect()
    ends_clean()


def test_generator_closed_inside_a_block_is_not_a_failure():
    """Closed while the attempt is running: GeneratorExit is not a failure."""
    budget = sp.Budget()

    def items():
        for attempt in retry(budget=budget).retrying():
            with attempt:
                yield attempt.number

    stream = items()
    assert next(stream) == 1
    stream.close()
    ends_clean()
    assert budget.balance == sp.Budget().burst


@each_loop
def test_async_generator_closed_inside_a_block_is_not_a_failure(loop):
    async def items():
        async for attempt in retry().retrying():
            with attempt:
                yield attempt.number

    async def scenario():
        stream = items()
        assert await anext(stream) == 1
        await stream.aclose()
        ends_clean()

    loop.run(scenario)
