"""tenacity#58, #138, #610, backoff#15: a decorated generator function was silently not retried, because
calling it runs none of its code.

Stormproof: the code up to the first item is what is retried; send, throw, close and return work as before.
"""

from __future__ import annotations

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom, BudgetSpy, retry

import stormproof as sp


class Failing:
    """Counts the openings; the first ``times`` of them fail."""

    def __init__(self, times):
        self.times, self.opened = times, 0

    def open(self):
        self.opened += 1
        if self.opened <= self.times:
            raise Boom(f"open {self.opened}")


@pytest.fixture(autouse=True)
def instant():
    with sp.testing.instant() as clock:
        yield clock


def test_generator_is_retried(instant):
    source, budget = Failing(2), BudgetSpy()

    @retry(budget=budget)
    def items(count):
        source.open()
        yield from range(count)

    assert list(items(3)) == [0, 1, 2]
    assert source.opened == 3 and instant.sleeps == [1, 2]
    assert budget.calls[-1] == ("success", 1.0)


def test_exhausted_generator_raises():
    source = Failing(9)

    @retry(attempts=3)
    def items():
        source.open()
        yield

    with pytest.raises(Boom, match="open 3"):
        next(items())
    assert source.opened == 3


def test_retried_generator_starts_with_its_first_item():
    source = Failing(0)

    @retry()
    def items():
        source.open()
        yield 1

    iterator = items()
    assert source.opened == 0
    assert next(iterator) == 1


def test_empty_generator_is_retried_and_keeps_its_return_value():
    source = Failing(1)

    @retry()
    def items():
        source.open()
        return "nothing"
        yield

    with pytest.raises(StopIteration) as stop:
        next(items())
    assert stop.value.value == "nothing" and source.opened == 2


def test_send_throw_and_return_reach_a_retried_generator():
    source = Failing(1)

    @retry()
    def dialogue():
        source.open()
        heard = [(yield "hello")]
        try:
            yield heard[0]
        except KeyError as error:
            heard.append(error)
            yield "caught"
        return heard

    talk = dialogue()
    assert next(talk) == "hello"
    assert talk.send("hi") == "hi"
    error = KeyError("x")
    assert talk.throw(error) == "caught"
    with pytest.raises(StopIteration) as stop:
        talk.send(None)
    assert stop.value.value == ["hi", error] and source.opened == 2


@each_loop
def test_async_generator_is_retried(loop, instant):
    source = Failing(2)

    @retry()
    async def items(count):
        source.open()
        for item in range(count):
            yield item

    async def scenario():
        return [item async for item in items(3)]

    assert loop.run(scenario) == [0, 1, 2]
    assert source.opened == 3 and instant.sleeps == [1, 2]


@each_loop
def test_async_send_and_throw_reach_a_retried_generator(loop):
    source = Failing(1)

    @retry()
    async def dialogue():
        source.open()
        heard = yield "hello"
        try:
            yield heard
        except KeyError:
            yield "caught"

    async def scenario():
        talk = dialogue()
        assert await anext(talk) == "hello"
        assert await talk.asend("hi") == "hi"
        assert await talk.athrow(KeyError("x")) == "caught"
        with pytest.raises(StopAsyncIteration):
            await anext(talk)

    loop.run(scenario)
    assert source.opened == 2


def test_generator_methods_are_retried():
    class Table:
        def __init__(self):
            self.source = Failing(1)

        @retry()
        def rows(self):
            self.source.open()
            yield self

    table = Table()
    assert list(table.rows()) == [table]
    assert table.source.opened == 2


def test_plain_function_that_returns_a_generator_is_retried_as_a_call():
    """A plain function is retried as a call; what it returns is its result and passes through."""
    source = Failing(1)

    @retry()
    def items():
        source.open()
        return (item for item in range(3))

    assert list(items()) == [0, 1, 2]
    assert source.opened == 2


def test_call_refuses_a_generator_function():
    def items():
        yield 1

    with pytest.raises(TypeError, match="decorate it"):
        retry().call(items)
