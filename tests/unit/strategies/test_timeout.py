"""The timeout of one attempt: what it cuts off, what it cannot, and whose time was up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.scripted import Boom

import holdfast as hf


def test_an_async_attempt_is_cancelled() -> None:
    ended: list[str] = []

    @hf.Policy(hf.Timeout(2))
    async def call() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main(clock: Any) -> float:
        with pytest.raises(hf.AttemptTimeout) as caught:
            await call()
        assert isinstance(caught.value, TimeoutError)
        return clock.now()

    assert hf.testing.run(main) == 2
    assert ended == ["cancelled"]


def test_an_attempt_that_was_cut_off_is_followed_by_another() -> None:
    began: list[float] = []

    async def main(clock: Any) -> str:
        @hf.Policy(hf.Retry(on=hf.transient, attempts=3, backoff=hf.Constant(1), budget=None), hf.Timeout(2))
        async def call() -> str:
            began.append(clock.now())
            await asyncio.sleep(100 if len(began) < 3 else 1)
            return "ok"

        return await call()

    assert hf.testing.run(main) == "ok"
    assert began == [0, 3, 6]


def test_the_deadline_around_it_is_final_and_named() -> None:
    async def main(clock: Any) -> tuple[str, float]:
        policy = hf.Policy(hf.Deadline(3), hf.Retry(on=hf.transient, budget=None), hf.Timeout(2.9))
        with pytest.raises(hf.DeadlineExceeded) as caught, hf.deadline(1):
            await policy.acall(asyncio.sleep, 100)
        return type(caught.value).__name__, clock.now()

    assert hf.testing.run(main) == ("DeadlineExceeded", 1)


def test_a_cancellation_from_outside_is_not_a_timeout() -> None:
    async def main(clock: Any) -> bool:
        task = asyncio.ensure_future(hf.Policy(hf.Timeout(50)).acall(asyncio.sleep, 100))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert hf.testing.run(main)


def test_a_sync_attempt_sees_less_time_and_a_late_success_is_returned() -> None:
    clock = hf.testing.FakeClock()
    seen: list[float | None] = []

    def call() -> str:
        seen.append(hf.remaining())
        clock.advance(5)
        return "late"

    assert hf.Policy(hf.Timeout(2), clock=clock).call(call) == "late"
    assert seen == [2]
    assert hf.remaining() is None


def test_the_smaller_time_holds() -> None:
    clock = hf.testing.FakeClock()
    policy = hf.Policy(hf.Deadline(3), hf.Timeout(1), clock=clock)
    assert policy.call(hf.remaining) == 1
    nested = hf.Policy(hf.Timeout(1), clock=clock)
    assert hf.Policy(hf.Timeout(0.5), clock=clock).call(lambda: nested.call(hf.remaining)) == 0.5


def test_an_error_passes_through() -> None:
    error = Boom()

    def call() -> None:
        raise error

    for thread in (False, True):
        with pytest.raises(Boom) as caught:
            hf.Policy(hf.Timeout(10, thread=thread)).call(call)
        assert caught.value is error


def test_in_a_thread_the_caller_is_freed_and_the_scope_cancelled() -> None:
    noticed, go_on = threading.Event(), threading.Event()
    checked = hf.Policy(hf.Retry(on=Boom, attempts=1))

    def hang() -> None:
        assert go_on.wait(10)
        try:
            checked.call(lambda: None)
        except hf.Cancelled:
            noticed.set()

    try:
        with pytest.raises(hf.AttemptTimeout):
            hf.Policy(hf.Timeout(0.02, thread=True)).call(hang)
    finally:
        go_on.set()
    assert noticed.wait(10)


def test_in_a_thread_a_success_is_returned_with_its_context() -> None:
    with hf.deadline(50):
        left = hf.Policy(hf.Timeout(20, thread=True)).call(hf.remaining)
    assert left is not None
    assert 0 < left <= 20


def test_the_threads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast._drive import threads

    monkeypatch.setattr(threads, "LIMIT", 3)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    go_on = threading.Event()
    policy = hf.Policy(hf.Timeout(0.01, thread=True))
    try:
        for _ in range(3):
            with pytest.raises(hf.AttemptTimeout):
                policy.call(go_on.wait, 10)
        with pytest.raises(hf.BulkheadFull):
            policy.call(go_on.wait, 10)
    finally:
        go_on.set()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, None, "1"], ids=repr)
def test_bad_seconds_are_refused_by_name(seconds: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"Timeout.*seconds"):
        hf.Timeout(seconds)
