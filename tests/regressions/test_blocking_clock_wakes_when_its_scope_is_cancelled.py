"""A thread that slept on `FakeClock(blocking=True)` slept on when its scope was cancelled."""

from __future__ import annotations

import threading
from typing import Any

from tests.support.scripted import Boom

import stormproof as sp


def test_cancelled_scope_wakes_a_thread_that_sleeps_on_a_blocking_clock() -> None:
    clock = sp.testing.FakeClock(blocking=True)
    scope = sp.deadline(100, clock=clock)
    errors: list[Any] = []

    def fail() -> None:
        raise Boom

    def call() -> None:
        try:
            with scope:
                sp.retry(on=Boom, clock=clock).call(fail)
        except sp.StormproofError as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    clock.wait_for_sleepers()
    scope.cancel()
    thread.join(10)
    assert [type(error) for error in errors] == [sp.Cancelled]
    assert isinstance(errors[0].__cause__, Boom)
    assert clock.sleeping == 0
