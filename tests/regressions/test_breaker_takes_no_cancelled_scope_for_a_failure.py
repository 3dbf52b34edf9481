"""A call that `scope.cancel()` ended inside a breaker was counted as a failure of the backend.

A task that its event loop cancels never was; `Cancelled` says the same of a thread.
"""

from __future__ import annotations

import pytest
from tests.support.loops import Loop, each_loop
from tests.support.scripted import Boom

import stormproof as sp


def test_wait_that_was_cancelled_opens_nothing() -> None:
    breaker = sp.Breaker(consecutive=1)
    limiter = sp.Limiter(1, 1)
    limiter.allow()
    call = sp.Policy(breaker, sp.RateLimit(limiter, max_wait=None))(lambda: pytest.fail("it was called"))
    with sp.testing.instant() as clock, pytest.raises(sp.Cancelled), sp.deadline(None) as scope:
        clock.sleep = lambda seconds: scope.cancel()  # type: ignore[method-assign]
        call()
    assert breaker.state == "closed"
    assert (breaker.counts.failures, breaker.counts.excluded) == (0, 1)


def test_cancelled_retry_inside_does_not_count_as_a_failure() -> None:
    breaker = sp.Breaker(consecutive=1)
    policy = sp.Policy(breaker, sp.Retry(on=Boom, backoff=sp.Constant(1), budget=None))

    def callee() -> None:
        scope.cancel()
        raise Boom

    with sp.testing.instant(), pytest.raises(sp.Cancelled), sp.deadline(None) as scope:
        policy.call(callee)
    assert (breaker.state, breaker.counts.excluded) == ("closed", 1)


@each_loop
def test_cancelled_probe_frees_its_place(loop: Loop) -> None:
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=30, probe_timeout=None, clock=clock)
    breaker.admit().failure()
    clock.advance(31)

    async def cancelled() -> None:
        raise sp.Cancelled("by the callee's own scope")

    with pytest.raises(sp.Cancelled):
        loop.run(sp.Policy(breaker).acall, cancelled)
    assert breaker.state == "half_open"
    breaker.admit().success()
    assert breaker.state == "closed"
