"""A thread that waited for a limiter of a fleet went round and round when its scope was cancelled, until the
tokens came; and when the clock was set back it waited for as long as that.

Stormproof: a cancelled wait ends with the nap it is in, and none is longer than was foreseen at its start.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import stormproof as sp
from stormproof._strategies.limiter.rules.leases import LeaseBucket


class HookedClock(sp.testing.FakeClock):
    """Something happens in its second sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.hook: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if len(self.sleeps) == 2:
            self.hook()


def leased(clock: HookedClock) -> sp.Limiter:
    """A limiter on a lease of which nothing is left, for a store that never answers."""
    limiter = sp.Limiter(1, 5, clock=clock)
    limiter.swap_bucket(LeaseBucket(1.0, 5, 1, 0, clock.now()))
    return limiter


def test_cancelled_scope_ends_the_wait():
    clock = HookedClock()
    limiter = leased(clock)
    with sp.deadline(None) as scope:
        clock.hook = scope.cancel
        with pytest.raises(sp.Cancelled):
            limiter.wait()
    assert len(clock.sleeps) == 2


def test_cancelled_scope_ends_a_rate_limited_call():
    clock = HookedClock()
    policy = sp.Policy(sp.RateLimit(leased(clock), max_wait=None), clock=clock)
    with sp.deadline(None) as scope:
        clock.hook = scope.cancel
        with pytest.raises(sp.Cancelled):
            policy.call(int)
    assert len(clock.sleeps) == 2


def test_clock_set_back_makes_no_wait_longer():
    usual = HookedClock()
    leased(usual).wait()
    clock = HookedClock()
    limiter = leased(clock)
    clock.hook = lambda: clock.advance(-3600)
    limiter.wait()
    assert sum(clock.sleeps) <= sum(usual.sleeps) + 1e-6


def test_wait_step_never_ends_past_the_deadline():
    clock = HookedClock()
    limiter = leased(clock)
    limiter.reserve(4)
    with sp.deadline(1.03, clock=clock) as scope:
        reservation = limiter.enqueue(1, None)
        assert scope.limit is not None and reservation.delay > scope.limit
        for nap, _ in reservation.pauses():
            clock.sleep(nap)
            assert clock.now() <= scope.limit + 1e-9
            if scope.ended():
                break
    assert clock.now() == pytest.approx(1.03)
