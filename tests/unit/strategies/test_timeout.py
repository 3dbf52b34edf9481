"""The timeout of one attempt: what it cuts off, what it cannot, and whose time was up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.support.scripted import Boom

import stormproof as sp


def test_async_attempt_is_cancelled() -> None:
    ended: list[str] = []

    @sp.Policy(sp.Timeout(2))
    async def call() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main(clock: Any) -> float:
        with pytest.raises(sp.AttemptTimeout) as caught:
            await call()
        assert isinstance(caught.value, TimeoutError)
        return clock.now()

    assert sp.testing.run(main) == 2
    assert ended == ["cancelled"]


def test_attempt_that_was_cut_off_is_followed_by_another() -> None:
    began: list[float] = []

    async def main(clock: Any) -> str:
        @sp.Policy(sp.Retry(on=sp.transient, attempts=3, backoff=sp.Constant(1), budget=None), sp.Timeout(2))
        async def call() -> str:
            began.append(clock.now())
            await asyncio.sleep(100 if len(began) < 3 else 1)
            return "ok"

        return await call()

    assert sp.testing.run(main) == "ok"
    assert began == [0, 3, 6]


def test_outer_deadline_is_final_and_named_in_the_error() -> None:
    async def main(clock: Any) -> tuple[str, float]:
        policy = sp.Policy(sp.Deadline(3), sp.Retry(on=sp.transient, budget=None), sp.Timeout(2.9))
        with pytest.raises(sp.DeadlineExceeded) as caught, sp.deadline(1):
            await policy.acall(asyncio.sleep, 100)
        return type(caught.value).__name__, clock.now()

    assert sp.testing.run(main) == ("DeadlineExceeded", 1)


def test_cancellation_from_outside_is_not_a_timeout() -> None:
    async def main(clock: Any) -> bool:
        task = asyncio.ensure_future(sp.Policy(sp.Timeout(50)).acall(asyncio.sleep, 100))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert sp.testing.run(main)


def test_sync_attempt_sees_less_time_and_a_late_success_is_returned() -> None:
    clock = sp.testing.FakeClock()
    seen: list[float | None] = []

    def call() -> str:
        seen.append(sp.remaining())
        clock.advance(5)
        return "late"

    assert sp.Policy(sp.Timeout(2), clock=clock).call(call) == "late"
    assert seen == [2]
    assert sp.remaining() is None


def test_remaining_time_is_the_smaller_of_deadline_and_timeout() -> None:
    clock = sp.testing.FakeClock()
    policy = sp.Policy(sp.Deadline(3), sp.Timeout(1), clock=clock)
    assert policy.call(sp.remaining) == 1
    nested = sp.Policy(sp.Timeout(1), clock=clock)
    assert sp.Policy(sp.Timeout(0.5), clock=clock).call(lambda: nested.call(sp.remaining)) == 0.5


def test_error_passes_through() -> None:
    error = Boom()

    def call() -> None:
        raise error

    for thread in (False, True):
        with pytest.raises(Boom) as caught:
            sp.Policy(sp.Timeout(10, thread=thread)).call(call)
        assert caught.value is error


def test_thread_timeout_frees_the_caller_and_cancels_the_scope() -> None:
    noticed, go_on = threading.Event(), threading.Event()
    checked = sp.Policy(sp.Retry(on=Boom, attempts=1))

    def hang() -> None:
        assert go_on.wait(10)
        try:
            checked.call(lambda: None)
        except sp.Cancelled:
            noticed.set()

    try:
        with pytest.raises(sp.AttemptTimeout):
            sp.Policy(sp.Timeout(0.02, thread=True)).call(hang)
    finally:
        go_on.set()
    assert noticed.wait(10)


def test_thread_timeout_returns_a_success_with_its_context() -> None:
    with sp.deadline(50):
        left = sp.Policy(sp.Timeout(20, thread=True)).call(sp.remaining)
    assert left is not None
    assert 0 < left <= 20


def test_threads_of_timeouts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from stormproof._drivers import threads

    monkeypatch.setattr(threads, "LIMIT", 3)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    go_on = threading.Event()
    policy = sp.Policy(sp.Timeout(0.01, thread=True))
    try:
        for _ in range(3):
            with pytest.raises(sp.AttemptTimeout):
                policy.call(go_on.wait, 10)
        with pytest.raises(sp.BulkheadFull):
            policy.call(go_on.wait, 10)
    finally:
        go_on.set()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, None, "1"], ids=repr)
def test_bad_seconds_are_refused_by_name(seconds: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"Timeout.*seconds"):
        sp.Timeout(seconds)
