"""tenacity#93, #701: one retrying object used by four tasks at once lost two of the four tasks' exceptions.

Stormproof: each loop over a block starts anew, so any number of threads and tasks may share the object;
and two that share one *iterator* get an error, neither loses its own.
"""

from __future__ import annotations

import threading

import pytest
from tests.support.loops import each_loop

import stormproof as sp


def failure(name):
    return ConnectionError(name)


@each_loop
def test_four_tasks_keep_their_errors(loop):
    block = sp.retrying(on=ConnectionError, attempts=3, backoff=sp.Constant(1), budget=None)
    errors = [failure(name) for name in "abcd"]
    seen = {str(error): [] for error in errors}

    def task(error):
        async def run():
            async for attempt in block:
                async with attempt:
                    seen[str(error)].append((attempt.number, attempt.last_error))
                    await loop.sleep(0)
                    raise error

        return run

    async def scenario():
        outcomes = await loop.together(*map(task, errors))
        assert all(outcome is error for outcome, error in zip(outcomes, errors, strict=True))
        assert loop.time() == 2

    loop.run(scenario)
    for error in errors:
        assert seen[str(error)] == [(1, None), (2, error), (3, error)]


def test_four_threads_keep_their_errors():
    block = sp.retrying(on=ConnectionError, attempts=3, backoff=sp.Constant(0), budget=None)
    errors = [failure(name) for name in "abcd"]
    outcomes = dict.fromkeys(errors)
    numbers = {error: [] for error in errors}
    meet = threading.Barrier(4)

    def run(error):
        try:
            for attempt in block:
                with attempt:
                    meet.wait(10)
                    numbers[error].append(attempt.number)
                    raise error
        except ConnectionError as outcome:
            outcomes[error] = outcome

    threads = [threading.Thread(target=run, args=(error,)) for error in errors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(outcomes[error] is error for error in errors)
    assert all(numbers[error] == [1, 2, 3] for error in errors)


def test_success_of_one_does_not_end_the_others():
    block = sp.retrying(on=ConnectionError, attempts=2, backoff=sp.Constant(0), budget=None)
    mine, yours = iter(block), iter(block)
    with next(mine):
        pass
    with next(yours):
        raise failure("yours")
    with pytest.raises(StopIteration):
        next(mine)
    with pytest.raises(ConnectionError, match="yours again"), next(yours) as attempt:
        assert attempt.number == 2
        raise failure("yours again")


def test_iterator_shared_by_two_loses_no_error():
    shared = iter(sp.retrying(on=ConnectionError, attempts=3, backoff=sp.Constant(0), budget=None))
    error = failure("mine")

    def mine():
        for attempt in shared:
            with attempt:
                with pytest.raises(RuntimeError, match="with attempt"):
                    next(shared)  # the other one, while this attempt is still running
                raise error

    with pytest.raises(ConnectionError) as caught:
        mine()
    assert caught.value is error


@each_loop
def test_async_iterator_shared_by_two_loses_no_error(loop):
    error = failure("mine")

    async def scenario():
        shared = aiter(sp.retrying(on=ConnectionError, attempts=3, backoff=sp.Constant(0), budget=None))
        with pytest.raises(ConnectionError) as caught:
            async for attempt in shared:
                async with attempt:
                    with pytest.raises(RuntimeError, match="with attempt"):
                        await anext(shared)
                    raise error
        assert caught.value is error

    loop.run(scenario)
