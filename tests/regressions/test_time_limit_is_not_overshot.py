"""stamina: ``timeout=0.5`` took 1.23 s. tenacity: ``stop_after_delay(0.1)`` took 0.5 s: both look at the
clock before a sleep and not at what the sleep will add.

Stormproof: no sleep starts that would end past the limit, and an async attempt is cut off at it.
"""

from __future__ import annotations

import pytest
from tests.support.loop_clock import LoopClock
from tests.support.loops import each_loop
from tests.support.scripted import Boom, each_way, every_way, retry, takes

import stormproof as sp

pytestmark = pytest.mark.usefixtures("watchdog")

SCHEDULES = [
    sp.Constant(0.4),
    sp.Constant(0.07),
    sp.Exponential(0.1, cap=5),
    sp.Exponential(0.1, cap=5, jitter="none"),
    sp.Decorrelated(0.05, cap=2),
    sp.Fibonacci(0.05, cap=5, jitter=sp.Symmetric(0.5)),
    sp.Schedule([0.01, 0.6]),
]
each_schedule = pytest.mark.parametrize("backoff", SCHEDULES, ids=repr)


@every_way
@each_schedule
def test_waits_together_fit_into_within(play, backoff):
    for seed in range(5):
        played = play(retry(attempts=None, within=0.5, backoff=backoff, rng=seed), Boom, ...)
        played.stopped_for("within")
        assert sum(played.sleeps) <= 0.5 + 1e-9


@each_way
@each_schedule
def test_slow_attempts_count_against_the_limit(play, backoff):
    for seed in range(5):
        unending = sp.Retry(Boom, attempts=None, within=None, backoff=backoff, budget=None)
        policy = sp.Policy(sp.Deadline(0.5), unending, rng=seed)
        played = play(policy, takes(0.15, Boom), ...).raised(sp.DeadlineExceeded).caused_by_the_last_error()
        begun = played.times[-1]
        assert begun < 0.5, "an attempt began after the deadline"
        assert begun + 0.15 == pytest.approx(0.15 * played.calls + sum(played.sleeps))


@every_way
def test_whole_time_is_used_on_request(play):
    policy = retry(attempts=None, within=0.5, backoff=sp.Constant(0.4), late="clip")
    played = play(policy, Boom, Boom).stopped_for("within").slept(0.4, 0.1)
    assert played.calls == 2


@each_loop
@pytest.mark.parametrize("limit", [0.1, 0.5])
def test_attempt_that_hangs_is_cut_off(loop, limit):
    @sp.Policy(sp.Deadline(limit), sp.Retry(on=Boom), name="job", clock=LoopClock(loop))
    async def call():
        await loop.sleep(1.23)

    async def scenario():
        with pytest.raises(sp.DeadlineExceeded) as caught:
            await call()
        assert caught.value.scope == "job"
        assert loop.time() == pytest.approx(limit)

    loop.run(scenario)
