"""Clocks that jump: back an hour, ten years ahead, or on while a process was suspended.

Nothing may wait for the lost time, hand out more than it holds, or speak of negative durations.
"""

from __future__ import annotations

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom, every_way, retry, takes

import stormproof as sp

pytestmark = pytest.mark.proves("fault clock-jumps")

HOUR, TEN_YEARS = 3600.0, 10 * 365 * 86_400.0
JUMPS = [-HOUR, -1e-6, -TEN_YEARS, HOUR, TEN_YEARS]
each_jump = pytest.mark.parametrize("jump", JUMPS, ids=lambda jump: f"{jump:+g}s")


# Retrying


@every_way
@each_jump
def test_jump_in_an_attempt_counts_against_within(play, jump):
    policy = retry(attempts=4, within=10, backoff=sp.Constant(1))
    played = play(policy, Boom, takes(jump, Boom), Boom, "ok")
    if jump > 0:
        played.stopped_for("within").made(2).slept(1)
    else:
        played.returned("ok").made(4).slept(1, 1, 1)


@every_way
@each_jump
@pytest.mark.parametrize("late", ["stop", "clip"])
def test_clock_jump_reports_no_negative_times(play, jump, late):
    policy = retry(attempts=3, within=10, backoff=sp.Constant(1), late=late)
    played = play(policy, Boom, takes(jump, Boom), takes(jump, Boom))
    assert all(wait >= 0 for wait in played.sleeps)
    assert played.events[-1].elapsed >= 0
    notes = [*getattr(played.error, "__notes__", []), str(played.error)]
    assert not any(" in -" in line for line in notes), notes


@every_way
@each_jump
def test_success_after_a_jump_has_no_negative_elapsed(play, jump):
    played = play(retry(within=None), Boom, takes(jump, "ok")).returned("ok").slept(1)
    assert played.events[-1].elapsed >= 0


class Suspended(sp.testing.FakeClock):
    """Each sleep takes an hour more than asked for: the lid was closed."""

    def sleep(self, seconds):
        super().sleep(seconds)
        self.advance(HOUR)


def test_sleep_that_overruns_the_deadline_is_followed_by_no_attempt():
    clock = Suspended()
    calls = []

    def call():
        calls.append(clock.now())
        raise Boom

    with sp.deadline(60, "request", clock=clock), pytest.raises(sp.DeadlineExceeded) as caught:
        retry(clock=clock).call(call)
    assert calls == [0] and clock.sleeps == [1]
    assert isinstance(caught.value.__cause__, Boom) and caught.value.scope == "request"


@each_loop
def test_async_call_after_a_suspension_makes_no_further_attempt(loop):
    clock = Suspended()
    calls = []

    async def call():
        calls.append(clock.now())
        raise Boom

    async def scenario():
        with sp.deadline(60, clock=clock), pytest.raises(sp.DeadlineExceeded):
            await retry(clock=clock).acall(call)

    loop.run(scenario)
    assert calls == [0]


# Deadlines


@pytest.mark.parametrize("jump", [-HOUR, -TEN_YEARS])
def test_deadline_remaining_never_exceeds_its_duration(jump):
    clock = sp.testing.FakeClock()
    with sp.deadline(5, clock=clock) as scope:
        clock.advance(jump)
        assert 0 < sp.remaining() <= 5
        assert 0 < scope.own_remaining() <= 5
        clock.advance(-jump + 6)
        assert sp.remaining() == 0


@pytest.mark.parametrize("jump", [HOUR, TEN_YEARS])
def test_deadline_jumped_over_has_ended(jump):
    clock = sp.testing.FakeClock()
    with sp.deadline(5, clock=clock):
        clock.advance(jump)
        assert sp.remaining() == 0
        with pytest.raises(sp.DeadlineExceeded):
            retry(clock=clock).call(pytest.fail)


# Budgets: what they hold stays in [0, cap], and they go on earning after the jump.

BUDGETS = {
    "Budget": (lambda clock: sp.Budget(ratio=0.5, burst=5, window=10, clock=clock), 5),
    "WindowBudget": (lambda clock: sp.WindowBudget(ratio=0.5, floor=0.5, window=10, clock=clock), 5),
    "QuotaBudget": (
        lambda clock: sp.QuotaBudget(5, retry_cost=1, timeout_cost=1, success_credit=1, clock=clock),
        5,
    ),
    "ThrottleBudget": (lambda clock: sp.ThrottleBudget(5, token_ratio=1, clock=clock), 5),
    "RateBudget": (lambda clock: sp.RateBudget(0.5, 5, clock=clock), 5),
}
each_budget = pytest.mark.parametrize("name", BUDGETS)


