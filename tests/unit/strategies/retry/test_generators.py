"""Generators: retried until the first item is out, passed through after that, never silently unretried."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
import trio
import trio.lowlevel
from tests.support.scripted import Bang, Boom, retry

import stormproof as sp


@pytest.fixture(autouse=True)
def clock() -> Iterator[sp.testing.FakeClock]:
    with sp.testing.instant() as clock:
        yield clock


class Source:
    """A stream's script: what each opening yields, an exception where it fails. Counts its openings."""

    def __init__(self, *openings: list[Any]) -> None:
        self.openings = iter(openings)
        self.opened = 0
        self.closed = 0

    def read(self) -> Iterator[Any]:
        self.opened += 1
        try:
            for item in next(self.openings):
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self.closed += 1

    async def aread(self) -> AsyncIterator[Any]:
        self.opened += 1
        try:
            for item in next(self.openings):
                await sleep0()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self.closed += 1


async def sleep0() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        await trio.lowlevel.checkpoint()
    else:
        await asyncio.sleep(0)


def collect_sync(policy: sp.Policy, source: Source) -> list[Any]:
    @policy
    def stream() -> Iterator[Any]:
        yield from source.read()

    out: list[Any] = []
    try:
        out.extend(stream())
    except Exception as error:
        out.append(error)
    return out


async def collect(policy: sp.Policy, source: Source) -> list[Any]:
    @policy
    async def stream() -> AsyncIterator[Any]:
        async with contextlib.aclosing(source.aread()) as items:
            async for item in items:
                yield item

    out: list[Any] = []
    try:
        async for item in stream():
            out.append(item)  # noqa: PERF401 (what came before an error counts)
    except Exception as error:
        out.append(error)
    return out


def collect_asyncio(policy: sp.Policy, source: Source) -> list[Any]:
    return asyncio.run(collect(policy, source))


def collect_trio(policy: sp.Policy, source: Source) -> list[Any]:
    return trio.run(collect, policy, source)  # type: ignore[no-any-return]


each_stream = pytest.mark.parametrize("collected", [collect_sync, collect_asyncio, collect_trio])


@each_stream
def test_failures_before_the_first_item_are_retried(
    collected: Callable[..., list[Any]], clock: sp.testing.FakeClock
) -> None:
    source = Source([Boom()], [Boom()], [1, 2, 3])
    assert collected(retry(), source) == [1, 2, 3]
    assert (source.opened, source.closed) == (3, 3)
    assert clock.sleeps == [1, 2]


@each_stream
def test_failure_after_the_first_item_passes_through(collected: Callable[..., list[Any]]) -> None:
    error = Boom()
    source = Source([1, error], ["never"])
    assert collected(retry(), source) == [1, error]
    assert (source.opened, source.closed) == (1, 1)
    assert not hasattr(error, "__notes__")


@each_stream
def test_no_item_is_handed_out_twice(collected: Callable[..., list[Any]]) -> None:
    error = Boom()
    source = Source([Boom()], [1, 2, error], [1, 2, 3])
    assert collected(retry(), source) == [1, 2, error]
    assert source.opened == 2


@each_stream
def test_attempts_used_up_gives_the_last_error(collected: Callable[..., list[Any]]) -> None:
    errors = [Boom(), Boom()]
    assert collected(retry(attempts=2), Source(*([error] for error in errors))) == [errors[1]]


@each_stream
def test_fatal_error_passes(collected: Callable[..., list[Any]]) -> None:
    error = Bang()
    source = Source([error], ["never"])
    assert collected(retry(), source) == [error]
    assert source.opened == 1


@each_stream
def test_empty_stream_is_a_success(collected: Callable[..., list[Any]]) -> None:
    budget = sp.Budget(ratio=1, burst=0)
    source = Source([], ["never"])
    assert collected(retry(budget=budget), source) == []
    assert source.opened == 1
    assert budget.balance == 1


@each_stream
def test_none_is_an_item_like_any_other(collected: Callable[..., list[Any]]) -> None:
    assert collected(retry(), Source([Boom()], [None, None])) == [None, None]


@each_stream
def test_budget_pays_for_openings_and_earns_by_an_item(
    collected: Callable[..., list[Any]],
) -> None:
    budget = sp.Budget(ratio=0.5, burst=1)
    assert collected(retry(budget=budget), Source([Boom()], [1, 2, 3])) == [1, 2, 3]
    assert budget.balance == 0.5
    (refused,) = collected(retry(budget=budget), Source([Boom()], ["never"]))
    assert type(refused) is Boom and sp.stopped(refused).reason == "budget"


@each_stream
def test_deadline_bounds_a_stream_until_its_first_item(collected: Callable[..., list[Any]]) -> None:
    policy = sp.Policy(sp.Deadline(2.5), retry().strategies[0])
    (error,) = collected(policy, Source([Boom()], [Boom()], ["never"]))
    assert type(error) is sp.DeadlineExceeded
    assert collected(policy, Source([Boom()], [1, 2])) == [1, 2]


@each_stream
def test_result_rules_see_the_item_not_our_own_bookkeeping(collected: Callable[..., list[Any]]) -> None:
    judged: list[Any] = []

    def judge(value: Any) -> bool:
        judged.append(value)
        return bool(value == "refused")

    out = collected(retry(on_result=judge), Source(["refused"], ["fine", "more"]))
    if out and isinstance(out[0], TypeError):
        # Refusing the combination, in words, is as good.
        assert "on_result" in str(out[0])
        return
    assert judged == ["refused", "fine"]
    assert out == ["fine", "more"]


