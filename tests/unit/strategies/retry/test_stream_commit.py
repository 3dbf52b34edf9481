"""`Retry(commit=...)`: a stream is retried until the item that commits it; what came before is held back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.support.scripted import Boom

import stormproof as sp


@pytest.fixture(autouse=True)
def clock() -> Iterator[sp.testing.FakeClock]:
    with sp.testing.instant() as clock:
        yield clock


def is_text(item: Any) -> bool:
    return isinstance(item, str)


class Stream:
    """A script: what each opening yields, an exception where it breaks."""

    def __init__(self, *openings: list[Any]) -> None:
        self.openings = list(openings)
        self.opened = 0

    def read(self) -> Iterator[Any]:
        self.opened += 1
        for item in self.openings[self.opened - 1]:
            if isinstance(item, Exception):
                raise item
            yield item

    async def aread(self) -> AsyncIterator[Any]:
        for item in self.read():
            await asyncio.sleep(0)
            yield item


Reader = Callable[..., list[Any]]


def read_all(stream: Stream, got: list[Any], **options: Any) -> list[Any]:
    read = sp.retry(on=Boom, backoff=sp.Constant(0), **options)(stream.read)
    got.extend(read())
    return got


def aread_all(stream: Stream, got: list[Any], **options: Any) -> list[Any]:
    read = sp.retry(on=Boom, backoff=sp.Constant(0), **options)(stream.aread)

    async def main() -> None:
        async for item in read():
            got.append(item)  # noqa: PERF401 - what came before an error counts, too

    asyncio.run(main())
    return got


@pytest.fixture(params=[read_all, aread_all], ids=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Reader:
    reader: Reader = request.param
    return reader


def test_stream_that_breaks_before_the_commit_is_started_again_unseen(run: Reader) -> None:
    stream = Stream([1, Boom()], [2, 3, Boom()], [4, "a", 5])
    assert run(stream, [], commit=is_text) == [4, "a", 5]
    assert stream.opened == 3


def test_stream_that_breaks_after_the_commit_raises(run: Reader) -> None:
    stream, got = Stream([1, "a", 2, Boom()]), []
    with pytest.raises(Boom):
        run(stream, got, commit=is_text)
    assert got == [1, "a", 2]
    assert stream.opened == 1


def test_stream_that_ends_uncommitted_delivers_all(run: Reader) -> None:
    assert run(Stream([1, 2, 3]), [], commit=is_text) == [1, 2, 3]


def test_empty_stream_is_a_success(run: Reader) -> None:
    assert run(Stream([]), [], commit=is_text) == []


@pytest.mark.parametrize(("items", "opened"), [(64, 2), (65, 1)])
def test_65th_held_item_commits(run: Reader, items: int, opened: int) -> None:
    stream, got = Stream([*range(items), Boom()], ["a"]), []
    if opened == 1:
        with pytest.raises(Boom):
            run(stream, got, commit=is_text)
        assert got == [*range(items)]
    else:
        assert run(stream, got, commit=is_text) == ["a"]
    assert stream.opened == opened


@pytest.mark.parametrize(("size", "opened"), [((1 << 20) - 1, 2), (1 << 20, 1)])
def test_one_mebibyte_of_held_bytes_commits(run: Reader, size: int, opened: int) -> None:
    stream, got = Stream([b"x" * size, Boom()], ["a"]), []
    if opened == 1:
        with pytest.raises(Boom):
            run(stream, got, commit=is_text)
    else:
        assert run(stream, got, commit=is_text) == ["a"]
    assert stream.opened == opened


def test_on_result_judges_every_held_item(run: Reader) -> None:
    stream = Stream([1, {"error": "overloaded"}, "a"], [2, "b", {"error": "late"}])
    is_error = lambda item: isinstance(item, dict)  # noqa: E731
    assert run(stream, [], commit=is_text, on_result=is_error) == [2, "b", {"error": "late"}]
    assert stream.opened == 2


def test_refused_item_is_delivered_when_attempts_are_used_up(run: Reader) -> None:
    stream = Stream([1, {"error": 1}], [2, {"error": 2}, "a"])
    is_error = lambda item: isinstance(item, dict)  # noqa: E731
    assert run(stream, [], commit=is_text, on_result=is_error, attempts=2) == [2, {"error": 2}, "a"]


def test_async_on_result_judges_held_items() -> None:
    stream = Stream([1, {"error": 1}], [2, "a"])

    async def is_error(item: Any) -> bool:
        return isinstance(item, dict)

    assert aread_all(stream, [], commit=is_text, on_result=is_error) == [2, "a"]


def test_return_value_of_an_uncommitted_generator_is_kept() -> None:
    @sp.retry(on=Boom, commit=is_text)
    def read() -> Any:
        yield 1
        return "end"

    def outer() -> Any:
        return (yield from read())

    items = outer()
    assert next(items) == 1
    with pytest.raises(StopIteration) as stop:
        next(items)
    assert stop.value.value == "end"


def test_value_sent_before_the_commit_is_refused() -> None:
    items = sp.retry(on=Boom, commit=is_text)(Stream([1, 2, "a"]).read)()
    next(items)
    with pytest.raises(TypeError, match="takes no values before the item that commits it, got 5"):
        items.send(5)  # type: ignore[attr-defined]


def test_generator_closed_before_the_commit_closes_the_source() -> None:
    closed = []

    @sp.retry(on=Boom, commit=is_text)
    def read() -> Iterator[Any]:
        try:
            yield 1
            yield "a"
        finally:
            closed.append(True)

    items = read()
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert closed == [True]


def test_timeout_runs_until_the_commit() -> None:
    async def main(clock: sp.testing.VirtualClock) -> list[Any]:
        slow = iter([True, False])

        @sp.Policy(sp.Retry(sp.transient, commit=is_text, backoff=sp.Constant(0)), sp.Timeout(1))
        async def read() -> AsyncIterator[Any]:
            yield 1
            await asyncio.sleep(5 if next(slow) else 0.1)
            yield "a"
            await asyncio.sleep(5)
            yield "b"

        return [item async for item in read()]

    assert sp.testing.run(main) == [1, "a", "b"]
