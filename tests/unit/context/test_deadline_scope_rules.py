"""Scopes by themselves: what is left, which of several is nearest, and what they say when they end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

import stormproof as sp
from stormproof._context.deadlines import Scope, ambient, bypass, check, remaining


class Hand:
    """A clock in the hands of the test."""

    def __init__(self, time: float = 100.0) -> None:
        self.time = time

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        raise AssertionError("must not sleep")


def scope(limit: float | None, name: str = "deadline", clock: Any = None, **options: Any) -> Scope:
    return Scope(limit, name, clock or Hand(), **options)


def test_new_scope_has_its_limit_and_name() -> None:
    made = Scope(5.0)
    assert (made.limit, made.name, made.disabled, made.cancelled) == (5.0, "deadline", False, False)
    assert made.last_error is None
    assert sp.deadline(5).name == "deadline"
    assert (sp.disabled().name, sp.disabled().limit) == ("disabled", None)


def test_remaining_of_one_scope_counts_down_to_zero() -> None:
    clock = Hand()
    with scope(10.0, clock=clock) as made:
        assert made.own_remaining() == 10.0
        clock.time += 4
        assert (made.own_remaining(), made.remaining(), remaining()) == (6.0, 6.0, 6.0)
        clock.time -= 60
        assert made.own_remaining() == 10.0
        clock.time += 1000
        assert made.own_remaining() == 0.0
    assert remaining() is None
    assert scope(None).own_remaining() is None


def test_remaining_of_nested_scopes_is_the_least() -> None:
    with scope(10.0, "outer") as outer, scope(20.0, "middle") as middle, scope(None, "inner") as inner:
        assert (inner.remaining(), inner.tightest()) == (10.0, outer)
        assert (middle.remaining(), outer.remaining()) == (10.0, 10.0)
        assert list(inner.chain()) == [inner, middle, outer]
        with scope(5.0, "nearest") as nearest:
            assert (nearest.remaining(), nearest.tightest()) == (5.0, nearest)
    with scope(None) as made:
        assert (made.remaining(), made.tightest()) == (None, made)
    with scope(5.0, "outer") as outer, scope(5.0, "inner") as inner:
        assert inner.tightest() is inner


def test_real_remaining_ignores_scopes_on_a_fake_clock() -> None:
    with sp.deadline(1000), scope(5.0), scope(None) as made:
        left = made.real_remaining()
    assert left is not None and 900 < left <= 1000
    with scope(5.0) as made:
        assert made.real_remaining() is None


def test_error_names_the_scope_that_ended() -> None:
    clock = Hand()
    with scope(10.0, "outer", clock) as outer, scope(None, "inner") as inner:
        assert inner.ended() is None
        check()
        clock.time += 10
        assert inner.ended() is outer
        with pytest.raises(sp.DeadlineExceeded, match=r"^deadline 'outer' of 10 s exceeded$") as caught:
            check()
        assert caught.value.scope == "outer"
        inner.cancel()
        assert inner.ended() is inner
        with pytest.raises(sp.Cancelled, match=r"^scope 'inner' was cancelled$"):
            check()
    check()


def test_late_refusal_names_its_scope() -> None:
    refusal = scope(1.0, "job").late("too late")
    assert isinstance(refusal, sp.DeadlineExceeded)
    assert (str(refusal), refusal.scope) == ("too late", "job")


def test_call_begins_in_a_scope_that_has_time_left() -> None:
    assert bypass() is False
    clock = Hand()
    with scope(10.0, "outer", clock), scope(None, "inner") as inner:
        assert bypass() is False
        clock.time += 9.99
        assert bypass() is False
        clock.time += 0.01
        with pytest.raises(sp.DeadlineExceeded, match="outer"):
            bypass()
        inner.cancel()
        with pytest.raises(sp.Cancelled, match="inner"):
            bypass()


def test_call_in_a_disabled_scope_runs_without_policies() -> None:
    with sp.disabled() as off, scope(None) as inner:
        assert bypass() is True
        assert inner.off and off.off
        inner.cancel()
        # Off further out is off, whatever has ended in between.
        assert bypass() is True
    with scope(None) as made:
        assert not made.off


def test_deadline_of_zero_is_over_at_once() -> None:
    with scope(0.0) as made:
        assert made.ended() is made
        with pytest.raises(sp.DeadlineExceeded):
            bypass()


def test_scope_is_entered_once_at_a_time() -> None:
    made = scope(None, "job")
    with made:
        assert ambient() is made
        with pytest.raises(RuntimeError, match=r"^scope 'job' is already entered; "):
            made.__enter__()
    assert ambient() is None
    with made:
        assert ambient() is made


def test_last_error_is_forgotten_at_the_end() -> None:
    with scope(None) as made:
        made.last_error = ValueError()
    assert made.last_error is None


def test_limit_can_be_lifted() -> None:
    with scope(10.0) as made:
        made.lift()
        assert (made.limit, made.remaining()) == (None, None)


def test_bad_limits_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^deadline: limit must be "):
        sp.deadline(-1)
    with pytest.raises(ValueError, match=r"^Deadline: seconds must be "):
        sp.Deadline(-1)


def test_strategy_bounds_a_call_under_its_name() -> None:
    seen: list[Any] = []

    def callee(word: str, *, times: int) -> str:
        inside = ambient()
        assert inside is not None
        seen.append((inside.name, inside.limit, inside.clock))
        return word * times

    clock = sp.testing.FakeClock()
    policy = sp.Policy(sp.Deadline(3), name="op", clock=clock)
    assert policy.call(callee, "ab", times=2) == "abab"
    assert seen == [("op", 3.0, clock)]


def test_carrier_takes_the_deadline_along() -> None:
    def left(*more: Any, **named: Any) -> Any:
        return remaining(), more, named

    with ThreadPoolExecutor(2) as plain, sp.carry(plain) as carried:
        with scope(7.0):
            assert carried.submit(left, 1, two=2).result() == (7.0, (1,), {"two": 2})
            assert list(carried.map(left, [1, 2, 3], "ab")) == [(7.0, (1, "a"), {}), (7.0, (2, "b"), {})]
        assert carried.submit(left).result() == (None, (), {})


def test_carrier_ends_its_executor() -> None:
    shutdowns: list[Any] = []

    class RecordedExecutor(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            shutdowns.append((wait, cancel_futures))
            super().shutdown(wait, cancel_futures=cancel_futures)

    carried = sp.carry(RecordedExecutor(1))
    carried.shutdown()
    carried.shutdown(False, cancel_futures=True)
    assert shutdowns == [(True, False), (False, True)]


def test_strategy_bounds_an_awaited_call_under_its_name() -> None:
    seen: list[Any] = []

    async def callee(word: str, *, times: int) -> str:
        inside = ambient()
        assert inside is not None
        seen.append((inside.name, inside.limit, inside.clock))
        return word * times

    clock = sp.testing.FakeClock()
    policy = sp.Policy(sp.Deadline(3), name="op", clock=clock)
    assert asyncio.run(policy.acall(callee, "ab", times=2)) == "abab"
    assert seen == [("op", 3.0, clock)]
    unnamed = sp.Policy(sp.Deadline(3), clock=clock)
    asyncio.run(unnamed.acall(callee, "ab", times=2))
    assert seen[-1][0].endswith("callee")


def test_deadline_strategy_names_its_scope_after_the_callee() -> None:
    def callee() -> str:
        inside = ambient()
        assert inside is not None
        return inside.name

    assert sp.Policy(sp.Deadline(3)).call(callee).endswith("callee")


def test_end_of_the_time_is_caused_by_the_last_error_or_by_the_cancelling() -> None:
    boom = ValueError()

    async def wait(last: Exception | None) -> BaseException | None:
        with pytest.raises(sp.DeadlineExceeded) as caught:
            async with sp.deadline(0.001) as made:
                made.last_error = last
                await asyncio.sleep(30)
        assert made.last_error is None
        return caught.value.__cause__

    assert asyncio.run(wait(boom)) is boom
    assert isinstance(asyncio.run(wait(None)), asyncio.CancelledError)


def test_carrier_is_an_executor_whose_map_has_a_timeout() -> None:
    released = threading.Event()
    with sp.carry(ThreadPoolExecutor(1)) as carried:
        assert isinstance(carried, Executor)
        assert list(carried.map(str, [1, 2], timeout=30)) == ["1", "2"]
        try:
            with pytest.raises(TimeoutError):
                list(carried.map(released.wait, [None], timeout=0))
        finally:
            released.set()