def drain(budget, most=100):
    paid = 0
    while budget.withdraw():
        budget.failure()
        paid += 1
        assert paid < most, "it pays for ever"
    return paid


@pytest.mark.proves("invariant 15")
@each_budget
@each_jump
def test_jump_pays_no_more_than_a_full_budget(name, jump):
    make, full = BUDGETS[name]
    clock = sp.testing.FakeClock(start=1e9)
    budget = make(clock)
    drain(budget)
    clock.advance(jump)
    assert 0 <= budget.balance <= full
    assert drain(budget) <= full
    assert budget.balance >= 0


@each_budget
@each_jump
def test_budget_earns_again_after_the_jump(name, jump):
    make, _ = BUDGETS[name]
    clock = sp.testing.FakeClock(start=1e9)
    budget = make(clock)
    drain(budget)
    clock.advance(jump)
    drain(budget)
    for _ in range(10):
        clock.advance(1.5)
        budget.started()
        budget.success()
    assert budget.withdraw() > 0, "nothing was earned in 15 s after the jump"


@each_jump
def test_budget_earned_before_the_jump_does_not_outlive_its_window(jump):
    clock = sp.testing.FakeClock(start=1e9)
    budget = sp.Budget(ratio=1, burst=0, window=10, clock=clock)
    for _ in range(100):
        budget.success()
    assert budget.withdraw() == 1
    clock.advance(jump)
    assert budget.balance == pytest.approx(0 if jump > 10 else 99)
    # A retry notices the jump; a reading alone changes nothing.
    assert bool(budget.withdraw()) == (jump <= 10)
    clock.advance(20)
    assert budget.balance == pytest.approx(0)


# The limiter: an extra wait of at most one window (burst / rate), extra admissions of at most the burst.


@pytest.mark.proves("invariant 15")
@each_jump
@pytest.mark.parametrize("asks", ["keeps asking", "asks once at the end"])
def test_limiter_admits_again_within_one_window(jump, asks):
    clock = sp.testing.FakeClock(start=1e9)
    limiter = sp.Limiter(10, 5, clock=clock)
    assert [limiter.allow() for _ in range(6)] == [True] * 5 + [False]
    clock.advance(jump)
    admitted = 0
    for _ in range(5):  # one window: 5 tokens at 10 a second
        clock.advance(0.1)
        admitted += asks == "keeps asking" and limiter.allow()
    admitted += limiter.allow()  # the first look at a clock set back only notices that it was
    clock.advance(0.5)
    admitted += limiter.allow()
    assert 1 <= admitted <= 11


@pytest.mark.proves("invariant 15")
@each_jump
def test_limiter_waits_no_longer_than_one_window_more(jump):
    clock = sp.testing.FakeClock(start=1e9)
    limiter = sp.Limiter(10, 5, clock=clock)
    assert limiter.allow(5)
    clock.advance(jump)
    limiter.wait(5)
    assert sum(clock.sleeps) <= 0.5 + 0.5 + 1e-6


@pytest.mark.proves("invariant 15")
@each_jump
def test_limiter_admits_no_more_than_a_burst_extra(jump):
    clock = sp.testing.FakeClock(start=1e9)
    limiter = sp.Limiter(10, 5, clock=clock)
    admitted = 0
    for step in range(100):
        clock.advance(0.1 if step != 50 else jump)
        admitted += sum(limiter.allow() for _ in range(20))
    assert 5 + 99 - 5 <= admitted <= 5 + 99 + 5 + 1


@pytest.mark.parametrize("start", [-1e9, 0.0, 1e-9, 1e15])
@each_budget
def test_clock_may_start_at_any_time(name, start):
    make, full = BUDGETS[name]
    clock = sp.testing.FakeClock(start=start)
    budget = make(clock)
    assert budget.balance == full
    assert 0 < drain(budget) <= full
    limiter = sp.Limiter(10, 5, clock=clock)
    assert [limiter.allow() for _ in range(6)] == [True] * 5 + [False]
