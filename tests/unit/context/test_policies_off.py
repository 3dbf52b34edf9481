"""Policies that are switched off, and scopes that were left: what a call that begins now is bounded by."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

import stormproof as sp
from stormproof._context.deadlines import bypass, is_off, remaining_for_attempt, switch_off, switch_on


class Boom(Exception):
    pass


@pytest.fixture
def clock() -> sp.testing.FakeClock:
    return sp.testing.FakeClock()


@pytest.fixture
def owners() -> Iterator[tuple[object, object]]:
    pair = object(), object()
    yield pair
    for owner in pair:
        switch_on(owner)


def calls_of(policy: Any) -> int:
    """Return how often ``policy`` calls a function that always fails."""
    calls = 0

    @policy
    def fails() -> None:
        nonlocal calls
        calls += 1
        raise Boom

    with pytest.raises(Boom):
        fails()
    return calls


def test_process_is_off_until_every_owner_has_switched_it_on(owners: tuple[object, object]) -> None:
    policy = sp.retry(on=Boom, attempts=3, backoff=sp.Constant(0), budget=None)
    first, second = owners
    assert not is_off() and calls_of(policy) == 3
    switch_off(first)
    switch_off(second)
    for owner in (first, second):
        assert is_off() and bypass() and calls_of(policy) == 1
        switch_on(owner)
    assert not is_off() and not bypass() and calls_of(policy) == 3


def test_process_stays_off_when_another_owner_switches_it_on(owners: tuple[object, object]) -> None:
    switch_off(owners[0])
    switch_on(owners[1])
    assert is_off()


def test_policies_are_off_inside_disabled_only(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(5, clock=clock):
        assert not is_off() and not bypass()
        with sp.disabled() as scope:
            assert is_off() and scope.off and bypass()
            with sp.deadline(0, clock=clock) as inner:
                assert inner.off and bypass()
    assert not is_off()


def test_process_that_is_off_shows_in_every_scope(owners: tuple[object, object]) -> None:
    with sp.deadline(5) as scope:
        assert not scope.off
        switch_off(owners[0])
        assert scope.off and is_off()


# Scopes that were left, as a thread or a task sees them that was started inside.


def test_scope_left_in_success_bounds_nothing_but_those_around_it_do(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(5, "outer", clock=clock):
        with sp.deadline(1, "inner", clock=clock):
            inside = contextvars.copy_context()
        clock.advance(2)
        assert inside.run(bypass) is False
        clock.advance(4)
        with pytest.raises(sp.DeadlineExceeded) as caught:
            inside.run(bypass)
        assert caught.value.scope == "outer"


def test_disabled_scope_left_by_an_error_switches_nothing_off() -> None:
    with pytest.raises(Boom), sp.disabled():
        inside = contextvars.copy_context()
        raise Boom
    assert inside.run(bypass) is False


def test_innermost_scope_that_ended_is_named(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(3, "outer", clock=clock), sp.deadline(2, "inner", clock=clock):
        clock.advance(10)
        with pytest.raises(sp.DeadlineExceeded) as caught:
            bypass()
    assert caught.value.scope == "inner"


def test_scopes_left_out_of_order_restore_the_nearest_one_entered(clock: sp.testing.FakeClock) -> None:
    outer, middle, inner = (sp.deadline(limit, clock=clock) for limit in (30, 20, 10))
    for scope in (outer, middle, inner):
        scope.__enter__()
    middle.__exit__(None, None, None)
    assert sp.remaining() == 10
    inner.__exit__(None, None, None)
    assert sp.remaining() == 30
    outer.__exit__(None, None, None)
    assert sp.remaining() is None


# The time of an attempt that begins now.


def test_attempt_has_the_time_of_the_tightest_scope(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(None) as endless:
        assert remaining_for_attempt(endless) is None
    with sp.deadline(5, clock=clock), sp.deadline(9, clock=clock) as wide, sp.deadline(None) as inner:
        assert remaining_for_attempt(wide) == remaining_for_attempt(inner) == 5
        with sp.deadline(2, clock=clock) as tight:
            assert remaining_for_attempt(tight) == 2


def test_attempt_in_a_scope_that_ended_is_not_begun(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(5, "job", clock=clock) as scope:
        clock.advance(5)
        with pytest.raises(sp.DeadlineExceeded):
            remaining_for_attempt(scope)
    with sp.deadline(5, clock=clock) as scope:
        scope.cancel()
        with pytest.raises(sp.Cancelled):
            remaining_for_attempt(scope)


def test_attempt_is_unbounded_where_policies_are_off(
    clock: sp.testing.FakeClock, owners: tuple[object, object]
) -> None:
    with sp.deadline(5, clock=clock) as outer:
        with sp.disabled() as inner:
            assert remaining_for_attempt(inner) is None
        assert remaining_for_attempt(outer) == 5
        switch_off(owners[0])
        assert remaining_for_attempt(outer) is None


def test_attempt_is_not_bounded_by_a_cancelled_scope_that_was_left(clock: sp.testing.FakeClock) -> None:
    with sp.deadline(5, clock=clock) as outer:
        with sp.deadline(1, clock=clock) as inner:
            pass
        inner.cancel()
        assert inner.is_cancelled and not outer.is_cancelled
        assert remaining_for_attempt(inner) == 5


def test_time_of_a_scope_may_count_from_before_it_is_entered(clock: sp.testing.FakeClock) -> None:
    scope = sp.deadline(5, clock=clock)
    assert scope.own_remaining() is None
    clock.advance(12)
    scope.begin(10.0)
    assert scope.own_remaining() == 3 and not scope.entered


# Functions.


def test_decorated_function_runs_in_a_scope_like_the_one_given(clock: sp.testing.FakeClock) -> None:
    @sp.deadline(5, "job", clock=clock)
    def work(*args: Any, **kwargs: Any) -> Any:
        clock.advance(1)
        return sp.remaining(), args, kwargs

    assert work(1, x=2) == work(1, x=2) == (4, (1,), {"x": 2})
    assert work.__name__ == "work"
    with pytest.raises(sp.DeadlineExceeded, match="'none'"):
        sp.deadline(0, "none", clock=clock)(work)()


def test_decorated_coroutine_function_runs_in_a_scope_like_the_one_given() -> None:
    @sp.deadline(5, "job")
    async def work(*args: Any, **kwargs: Any) -> Any:
        return sp.remaining(), args, kwargs

    async def main(clock: Any) -> Any:
        return await work(1, x=2)

    assert sp.testing.run(main) == (5, (1,), {"x": 2})


def test_decorated_coroutine_function_has_the_scopes_name_and_clock(clock: sp.testing.FakeClock) -> None:
    async def work() -> Any:
        clock.advance(2)
        return sp.remaining(), is_off()

    async def main(_: Any) -> Any:
        with pytest.raises(sp.DeadlineExceeded, match="'none'"):
            await sp.deadline(0, "none", clock=clock)(work)()
        return await sp.deadline(5, clock=clock)(work)(), await sp.disabled()(work)()

    assert sp.testing.run(main) == ((3, False), (None, True))


def test_function_that_is_disabled_calls_once() -> None:
    calls = []
    policy = sp.retry(on=Boom, attempts=3, backoff=sp.Constant(0), budget=None)

    def fails() -> None:
        calls.append(is_off())
        raise Boom

    with pytest.raises(Boom):
        sp.disabled()(policy(fails))()
    assert calls == [True]


def test_generator_functions_are_refused_with_advice() -> None:
    def numbers() -> Any:
        yield 1

    async def later() -> Any:
        yield 1

    for function in (numbers, later):
        with pytest.raises(TypeError) as caught:
            sp.deadline(5)(function)
        message = str(caught.value)
        assert message.startswith(
            "deadline: what is decorated must be a function or coroutine function, got "
        )
        assert message.endswith("; use `with deadline(...):` inside it")


# Executors.


@pytest.mark.parametrize("executor", [ThreadPoolExecutor, object(), None], ids=["class", "object", "None"])
def test_object_that_is_not_an_executor_is_refused(executor: Any) -> None:
    with pytest.raises(TypeError, match=r"^carry: "):
        sp.carry(executor)


def test_process_pool_is_refused() -> None:
    with ProcessPoolExecutor(1) as pool, pytest.raises(TypeError, match=r"^carry: .*process"):
        sp.carry(pool)


def test_carried_work_sees_the_deadline_it_was_given_in() -> None:
    with ThreadPoolExecutor(1) as pool, sp.deadline(60):
        assert 0 < sp.carry(pool).submit(sp.remaining).result() <= 60