@each_stream
def test_generator_runs_nothing_before_its_first_item(collected: Callable[..., list[Any]]) -> None:
    source = Source([1])
    decorated = retry()(source.read)
    decorated()
    assert source.opened == 0


# What a generator can do beyond giving items.


def test_send_throw_and_return_reach_the_generator() -> None:
    @retry()
    def stream() -> Generator[Any, Any, str]:
        got = yield "first"
        while True:
            try:
                got = yield ("got", got)
            except KeyError as error:
                got = repr(error)
            if got == "stop":
                return "the result"

    items = stream()
    assert next(items) == "first"
    assert items.send(1) == ("got", 1)
    assert items.throw(KeyError("x")) == ("got", "KeyError('x')")
    with pytest.raises(StopIteration) as stop:
        items.send("stop")
    assert stop.value.value == "the result"


def test_throw_after_the_first_item_reaches_the_generator() -> None:
    @retry()
    def stream() -> Generator[str, Any, None]:
        try:
            yield "first"
        except KeyError:
            yield "caught"

    items = stream()
    assert next(items) == "first"
    assert items.throw(KeyError) == "caught"
    assert list(items) == []


def test_uncaught_thrown_error_comes_out() -> None:
    @retry(on=Exception)
    def stream() -> Generator[str, Any, None]:
        yield "first"

    items = stream()
    next(items)
    error = Boom()
    with pytest.raises(Boom) as caught:
        items.throw(error)
    assert caught.value is error


def test_generator_that_returns_at_once_gives_its_value() -> None:
    @retry()
    def stream() -> Generator[int, None, str]:
        return "value"
        yield

    def outer() -> Generator[int, None, str]:
        return (yield from stream())

    with pytest.raises(StopIteration) as stop:
        next(outer())
    assert stop.value.value == "value"


@pytest.mark.parametrize("items_read", [1, 2])
def test_closing_early_closes_the_generator(items_read: int) -> None:
    source = Source([1, 2, 3])
    stream = retry()(source.read)()
    for _ in range(items_read):
        next(stream)
    assert source.closed == 0
    stream.close()
    assert source.closed == 1


@pytest.mark.parametrize("items_read", [1, 2])
def test_error_of_the_clean_up_of_a_closed_generator_is_raised(items_read: int) -> None:
    """Closed, not merely dropped: an error of its clean-up reaches the closer."""

    @retry()
    def stream() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            raise Bang("from the clean-up")

    items = stream()
    for _ in range(items_read):
        next(items)
    with pytest.raises(Bang):
        items.close()


def test_dropped_retried_generator_is_closed() -> None:
    source = Source([1, 2, 3])
    stream = retry()(source.read)()
    next(stream)
    del stream
    gc.collect()
    assert source.closed == 1


def test_asend_athrow_and_aclose_reach_the_async_generator() -> None:
    log: list[str] = []

    @retry()
    async def stream() -> Any:
        try:
            got = yield "first"
            while True:
                try:
                    got = yield ("got", got)
                except KeyError as error:
                    got = repr(error)
        finally:
            await asyncio.sleep(0)
            log.append("closed")

    async def main() -> None:
        items = stream()
        assert await anext(items) == "first"
        assert await items.asend(1) == ("got", 1)
        assert await items.athrow(KeyError("x")) == ("got", "KeyError('x')")
        assert log == []
        await items.aclose()
        assert log == ["closed"]

    asyncio.run(main())


def test_leaving_an_async_for_early_closes_the_generator() -> None:
    source = Source([1, 2, 3])

    async def main() -> None:
        async with contextlib.aclosing(retry()(source.aread)()) as items:
            async for _ in items:
                break
        assert source.closed == 1

    asyncio.run(main())


def test_cancelled_async_generator_is_closed_and_not_opened_again() -> None:
    opened: list[str] = []

    @retry(on=Exception)
    async def stream() -> AsyncIterator[int]:
        opened.append("opened")
        try:
            await asyncio.sleep(3600)
            yield 1
        finally:
            opened.append("closed")

    async def main() -> None:
        task = asyncio.create_task(anext(stream()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert opened == ["opened", "closed"]


def test_running_attempt_is_known_in_the_generator() -> None:
    numbers: list[int] = []

    @retry()
    def stream() -> Iterator[int]:
        attempt = sp.attempt()
        assert attempt is not None
        numbers.append(attempt.number)
        if attempt.number < 3:
            raise Boom
        yield 1

    assert list(stream()) == [1]
    assert numbers == [1, 2, 3]


def test_each_call_is_its_own_stream() -> None:
    calls = 0

    @retry()
    def stream(n: int) -> Iterator[int]:
        nonlocal calls
        calls += 1
        if calls in (1, 3):
            raise Boom
        yield from range(n)

    first, second = stream(2), stream(3)
    assert [next(first), next(second), next(first), next(second), next(second)] == [0, 0, 1, 1, 2]


def test_each_opening_emits_one_event() -> None:
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        collect_sync(retry(), Source([Boom()], [1, 2, Boom()]))
    finally:
        stop()
    assert [type(event).__name__ for event in events] == ["Retrying", "Succeeded"]
