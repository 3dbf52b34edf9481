"""The block form: ``for attempt in ...: with attempt: ...``, and its async twin.

The loop's own rules are tested for blocks in ``test_retry_loop.py``; here is what blocks add.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import trio
from tests.support.scripted import Bang, Boom, retry

import stormproof as sp


@pytest.fixture(autouse=True)
def clock() -> Iterator[sp.testing.FakeClock]:
    with sp.testing.instant() as clock:
        yield clock


def block(**options: Any) -> Any:
    return retry(**options).retrying()


def test_documented_block_retries(clock: sp.testing.FakeClock) -> None:
    numbers = []
    for attempt in sp.retrying(on=Boom, attempts=3, backoff=sp.Constant(2)):
        with attempt:
            numbers.append(attempt.number)
            if attempt.number < 3:
                raise Boom
    assert numbers == [1, 2, 3]
    assert clock.sleeps == [2, 2]


def test_retrying_takes_the_options_of_retry() -> None:
    clock = sp.testing.FakeClock()
    loop = sp.retrying(
        Boom,
        attempts=2,
        backoff=sp.Exponential(1, cap=9),
        budget=None,
        name="op",
        clock=clock,
        rng=lambda: 0.5,
    )
    with pytest.raises(Boom):
        for attempt in loop:
            with attempt:
                assert attempt.operation == "op"
                raise Boom
    assert clock.sleeps == [0.5]


def test_success_ends_the_loop() -> None:
    turns = 0
    for attempt in block():
        with attempt:
            turns += 1
    assert turns == 1


def test_code_after_the_with_runs_after_each_attempt() -> None:
    after = []
    for attempt in block():
        with attempt:
            if attempt.number < 3:
                raise Boom
        after.append(attempt.number)
    assert after == [1, 2, 3]


def test_code_after_the_loop_runs_once() -> None:
    def callee() -> str:
        for attempt in block():
            with attempt:
                if attempt.number < 3:
                    raise Boom
                return "from within"
        return "after"

    assert callee() == "from within"


@pytest.mark.parametrize("leave", ["break", "continue"])
def test_leaving_the_block_early_is_a_success(leave: str) -> None:
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    turns = 0
    try:
        for attempt in block():
            with attempt:
                turns += 1
                if leave == "break":
                    break
                continue
    finally:
        stop()
    assert turns == 1
    assert [type(event).__name__ for event in events] == ["Succeeded"]


def test_attempt_knows_its_number_and_the_last_error() -> None:
    seen: list[Any] = []
    error = Boom("first")
    for attempt in block():
        with attempt:
            seen.append((attempt.number, attempt.last_error))
            assert repr(attempt) == f"<attempt {attempt.number} of {attempt.operation}>"
            assert sp.attempt() is attempt
            if attempt.number == 1:
                raise error
        assert sp.attempt() is None
    assert seen == [(1, None), (2, error)]


def test_result_can_be_refused_through_the_attempt() -> None:
    for attempt in block(on_result=lambda value: value < 3):
        with attempt:
            attempt.result = attempt.number
    assert attempt.result == 3


def test_attempt_s_error_does_not_refuse_its_result() -> None:
    """`result` is judged only when the block came to its end."""
    judged: list[Any] = []

    def judge(value: Any) -> bool:
        judged.append(value)
        return False

    for attempt in block(on_result=judge):
        with attempt:
            attempt.result = attempt.number
            if attempt.number == 1:
                raise Boom
    assert judged == [2]


def test_loop_without_with_raises_instead_of_repeating() -> None:
    with pytest.raises(RuntimeError, match="with attempt"):
        for turn, _attempt in enumerate(block()):
            assert turn == 0


def test_attempt_is_entered_once() -> None:
    for attempt in block():
        with attempt:
            with pytest.raises(RuntimeError, match="once"):
                attempt.__enter__()
    with pytest.raises(RuntimeError, match="once"), attempt:
        pass


def test_block_object_serves_many_loops() -> None:
    one = block(attempts=2)
    for _ in range(3):
        turns = 0
        with pytest.raises(Boom):
            for attempt in one:
                with attempt:
                    turns += 1
                    raise Boom
        assert turns == 2


def test_nested_loops_over_one_object_do_not_mix() -> None:
    one = block(attempts=2)
    log: list[Any] = []
    for outer in one:
        with outer:
            for inner in one:
                with inner:
                    log.append((outer.number, inner.number))
                    assert sp.attempt() is inner
                    if inner.number == 1:
                        raise Boom
            assert sp.attempt() is outer
    assert log == [(1, 1), (1, 2)]


def test_block_object_serves_many_threads() -> None:
    one = block(attempts=3, backoff=sp.Constant(0))
    barrier = threading.Barrier(8)

    def worker(number: int) -> list[int]:
        barrier.wait(30)
        turns = []
        for attempt in one:
            with attempt:
                turns.append(attempt.number)
                if attempt.number < 1 + number % 3:
                    raise Boom
        return turns

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(worker, range(8)))
    assert results == [list(range(1, 2 + number % 3)) for number in range(8)]


def test_tasks_that_share_a_block_each_get_their_own_error() -> None:
    """Another library's shared async iterator swallowed two of four tasks' errors."""
    one = block(attempts=2, backoff=sp.Constant(0))

    async def worker(number: int) -> None:
        async for attempt in one:
            with attempt:
                await asyncio.sleep(0)
                raise Boom(str(number))

    async def main() -> list[Any]:
        return await asyncio.gather(*map(worker, range(4)), return_exceptions=True)

    assert [str(error) for error in asyncio.run(main())] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"])
@pytest.mark.parametrize("form", ["async with", "with"])
def test_documented_async_block_retries(run: Any, form: str, clock: sp.testing.FakeClock) -> None:
    numbers: list[int] = []

    async def main() -> None:
        async for attempt in block():
            async with attempt if form == "async with" else contextlib.nullcontext():
                with attempt if form == "with" else contextlib.nullcontext():
                    numbers.append(attempt.number)
                    if attempt.number < 3:
                        raise Boom

    run(main)
    assert numbers == [1, 2, 3]
    assert clock.sleeps == [1, 2]


def test_async_before_attempt_is_awaited() -> None:
    log: list[str] = []

    async def before(attempt: sp.Attempt) -> None:
        await asyncio.sleep(0)
        log.append(f"before {attempt.number}")

    async def main() -> None:
        async for attempt in block(before_attempt=before):
            async with attempt:
                log.append("turn")
                if attempt.number == 1:
                    raise Boom

    asyncio.run(main())
    assert log == ["before 1", "turn", "before 2", "turn"]


def test_sync_block_refuses_an_async_before_attempt() -> None:
    async def before(attempt: sp.Attempt) -> None: ...

    with pytest.raises(TypeError, match="before_attempt"):
        for attempt in block(before_attempt=before):
            with attempt:
                pass


def test_error_keeps_its_identity_and_traceback() -> None:
    errors = [Boom("1"), Boom("2")]

    def deep(number: int) -> None:
        raise errors[number - 1]

    with pytest.raises(Boom) as caught:
        for attempt in block(attempts=2):
            with attempt:
                deep(attempt.number)
    assert caught.value is errors[1]
    assert caught.traceback[-1].name == "deep"
    assert caught.value.__context__ is None


def test_fatal_error_passes_and_ends_the_loop() -> None:
    turns = 0
    with pytest.raises(Bang):
        for attempt in block():
            with attempt:
                turns += 1
                raise Bang
    assert turns == 1


def test_rest_of_the_function_is_not_retried() -> None:
    turns = 0
    with pytest.raises(Boom):
        for attempt in block():
            with attempt:
                turns += 1
            raise Boom
    assert turns == 1


def test_deadline_around_the_loop_bounds_it(clock: sp.testing.FakeClock) -> None:
    turns = 0
    with pytest.raises(sp.DeadlineExceeded), sp.deadline(10):
        for attempt in block(attempts=10):
            with attempt:
                turns += 1
                raise Boom
    assert turns == 4
    assert clock.sleeps == [1, 2, 4]


def test_block_of_a_policy_with_more_than_one_retry_is_refused() -> None:
    for policy in (sp.Policy(), sp.Policy(sp.Deadline(5)), sp.Policy(sp.Deadline(5), sp.Retry(on=Boom))):
        with pytest.raises(TypeError, match="block"):
            policy.retrying()


def test_keyed_budget_has_no_key_in_a_block() -> None:
    with pytest.raises(TypeError, match="key"):
        block(budget=sp.keyed(sp.Budget(), key=len))


def test_block_pays_the_policy_s_budget() -> None:
    budget = sp.Budget(ratio=0.5, burst=2)
    for attempt in block(budget=budget):
        with attempt:
            if attempt.number < 3:
                raise Boom
    assert budget.balance == 0.5


def test_leaving_by_an_interrupt_leaves_nothing_behind() -> None:
    one = block()
    with pytest.raises(KeyboardInterrupt):
        for attempt in one:
            with attempt:
                raise KeyboardInterrupt
    assert sp.attempt() is None
    turns = [attempt.number for attempt in one if not attempt.__enter__().__exit__(None, None, None)]
    assert turns == [1]


@pytest.mark.parametrize("off", [False, True])
def test_loop_that_has_ended_stays_ended(off: bool) -> None:
    with sp.disabled() if off else contextlib.nullcontext():
        turns = iter(block())
        with next(turns):
            pass
        assert list(turns) == []
        assert list(turns) == []


def test_loop_that_was_refused_may_begin_later() -> None:
    turns = iter(block())
    with sp.deadline(0), pytest.raises(sp.DeadlineExceeded):
        next(turns)
    with next(turns) as attempt:
        assert attempt.number == 1
    assert list(turns) == []


def test_repr_shows_the_retried_types() -> None:
    assert "Boom" in repr(sp.retrying(on=Boom))
