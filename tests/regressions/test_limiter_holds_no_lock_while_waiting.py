"""The lock was held while one caller slept for a token: all others, even those that only asked,
stood still until then.

Stormproof: while one waits, others ask, reserve, and are refused, at once.
"""

from __future__ import annotations

import threading

import pytest

import stormproof as sp


@pytest.mark.usefixtures("watchdog")
@pytest.mark.parametrize("make", [sp.Limiter, sp.Pacer], ids=["limiter", "pacer"])
def test_sleeping_waiter_does_not_block_others(make: type[sp.Limiter]) -> None:
    asleep, wake = threading.Event(), threading.Event()

    class Stopped(sp.testing.FakeClock):
        def sleep(self, seconds: float) -> None:
            asleep.set()
            wake.wait()

    limiter = make(1, 1, clock=Stopped())
    limiter.allow()
    waiter = threading.Thread(target=limiter.wait)
    waiter.start()
    try:
        assert asleep.wait(10)
        # Each of these would hang here if the sleeper held the lock.
        assert not limiter.allow()
        assert limiter.tokens() == -1
        assert limiter.reserve().delay == 2
        limiter.set_rate(2)
    finally:
        wake.set()
        waiter.join()
