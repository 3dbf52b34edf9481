"""`sleep` and `sleep_async`: cancellable, and bounded by the ambient deadline."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.support.polling import eventually

import stormproof as sp


def test_sleep_uses_the_ambient_clock() -> None:
    with sp.testing.instant() as clock:
        sp.sleep(3)
        asyncio.run(sp.sleep_async(4))
        assert clock.sleeps == [3.0, 4.0]


def test_sleep_past_the_deadline_fails_at_once() -> None:
    with sp.testing.instant() as clock:
        with sp.deadline(2, "request"):
            with pytest.raises(
                sp.DeadlineExceeded, match="a sleep of 3 s would end past the deadline"
            ) as caught:
                sp.sleep(3)
            assert caught.value.scope == "request"
            sp.sleep(1)
        assert clock.sleeps == [1.0]


def test_async_sleep_past_the_deadline_fails_at_once() -> None:
    async def main(clock: sp.testing.VirtualClock) -> list[float]:
        with sp.deadline(2):
            with pytest.raises(sp.DeadlineExceeded):
                await sp.sleep_async(3)
            await sp.sleep_async(1)
        return clock.sleeps

    assert sp.testing.run(main) == [1.0]


def test_sleep_in_a_scope_that_has_ended_raises() -> None:
    with sp.deadline(None) as scope:
        scope.cancel()
        with pytest.raises(sp.Cancelled):
            sp.sleep(0)


def test_cancelling_the_scope_wakes_a_sleeping_thread() -> None:
    scope, outcome = sp.deadline(None), []
    asleep = threading.Event()

    def work() -> None:
        try:
            with scope:
                asleep.set()
                sp.sleep(60)
        except sp.Cancelled:
            outcome.append("cancelled")

    thread = threading.Thread(target=work)
    thread.start()
    asleep.wait()
    scope.cancel()
    eventually(lambda: outcome == ["cancelled"])
    thread.join()


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "1", None])
def test_bad_seconds_are_refused_by_name(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="sleep: seconds must be"):
        sp.sleep(value)
