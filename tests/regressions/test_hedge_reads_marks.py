"""A hedge judged RetryAfter and Permanent by their own class, so `on` matched what it should not, or missed.

Stormproof: RetryAfter is judged by its cause, Permanent ends the call; the caller gets the error inside.
"""

from __future__ import annotations

import pytest
from tests.support.loops import each_loop

import stormproof as sp

each_rule = pytest.mark.parametrize("on", [Exception, OSError, sp.transient], ids=["all", "type", "rule"])


class Callee:
    def __init__(self, error):
        self.error, self.calls = error, 0

    def fail(self):
        self.calls += 1
        raise self.error


def sync_hedged(on, callee):
    return sp.Policy(sp.Hedge(after=60, idempotent=True, on=on)).call(callee.fail)


def async_hedged(loop, on, callee):
    async def fail():
        callee.fail()

    return loop.run(sp.Policy(sp.Hedge(after=60, idempotent=True, on=on)).acall, fail)


@each_rule
def test_permanent_is_fatal_to_a_hedge(on):
    inside = ConnectionError("x")
    callee = Callee(sp.Permanent(inside))
    with pytest.raises(ConnectionError) as caught:
        sync_hedged(on, callee)
    assert caught.value is inside and callee.calls == 1


@each_rule
def test_retry_after_is_hedged_as_the_error_inside(on):
    inside = ConnectionError("x")
    callee = Callee(sp.RetryAfter(0, inside))
    with pytest.raises(ConnectionError) as caught:
        sync_hedged(on, callee)
    assert caught.value is inside and callee.calls == 2


def test_retry_after_around_an_unmatched_error_is_not_hedged():
    inside = KeyError("x")
    callee = Callee(sp.RetryAfter(0, inside))
    with pytest.raises(KeyError) as caught:
        sync_hedged(OSError, callee)
    assert caught.value is inside and callee.calls == 1


@each_loop
@each_rule
def test_marks_are_read_in_async_hedges(loop, on):
    callee = Callee(sp.Permanent(ConnectionError("x")))
    with pytest.raises(ConnectionError):
        async_hedged(loop, on, callee)
    assert callee.calls == 1
    callee = Callee(sp.RetryAfter(0, ConnectionError("x")))
    with pytest.raises(ConnectionError):
        async_hedged(loop, on, callee)
    assert callee.calls == 2
