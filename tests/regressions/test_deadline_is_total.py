"""tenacity#423: users asked for a strict limit on the whole call: attempts, waits and all.

Stormproof: ``Deadline`` counts from the start of the call and ``deadline()`` is ambient: it bounds every
loop,
wait and attempt inside, nested ones take the smaller, and no attempt starts after it.
"""

from __future__ import annotations

import pytest
from tests.support.loop_clock import LoopClock
from tests.support.loops import each_loop
from tests.support.scripted import Boom, each_way, every_way, retry, takes

import stormproof as sp

pytestmark = pytest.mark.usefixtures("watchdog")

ENDLESS = sp.Retry(Boom, attempts=None, within=None, backoff=sp.Constant(1), budget=None)


@each_way
def test_deadline_bounds_attempts_and_waits_together(play):
    policy = sp.Policy(sp.Deadline(10), ENDLESS, name="job")
    played = play(policy, takes(2, Boom), ...).raised(sp.DeadlineExceeded).caused_by_the_last_error()
    # An attempt of 2 s and a wait of 1 s: begun at 0, 3, 6 and 9. After the last there is no time to wait.
    assert played.times == pytest.approx([0, 3, 6, 9])
    played.slept(1, 1, 1)
    assert played.error.scope == "job"


@every_way
def test_ambient_deadline_bounds_attempts_and_waits(play):
    policy = retry(attempts=None, within=1000, backoff=sp.Constant(1))
    played = play(policy, takes(2, Boom), ..., inside=lambda: sp.deadline(10, "request"))
    played.raised(sp.DeadlineExceeded).caused_by_the_last_error().slept(1, 1, 1)
    assert played.times == pytest.approx([0, 3, 6, 9])
    assert played.error.scope == "request"


@each_way
def test_smaller_of_policy_deadline_and_scope_counts(play):
    policy = sp.Policy(sp.Deadline(10), ENDLESS, name="job")
    played = play(policy, takes(2, Boom), ..., inside=lambda: sp.deadline(5, "request"))
    assert played.times == pytest.approx([0, 3])
    assert played.raised(sp.DeadlineExceeded).slept(1).error.scope == "request"
    played = play(policy, takes(2, Boom), ..., inside=lambda: sp.deadline(50, "request"))
    assert played.raised(sp.DeadlineExceeded).error.scope == "job"


def test_ambient_deadline_spans_calls():
    with sp.testing.instant() as clock, sp.deadline(10):
        retry().call(lambda: clock.advance(6))
        assert sp.remaining() == pytest.approx(4)
        retry().call(lambda: clock.advance(5))  # late, but it cannot be interrupted and did succeed
        with pytest.raises(sp.DeadlineExceeded):
            retry().call(lambda: pytest.fail("an attempt after the deadline"))


@every_way
def test_late_success_in_a_thread_is_still_a_success(play):
    play(retry(), Boom, takes(100, "ok"), inside=lambda: sp.deadline(10)).returned("ok")


@each_loop
def test_async_attempts_are_cut_off(loop):
    calls = []

    @sp.Policy(sp.Deadline(12), ENDLESS, clock=LoopClock(loop))
    async def call():
        calls.append(loop.time())
        await loop.sleep(4)
        raise Boom

    async def scenario():
        with pytest.raises(sp.DeadlineExceeded) as caught:
            await call()
        assert loop.time() == pytest.approx(12)
        assert isinstance(caught.value.__cause__, Boom), "the cause is the last real failure"

    loop.run(scenario)
    assert calls == pytest.approx([0, 5, 10])


@each_loop
def test_ambient_deadline_bounds_an_async_call(loop):
    clock = LoopClock(loop)

    @retry(attempts=None, within=1000, backoff=sp.Constant(1), clock=clock)
    async def call():
        await loop.sleep(60)

    async def scenario():
        with pytest.raises(sp.DeadlineExceeded) as caught:
            async with sp.deadline(10, "request", clock=clock):
                await call()
        assert caught.value.scope == "request"
        assert loop.time() == pytest.approx(10)
        # The task itself was not cancelled: it goes on.
        await loop.sleep(1)
        assert sp.remaining() is None

    loop.run(scenario)


def test_deadline_exceeded_is_a_timeout_error():
    with pytest.raises(TimeoutError), sp.deadline(0):
        retry().call(lambda: None)
