"""A decorated function keeps its parameters and its result, in each of the four kinds."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Protocol, assert_type

import stormproof as sp


@sp.retry(on=ConnectionError)
def fetch(key: int, *, default: str = "") -> str:
    return default * key


class Fetch(Protocol):
    def __call__(self, key: int, *, default: str = ...) -> str: ...


assert_type(fetch(1), str)
assert_type(fetch(key=1, default="x"), str)
same_parameters: Fetch = fetch
fetch()  # expect-error
fetch("1")  # expect-error
fetch(1, "x")  # expect-error
fetch(1, defualt="x")  # expect-error
wrong_result: int = fetch(1)  # expect-error


@sp.retry(on=(ConnectionError, TimeoutError), attempts=3)
async def afetch(key: int) -> bytes:
    return bytes(key)


async def use_async() -> None:
    assert_type(await afetch(1), bytes)
    await afetch("1")  # expect-error
    afetch(1).decode()  # expect-error


@sp.retry(on=ConnectionError)
def rows(count: int) -> Iterator[int]:
    yield from range(count)


@sp.retry(on=ConnectionError)
def echo(first: str) -> Generator[str, int, bool]:
    yield first
    return True


def use_generators() -> None:
    for row in rows(3):
        assert_type(row, int)
    rows("3")  # expect-error
    answer = echo("a").send(1)
    assert_type(answer, str)
    echo("a").send("1")  # expect-error


@sp.retry(on=ConnectionError)
async def arows(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


@sp.retry(on=ConnectionError)
async def aecho(first: str) -> AsyncGenerator[str, int]:
    yield first


async def use_async_generators() -> None:
    async for row in arows(3):
        assert_type(row, int)
    for _ in arows(3):  # expect-error
        pass
    assert_type(await aecho("a").asend(1), str)
    await aecho("a").asend("1")  # expect-error
