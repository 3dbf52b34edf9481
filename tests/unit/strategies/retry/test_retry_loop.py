"""The loop, in its order: nine steps, each with its own tests, each test in every way of calling.

Virtual time throughout. The script (`tests.support.scripted`) is the callee; `retry()` waits 1, 2, 4, ... s.
"""

from __future__ import annotations

import email.utils
import math
import os
import re
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.support.http_errors import http_error
from tests.support.scripted import (
    SYNC,
    Bang,
    Boom,
    BudgetSpy,
    Played,
    asks,
    does,
    each_way,
    every_way,
    retry,
    takes,
)

import stormproof as sp

# 1. Deadline already passed or cancelled: no attempt at all.


@every_way
@pytest.mark.proves("invariant 1")
def test_no_attempt_when_the_deadline_has_passed(play: Any) -> None:
    seen = play(retry(), "never", inside=lambda: sp.deadline(0)).raised(sp.DeadlineExceeded).made(0)
    assert seen.sleeps == []
    assert isinstance(seen.error, TimeoutError)


@every_way
def test_no_attempt_when_the_scope_is_cancelled(play: Any) -> None:
    def cancelled() -> Any:
        scope = sp.deadline(None)
        scope.cancel()
        return scope

    play(retry(), "never", inside=cancelled).raised(sp.Cancelled).made(0)


@each_way
@pytest.mark.proves("invariant 1")
def test_deadline_of_zero_in_the_policy_makes_no_attempt(play: Any) -> None:
    policy = sp.Policy(sp.Deadline(0), sp.Retry(on=Boom))
    play(policy, "never").raised(sp.DeadlineExceeded).made(0)


@every_way
def test_no_further_attempt_when_the_deadline_passed_in_the_attempt(play: Any) -> None:
    """The failing attempt used up all the time: not even a wait of 0 may follow."""
    policy = retry(backoff=sp.Constant(0))
    seen = play(policy, takes(5, Boom), ..., inside=lambda: sp.deadline(5))
    seen.raised(sp.DeadlineExceeded).made(1).slept().caused_by_the_last_error()


@every_way
def test_no_further_attempt_when_cancelled_in_the_attempt(play: Any) -> None:
    scopes: list[sp.Scope] = []

    def scope() -> sp.Scope:
        scopes.append(sp.deadline(None))
        return scopes[0]

    def cancel_and_fail() -> None:
        scopes[0].cancel()
        raise Boom

    seen = play(retry(), does(cancel_and_fail), "never", inside=scope)
    seen.raised(sp.Cancelled).made(1)
    assert isinstance(seen.error.__cause__, Boom)


# 2. `attempts` counts the first one.


@every_way
@pytest.mark.parametrize("attempts", [1, 2, 3, 4, 7])
@pytest.mark.proves("invariant 1")
def test_attempts_counts_the_first_call(play: Any, attempts: int) -> None:
    play(retry(attempts=attempts), Boom, ...).raised_the_last_error().made(attempts)


@every_way
def test_four_attempts_are_the_default(play: Any) -> None:
    play(sp.retry(on=Boom), Boom, ...).raised_the_last_error().made(4)


@every_way
def test_first_attempt_does_not_wait(play: Any) -> None:
    play(retry(), "ok").returned("ok").made(1).slept()


@every_way
def test_before_attempt_runs_before_every_attempt(play: Any) -> None:
    log: list[Any] = []
    policy = retry(before_attempt=lambda attempt: log.append((attempt.number, type(attempt.last_error))))
    play(policy, does(lambda: log.append("call 1")), does(lambda: log.append("call 2")))
    assert log == [(1, type(None)), "call 1"]
    log.clear()
    play(policy, Boom, does(lambda: log.append("call 2"))).made(2)
    assert log == [(1, type(None)), (2, Boom), "call 2"]


def test_async_before_attempt_is_awaited() -> None:
    import asyncio

    log: list[str] = []

    async def before(attempt: sp.Attempt) -> None:
        await asyncio.sleep(0)
        log.append(f"before {attempt.number}")

    @retry(before_attempt=before)
    async def callee() -> None:
        log.append("call")
        if len(log) < 4:
            raise Boom

    with sp.testing.instant():
        asyncio.run(callee())
    assert log == ["before 1", "call", "before 2", "call"]


def test_sync_call_refuses_an_async_before_attempt() -> None:
    """With a clear error, and without a warning about a coroutine that was never awaited."""

    async def before(attempt: sp.Attempt) -> None: ...

    with pytest.raises(TypeError, match="before_attempt"):
        retry(before_attempt=before).call(pytest.fail, "called")


@every_way
def test_error_of_before_attempt_is_raised_without_a_call(play: Any) -> None:
    def before(attempt: sp.Attempt) -> None:
        raise Boom("from the hook")

    seen = play(retry(before_attempt=before), "never").raised(Boom).made(0)
    assert sp.attempt() is None
    assert str(seen.error) == "from the hook"


@every_way
def test_attempt_is_visible_to_the_function_it_runs(play: Any) -> None:
    seen: list[Any] = []

    def look(fail: bool) -> str:
        attempt = sp.attempt()
        assert attempt is not None
        seen.append((attempt.number, type(attempt.last_error), attempt.remaining))
        if fail:
            raise Boom
        return "ok"

    policy = retry(name="lookup")
    play(policy, does(lambda: look(True)), does(lambda: look(False)), inside=lambda: sp.deadline(60))
    assert seen == [(1, type(None), 60), (2, Boom, 59)]
    assert sp.attempt() is None


@every_way
def test_running_attempt_names_the_operation_from_the_first_call_on(play: Any) -> None:
    names: list[str] = []

    def look(fail: bool) -> None:
        names.append(sp.attempt().operation)  # type: ignore[union-attr]
        if fail:
            raise Boom

    play(retry(), does(lambda: look(True)), does(lambda: look(False)))
    assert len(set(names)) == 1, names


# 3. Success: return it; the budget earns.


@every_way
@pytest.mark.parametrize("value", [None, 0, False, "", (), Boom])
def test_any_value_is_a_success(play: Any, value: Any) -> None:
    # An exception type as a value: wrapped, because the script would raise it.
    play(retry(), does(lambda: value)).returned(value).made(1)


@every_way
def test_first_try_success_earns_with_nothing_spent(play: Any) -> None:
    budget = BudgetSpy()
    play(retry(budget=budget), "ok")
    assert budget.calls == ["started", ("success", None)]


@every_way
def test_success_after_retries_earns_and_reports_the_last_cost(play: Any) -> None:
    budget = BudgetSpy(price=7.0)
    play(retry(budget=budget), Boom, Boom, "ok").returned("ok")
    tried_again = [("failure", False), ("withdraw", False)]
    assert budget.calls == ["started", *tried_again, *tried_again, ("success", 7.0)]


@every_way
def test_success_reads_no_clock(play: Any) -> None:
    reads: list[str] = []

    class Watched(sp.testing.FakeClock):
        def now(self) -> float:
            reads.append("now")
            return super().now()

    policies = [retry(budget=budget, within=5, clock=Watched()) for budget in (sp.Budget(), None)]
    policies.append(sp.retry(on=Boom, clock=Watched()))
    for policy in policies:
        reads.clear()
        play(policy, "ok").returned("ok")
        assert reads == []
    # The same clock is read once something fails, so the list is not empty for want of a reader.
    play(policies[0], Boom, "ok")
    assert reads


@every_way
def test_success_that_comes_late_is_still_returned(play: Any) -> None:
    """Sync code cannot be interrupted, and virtual time interrupts nothing."""
    play(retry(), takes(100, "late"), inside=lambda: sp.deadline(5)).returned("late").made(1)


# 4. Classify the failure.


@every_way
def test_fatal_error_is_raised_at_once(play: Any) -> None:
    seen = play(retry(budget=(budget := BudgetSpy())), Bang, "never")
    seen.raised_the_last_error().made(1).slept()
    assert budget.calls == ["started"] or budget.calls == []
    assert seen.notes == []


@every_way
def test_fatal_error_after_retries_is_noted(play: Any) -> None:
    seen = play(retry(), Boom, Bang, "never").raised_the_last_error().made(2)
    assert len(seen.notes) == 1
    assert "2 attempts" in seen.notes[0]


@every_way
@pytest.mark.parametrize("on", [Boom, ConnectionError, (KeyError, Boom), lambda e: isinstance(e, Boom)])
def test_on_is_a_type_a_tuple_or_a_callable(play: Any, on: Any) -> None:
    play(retry(on=on), Boom, "ok").returned("ok").made(2)
    play(retry(on=on), ValueError, "never").raised(ValueError).made(1)


@every_way
def test_verdict_from_on_decides(play: Any) -> None:
    play(retry(on=lambda e: sp.Verdict(True, after=9)), Bang, "ok").returned("ok")
    play(retry(on=lambda e: sp.Verdict(False)), Bang, "never").raised(Bang).made(1)


@every_way
def test_answer_of_on_counts_by_its_truth(play: Any) -> None:
    play(retry(on=lambda e: 1), Boom, "ok").returned("ok").made(2)
    play(retry(on=lambda e: re.match("no such", str(e))), Boom, "never").raised(Boom).made(1)


@every_way
def test_error_of_on_keeps_the_callee_s_error_in_its_context(play: Any) -> None:
    def broken(error: Exception) -> bool:
        raise ZeroDivisionError

    seen = play(retry(on=broken), Boom, "never").raised(ZeroDivisionError).made(1)
    assert seen.last in (seen.error.__cause__, seen.error.__context__)


@every_way
def test_permanent_raises_the_error_itself(play: Any) -> None:
    error = Boom("as it is")
    seen = play(retry(budget=(budget := BudgetSpy())), sp.Permanent(error), "never").made(1).slept()
    assert seen.error is error
    assert ("failure", False) not in budget.calls


@every_way
def test_permanent_wins_over_on(play: Any) -> None:
    error = Bang()
    for on in (sp.Permanent, Exception, lambda e: True):
        seen = play(retry(on=on), sp.Permanent(error), "never").made(1)
        assert seen.error is error


@every_way
def test_error_of_permanent_has_a_traceback_to_where_it_was_raised(play: Any) -> None:
    def deep() -> None:
        raise sp.Permanent(Bang("never raised itself"))

    seen = play(retry(), does(deep))
    assert "deep" in [frame.name for frame in traceback.extract_tb(seen.error.__traceback__)]


@every_way
def test_retry_after_is_classified_by_its_cause(play: Any) -> None:
    play(retry(rng=lambda: 0.0), asks(3), "ok").returned("ok").slept(3)
    fatal = Bang()
    seen = play(retry(), sp.RetryAfter(3, fatal), "never").made(1)
    assert seen.error is fatal


@every_way
def test_cause_of_retry_after_surfaces(play: Any) -> None:
    causes = [Boom("first"), Boom("last")]
    seen = play(retry(attempts=2), *(sp.RetryAfter(1, cause) for cause in causes)).made(2)
    assert seen.error is causes[1]


@every_way
def test_retry_after_from_a_cause_counts_like_one_with_a_cause(play: Any) -> None:
    def raise_from() -> None:
        raise sp.RetryAfter(3) from Bang("the cause")

    play(retry(), does(raise_from), "never").raised(Bang).made(1)


@every_way
def test_retry_after_without_a_cause_is_retryable(play: Any) -> None:
    play(retry(attempts=3), sp.RetryAfter(3), ...).raised(sp.RetryAfter).made(3)


@every_way
def test_retryable_failure_is_reported_to_the_budget_before_the_attempts_check(play: Any) -> None:
    budget = BudgetSpy()
    play(retry(attempts=2, budget=budget), Boom, ...).raised_the_last_error().made(2)
    assert budget.calls == ["started", ("failure", False), ("withdraw", False), ("failure", False)]


@every_way
@pytest.mark.parametrize("error", [TimeoutError, sp.AttemptTimeout])
def test_timeouts_are_reported_to_the_budget(play: Any, error: type[Exception]) -> None:
    budget = BudgetSpy()
    play(retry(on=TimeoutError, attempts=2, budget=budget), error, ...).made(2)
    assert budget.calls == ["started", ("failure", True), ("withdraw", True), ("failure", True)]


@every_way
def test_do_not_retry_pushback_counts_as_a_failure_and_is_raised(play: Any) -> None:
    budget = BudgetSpy()
    policy = retry(on=lambda e: sp.Verdict(False, kind="pushback"), budget=budget)
    play(policy, Boom, "never").raised_the_last_error().made(1)
    assert budget.calls == ["started", ("failure", False)]


REFUSALS = [
    sp.BudgetExhausted,
    sp.BulkheadFull,
    sp.Cancelled,
    sp.CircuitOpen,
    sp.DeadlineExceeded,
    sp.RateLimited,
    sp.Throttled,
]


@every_way
@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("on", [Exception, sp.transient, TimeoutError, lambda e: True])
def test_our_own_refusals_are_final(play: Any, refusal: type[Exception], on: Any) -> None:
    play(retry(on=on), refusal, "never").raised_the_last_error().made(1)


@every_way
@pytest.mark.parametrize("refusal", REFUSALS)
def test_refusal_that_on_names_is_retried(play: Any, refusal: type[Exception]) -> None:
    play(retry(on=(Boom, refusal)), refusal, "ok").returned("ok").made(2)
    play(retry(on=sp.StormproofError), refusal, "ok").returned("ok").made(2)


@every_way
@pytest.mark.parametrize("on", [TimeoutError, sp.transient, Exception])
def test_timed_out_attempt_is_not_a_refusal(play: Any, on: Any) -> None:
    play(retry(on=on), sp.AttemptTimeout, "ok").returned("ok").made(2)


@every_way
@pytest.mark.parametrize("on", [Boom, lambda e: isinstance(e, Boom), sp.transient])
def test_group_is_retryable_if_every_leaf_is(play: Any, on: Any) -> None:
    nested = ExceptionGroup("all", [Boom(), ExceptionGroup("inner", [Boom(), Boom()])])
    mixed = ExceptionGroup("some", [Boom(), ExceptionGroup("inner", [Bang(), Boom()])])
    play(retry(on=on), nested, "ok").returned("ok").made(2)
    play(retry(on=on), mixed, "never").raised_the_last_error().made(1)


@every_way
def test_group_waits_for_the_longest_hint_in_it(play: Any) -> None:
    def verdict(error: Exception) -> Any:
        return sp.Verdict(True, after=float(str(error))) if isinstance(error, Boom) else False

    seen = play(retry(on=verdict), ExceptionGroup("both", [Boom("20"), Boom("30")]), "ok").returned("ok")
    assert 30 <= seen.sleeps[0] <= 33


@every_way
def test_result_can_be_refused(play: Any) -> None:
    policy = retry(on_result=lambda value: value is None)
    play(policy, None, None, "ok").returned("ok").made(3).slept(1, 2)


@every_way
def test_result_still_refused_at_the_end_is_returned(play: Any) -> None:
    play(retry(attempts=3, on_result=lambda value: value < 0), -1, -2, -3).returned(-3).made(3)


@every_way
def test_refused_result_is_a_failure_to_the_budget(play: Any) -> None:
    budget = BudgetSpy()
    play(retry(on_result=lambda value: value is None, budget=budget), None, "ok").returned("ok")
    assert budget.calls == ["started", ("failure", False), ("withdraw", False), ("success", 1.0)]


# 5. Attempts used up: the original exception, noted.


@every_way
def test_last_exception_is_raised_itself(play: Any) -> None:
    errors = [Boom(str(n)) for n in range(4)]
    assert play(retry(), *errors).error is errors[-1]


@every_way
def test_traceback_of_the_error_leads_to_its_origin(play: Any) -> None:
    def deep() -> None:
        raise Boom("deep down")

    seen = play(retry(attempts=3), does(deep), ...).made(3)
    names = [frame.name for frame in traceback.extract_tb(seen.error.__traceback__)]
    assert names[-1] == "deep"
    assert names.count("deep") == 1


@every_way
def test_cause_and_context_of_the_error_are_left_alone(play: Any) -> None:
    cause = Bang("the user's own")

    def chained() -> None:
        raise Boom("chained") from cause

    seen = play(retry(attempts=2), does(chained), ...).made(2)
    assert seen.error.__cause__ is cause
    assert seen.error.__context__ is None or seen.error.__context__ is cause

    seen = play(retry(attempts=2), Boom, ...).made(2)
    assert seen.error.__cause__ is None
    assert seen.error.__context__ is None


@every_way
def test_note_gives_attempts_seconds_and_reason(play: Any) -> None:
    seen = play(retry(attempts=3), takes(10, Boom), Boom, Boom).made(3).slept(1, 2)
    assert len(seen.notes) == 1
    assert "3 attempts" in seen.notes[0]
    # From the first failure on, as `within` counts.
    assert "3.000 s" in seen.notes[0]
    assert "attempts used up" in seen.notes[0]


@every_way
def test_note_of_one_attempt_is_in_the_singular(play: Any) -> None:
    seen = play(retry(attempts=1), Boom).raised_the_last_error()
    assert "1 attempt;" in seen.notes[0]


@every_way
def test_last_attempt_is_not_followed_by_a_sleep(play: Any) -> None:
    play(retry(attempts=3), Boom, ...).made(3).slept(1, 2)


# 6. Compute the wait; a server hint raises it.


@every_way
def test_loop_sleeps_the_waits_of_the_schedule(play: Any) -> None:
    seen = play(retry(attempts=5), Boom, ...).made(5).slept(1, 2, 4, 8)
    assert seen.times == pytest.approx([0, 1, 3, 7, 15])


@every_way
def test_loop_draws_from_the_policys_rng(play: Any) -> None:
    draws = iter([0.0, 0.25, 0.5])
    policy = retry(backoff=sp.Exponential(1, cap=1000), rng=lambda: next(draws))
    play(policy, Boom, Boom, Boom, "ok").slept(0, 0.5, 2)


@every_way
def test_previous_wait_is_handed_to_the_schedule(play: Any) -> None:
    policy = retry(backoff=sp.Decorrelated(base=1, cap=100), rng=lambda: 0.5)
    # B + u (min(C, 3 prev) - B), prev = B at first.
    play(policy, Boom, Boom, Boom, "ok").slept(2, 3.5, 5.75)


@every_way
def test_schedule_of_the_user_s_own_may_answer_with_any_number(play: Any) -> None:
    class Mine(sp.Backoff):
        __slots__ = ()

        def delay(self, n: Any, prev: Any, u: Any) -> float:
            return 3

        def ceiling(self, n: Any) -> float:
            return 3

    play(retry(backoff=Mine()), Boom, "ok").returned("ok").slept(3)


@every_way
def test_jitter_of_the_user_s_own_may_answer_with_an_int(play: Any) -> None:
    policy = retry(backoff=sp.Exponential(1, cap=10, jitter=lambda u, ceiling: 2))
    play(policy, Boom, "ok").returned("ok").slept(2)


@every_way
def test_hint_is_a_floor(play: Any) -> None:
    policy = retry(rng=lambda: 0.0)
    play(policy, asks(20), "ok").returned("ok").slept(20)
    play(policy, asks(0.5), "ok").returned("ok").slept(1)
    play(policy, asks(0), "ok").returned("ok").slept(1)


@every_way
@pytest.mark.parametrize("u", [0.0, 0.3, 0.999999])
def test_hint_is_spread_by_up_to_a_tenth(play: Any, u: float) -> None:
    play(retry(rng=lambda: u), asks(20), "ok").slept(20 + 2 * u)


@every_way
def test_our_own_wait_is_not_shortened_by_a_hint(play: Any) -> None:
    policy = retry(backoff=sp.Constant(30))
    play(policy, asks(1), "ok").slept(30)


@every_way
def test_previous_wait_is_our_own_never_the_hint(play: Any) -> None:
    policy = retry(backoff=sp.Decorrelated(base=1, cap=100), rng=lambda: 0.5)
    seen = play(policy, asks(50), Boom, "ok").returned("ok")
    # Own waits 2 and then 1 + 0.5 (3 * 2 - 1); the first gave way to the hint.
    assert seen.sleeps == pytest.approx([52.5, 3.5])


@every_way
def test_hint_does_not_add_attempts(play: Any) -> None:
    play(retry(attempts=3), asks(1), ...).made(3)


@every_way
def test_hint_does_not_lift_a_budget(play: Any) -> None:
    seen = play(retry(budget=BudgetSpy(allow=0)), asks(1), "never")
    seen.stopped_for("budget").made(1).slept()
    assert sp.stopped(seen.error).retry_after == 1


# 7. Too long a hint, too late a wait.


@every_way
@pytest.mark.parametrize("hint", [60.001, 61, 10**12])
def test_hint_longer_than_max_hint_stops_with_the_server_s_error(play: Any, hint: float) -> None:
    error = Boom("503")
    budget = BudgetSpy()
    seen = play(retry(budget=budget), sp.RetryAfter(hint, error), "never").made(1).slept()
    assert seen.error is error
    assert error.retry_after == hint  # type: ignore[attr-defined]
    assert len(seen.notes) == 1
    assert ("withdraw", False) not in budget.calls


@every_way
def test_hint_of_exactly_max_hint_is_waited_for(play: Any) -> None:
    play(retry(rng=lambda: 0.0), asks(60), "ok").returned("ok").slept(60)
    play(retry(rng=lambda: 0.0, max_hint=5), asks(5), "ok").returned("ok").slept(5)


@every_way
def test_max_hint_of_zero_takes_no_hint(play: Any) -> None:
    play(retry(max_hint=0), asks(0.001), "never").raised(Boom).made(1)


@every_way
def test_without_a_limit_on_hints_any_is_waited_for(play: Any) -> None:
    seen = play(retry(max_hint=math.inf), asks(10**6), "ok").returned("ok")
    assert seen.sleeps[0] >= 10**6


@every_way
@pytest.mark.proves("invariant 3")
def test_wait_that_would_end_past_the_deadline_does_not_start(play: Any) -> None:
    policy = retry(attempts=10)
    seen = play(policy, Boom, ..., inside=lambda: sp.deadline(10))
    seen.raised(sp.DeadlineExceeded).caused_by_the_last_error()
    # 1 + 2 + 4 = 7; the next wait is 8 and 3 are left.
    seen.made(4).slept(1, 2, 4)
    assert seen.error.scope == "deadline"


@each_way
def test_deadline_of_the_policy_counts_from_the_start_of_the_call(play: Any) -> None:
    policy = sp.Policy(sp.Deadline(10), retry().strategies[0])
    seen = play(policy, takes(8, Boom), "ok").returned("ok").slept(1)
    seen = play(policy, takes(9.5, Boom), "never").raised(sp.DeadlineExceeded).made(1).slept()
    seen.caused_by_the_last_error()


@every_way
def test_within_counts_from_the_first_failure(play: Any) -> None:
    policy = retry(within=4, attempts=10)
    seen = play(policy, takes(100, Boom), Boom, ...)
    # 1 + 2 = 3 s of retrying; 4 more would pass the 4 that are allowed.
    seen.stopped_for("within").made(3).slept(1, 2)

    seen = play(policy.with_(raises="refusal"), takes(100, Boom), Boom, ...)
    seen.raised(sp.DeadlineExceeded).made(3).slept(1, 2).caused_by_the_last_error()
    assert seen.error.scope == "within" and sp.stopped(seen.error).reason == "within"


@every_way
def test_within_includes_time_in_attempts(play: Any) -> None:
    play(retry(within=4), Boom, takes(3, Boom), "never").stopped_for("within").made(2).slept(1)


@every_way
def test_wait_that_ends_exactly_at_within_is_not_past_it(play: Any) -> None:
    play(retry(within=1), Boom, "ok").returned("ok").slept(1)


@every_way
def test_within_of_thirty_seconds_is_the_default(play: Any) -> None:
    policy = sp.retry(on=Boom, attempts=None, backoff=sp.Constant(7), budget=None)
    play(policy, Boom, ...).stopped_for("within").made(5).slept(7, 7, 7, 7)


@every_way
def test_hint_past_within_is_waited_for_if_the_failure_came_before_that(play: Any) -> None:
    """A hint of 40 s is below max_hint, and past the 30 s allowed for retrying."""
    seen = play(sp.retry(on=Boom), asks(40), "ok").returned("ok").made(2)
    assert 40 <= seen.sleeps[0] <= 44
    seen = play(sp.retry(on=Boom), asks(40), asks(40), "never").made(2)
    assert sp.stopped(seen.error).reason == "within" and sp.stopped(seen.error).retry_after == 40


@every_way
def test_hint_past_the_deadline_raises_deadline_exceeded_with_retry_after(play: Any) -> None:
    error = Boom("503")
    seen = play(retry(), sp.RetryAfter(20, error), "never", inside=lambda: sp.deadline(10))
    seen.raised(sp.DeadlineExceeded).made(1).slept()
    assert seen.error.__cause__ is error
    assert seen.error.retry_after == 20


@every_way
def test_hint_past_within_and_the_deadline_is_not_waited_for(play: Any) -> None:
    seen = play(retry(within=5), asks(20), "never", inside=lambda: sp.deadline(10))
    seen.raised(sp.DeadlineExceeded).made(1).slept()


@every_way
def test_max_hint_is_checked_before_the_deadline(play: Any) -> None:
    error = Boom("503")
    seen = play(retry(), sp.RetryAfter(100, error), "never", inside=lambda: sp.deadline(10)).made(1)
    assert seen.error is error


@every_way
def test_late_clip_sleeps_the_time_left_and_stops(play: Any) -> None:
    policy = retry(attempts=10, late="clip")
    seen = play(policy, Boom, ..., inside=lambda: sp.deadline(10))
    seen.raised(sp.DeadlineExceeded).made(4).slept(1, 2, 4, 3).caused_by_the_last_error()

    seen = play(retry(attempts=10, late="clip", within=4), Boom, ...)
    seen.stopped_for("within").made(3).slept(1, 2, 1)


@every_way
@pytest.mark.parametrize(("within", "limit"), [(2, 1), (1, 2)])
def test_late_clip_sleeps_to_the_nearer_of_two_limits(play: Any, within: float, limit: float) -> None:
    policy = retry(late="clip", within=within, backoff=sp.Constant(5))
    seen = play(policy, Boom, ..., inside=lambda: sp.deadline(limit))
    seen.made(1).slept(1)
    assert sp.stopped(seen.error).reason == ("deadline" if limit < within else "within")


@every_way
def test_late_clip_never_sleeps_a_negative_time(play: Any) -> None:
    seen = play(retry(late="clip", within=2), Boom, takes(50, Boom), "never")
    seen.stopped_for("within").made(2)
    assert seen.sleeps[0] == 1
    assert all(wait == 0 for wait in seen.sleeps[1:])


@every_way
def test_attempts_none_is_bounded_by_within(play: Any) -> None:
    play(retry(attempts=None, within=100), Boom, ...).stopped_for("within").made(7)


@each_way
def test_attempts_none_is_bounded_by_a_deadline(play: Any) -> None:
    unbounded = sp.Retry(
        on=Boom, attempts=None, within=None, budget=None, backoff=sp.Exponential(1, cap=1000, jitter="none")
    )
    policy = sp.Policy(sp.Deadline(100), unbounded)
    play(policy, Boom, ...).raised(sp.DeadlineExceeded).made(7)


# 8. The budget.


@every_way
def test_empty_budget_stops_at_once(play: Any) -> None:
    seen = play(retry(budget=BudgetSpy(allow=2)), Boom, ...)
    seen.stopped_for("budget").made(3).slept(1, 2)


@every_way
@pytest.mark.proves("invariant 9")
def test_denial_never_sleeps_first(play: Any) -> None:
    """Invariant 9: at once, and the cause attached, note and all."""
    seen = play(retry(budget=sp.Budget(burst=0)), Boom, "never")
    seen.stopped_for("budget").made(1).slept()
    assert seen.script.clock.now() == seen.started
    assert any("budget" in note for note in seen.last.__notes__)


@every_way
def test_budget_is_charged_last(play: Any) -> None:
    """A retry refused for another reason is not paid for."""
    for policy, outcome in [
        (retry(attempts=1, budget=(attempts := BudgetSpy())), Boom()),
        (retry(within=0.5, budget=(within := BudgetSpy())), Boom()),
        (retry(budget=(hint := BudgetSpy())), asks(100)),
        (retry(budget=(fatal := BudgetSpy())), Bang()),
    ]:
        play(policy, outcome).made(1)
    for budget in (attempts, within, hint, fatal):
        assert ("withdraw", False) not in budget.calls


@every_way
def test_attempts_used_up_beats_an_empty_budget(play: Any) -> None:
    play(retry(attempts=1, budget=BudgetSpy(allow=0)), Boom).raised_the_last_error()


@every_way
def test_waiting_rate_budget_waits_instead(play: Any) -> None:
    # Two tokens at once, then one every 10 s; our own waits are 1, 2, 4.
    policy = retry(budget=sp.RateBudget(rate=0.1, burst=2, wait=True), attempts=10)
    seen = play(policy, Boom, Boom, Boom, "ok").returned("ok")
    assert seen.sleeps[:2] == [1, 2]
    # Tokens: 2, taken at 0 and 1 s; at 3 s there are 0.3 of one, so the third takes 7 s more.
    assert seen.times[3] == pytest.approx(10, abs=0.01)


@every_way
def test_waiting_rate_budget_stays_within_the_deadline(play: Any) -> None:
    policy = retry(budget=sp.RateBudget(rate=0.01, burst=1, wait=True))
    seen = play(policy, Boom, ..., inside=lambda: sp.deadline(10))
    seen.stopped_for("budget").made(2).slept(1)


@every_way
def test_waiting_rate_budget_stays_within_the_time_for_retrying(play: Any) -> None:
    policy = retry(budget=sp.RateBudget(rate=0.01, burst=1, wait=True), within=10)
    play(policy, Boom, ...).stopped_for("budget").made(2).slept(1)


@every_way
def test_rate_budget_that_does_not_wait_refuses(play: Any) -> None:
    play(retry(budget=sp.RateBudget(rate=0.01, burst=1)), Boom, ...).stopped_for("budget").made(2)


@every_way
def test_budget_none_allows_every_retry(play: Any) -> None:
    play(retry(attempts=50, budget=None, backoff=sp.Constant(0)), Boom, ...).raised_the_last_error().made(50)


@every_way
def test_default_budget_allows_three_retries(play: Any) -> None:
    policy = sp.retry(on=Boom, attempts=100, backoff=sp.Constant(0))
    play(policy, Boom, ...).stopped_for("budget").made(4)


# 9. Emit the event, sleep, go to 1.


@every_way
def test_event_comes_before_the_sleep(play: Any) -> None:
    with_clock: list[int] = []

    def watch(event: Any) -> None:
        if isinstance(event, sp.events.Retrying):
            with_clock.append(len(seen_sleeps))

    clock = sp.testing.FakeClock()
    seen_sleeps = clock.sleeps
    stop = sp.subscribe(watch)
    try:
        play(retry(clock=clock), Boom, Boom, "ok").returned("ok")
    finally:
        stop()
    assert with_clock == [0, 1]


@every_way
def test_event_carries_attempt_wait_error_and_hint(play: Any) -> None:
    seen = play(retry(name="op", rng=lambda: 0.0), Boom, asks(20), "ok")
    first, second, end = seen.events
    assert (first.operation, first.attempt, first.wait, first.hint) == ("op", 1, 1, None)
    assert first.error == "tests.support.scripted.Boom"
    assert (second.attempt, second.wait, second.hint) == (2, 20, 20)
    assert (end.operation, end.attempts, end.elapsed) == ("op", 3, 21)


@every_way
def test_scope_that_ends_in_the_sleep_ends_the_call(play: Any) -> None:
    """The sleep overshoots: whatever the plan was, step 1 comes again."""

    class Oversleeping(sp.testing.FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            fake_clock.advance(100)

    def scope() -> Any:
        nonlocal fake_clock
        fake_clock = sp.testing.FakeClock()
        return sp.deadline(50, clock=fake_clock)

    fake_clock: Any = None
    seen = play(retry(clock=Oversleeping()), Boom, "never", inside=scope)
    seen.raised(sp.DeadlineExceeded).made(1).caused_by_the_last_error()


# Invariants across the loop.

outcomes = st.lists(
    st.sampled_from([Boom, Bang, "ok", TimeoutError, asks(5), asks(90)]),
    min_size=1,
    max_size=8,
)
policies = st.builds(
    retry,
    on=st.just((Boom, TimeoutError)),
    attempts=st.integers(1, 6),
    within=st.none() | st.floats(0, 40),
    late=st.sampled_from(["stop", "clip"]),
    max_hint=st.sampled_from([1, 60, math.inf]),
    budget=st.none() | st.builds(sp.Budget, burst=st.integers(0, 3)),
    backoff=st.sampled_from(
        [sp.Constant(0), sp.Exponential(1, cap=8), sp.Decorrelated(1, cap=8), sp.Schedule([0.5, 2, 7])]
    ),
)


#: The longest own wait is 8 s, the longest hint 90 s and a tenth.
BOUND = 99.0


@pytest.mark.parametrize("play", [SYNC], ids=lambda play: play.name)
@given(policy=policies, script=outcomes, limit=st.none() | st.floats(0.001, 60))
def test_calls_waits_and_time_stay_in_bounds(
    play: Any, policy: sp.Policy, script: list[Any], limit: float | None
) -> None:
    """Invariants 1, 2 and 3, for any policy and any script."""
    seen: Played = play(policy, *script, ..., inside=lambda: sp.deadline(limit))
    strategy = policy.strategies[0]
    assert 1 <= seen.calls <= strategy.attempts
    if script[0] == "ok":
        assert seen.calls == 1
    assert all(0 <= wait <= BOUND and math.isfinite(wait) for wait in seen.sleeps)
    assert len(seen.sleeps) <= seen.calls
    elapsed = seen.script.clock.now() - seen.started
    if limit is not None:
        assert elapsed <= limit * (1 + 1e-9)
    if strategy.within is not None:
        # A wait that the server asked for before that is kept.
        assert elapsed <= strategy.within * (1 + 1e-9) + 1e-9 + (BOUND if len(seen.sleeps) else 0)
    if isinstance(seen.error, sp.StormproofError):
        assert seen.error.__cause__ is not None


@pytest.mark.parametrize("n", [0, 1, 10, 1_100, 100_000, 1_000_000])
@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize(
    "backoff",
    [
        sp.Exponential(),
        sp.Exponential(1e-300, factor=1e300, cap=1e300),
        sp.Decorrelated(),
        sp.Linear(0.1, cap=5.0),
        sp.Fibonacci(),
        sp.Constant(1),
        sp.Schedule([0.1, 0.5]),
    ],
    ids=lambda b: type(b).__name__,
)
def test_waits_are_finite_far_out(backoff: Any, n: int, u: float) -> None:
    """Invariant 2, for n up to a million."""
    wait = backoff.delay(n, None, u)
    assert math.isfinite(wait)
    assert 0 <= wait <= backoff.ceiling(n)


@every_way
def test_two_thousand_attempts_overflow_nothing(play: Any) -> None:
    policy = retry(attempts=2_000, backoff=sp.Exponential(1, factor=10, cap=5, jitter="none"))
    seen = play(policy, Boom, ...).made(2_000)
    assert seen.sleeps == [1] + [5] * 1_998


@pytest.mark.proves("invariant 4")
def test_loop_s_full_jitter_is_uniform(measured: Callable[[str], None]) -> None:
    """Invariant 4, on the waits that the loop really asks for."""
    draws = 100_000
    clock = sp.testing.FakeClock()
    error = Boom()

    def fail() -> None:
        # Else each attempt would add its frames to the traceback of the one before.
        raise error.with_traceback(None)

    policy = retry(
        attempts=draws + 1, backoff=sp.Exponential(1, factor=1, cap=1), rng=20_240_229, clock=clock
    )
    with pytest.raises(Boom):
        policy.call(fail)
    waits = clock.sleeps
    assert len(waits) == draws
    gap, p = stats.kstest(waits, "uniform")
    assert p > 1e-3
    measured(f"{draws:,} waits of one retry loop: Kolmogorov-Smirnov distance {gap:.5f}, p = {p:.3f}")


FORKING = """
    import os, sys
    sys.path.insert(0, {source!r})
    import stormproof as sp

    def waits():
        with sp.testing.instant() as clock:
            try:
                sp.retry(on=OSError, attempts=6, budget=None).call(fail)
            except OSError:
                return clock.sleeps

    def fail():
        raise OSError

    waits()
    for _ in range(2):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.write(writing, repr(waits()).encode())
            os._exit(0)
        os.wait()
        print(os.read(reading, 10_000).decode())
    print(waits())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other platform: no fork")
@pytest.mark.proves("invariant 4")
def test_forked_processes_share_no_draws() -> None:
    source = textwrap.dedent(FORKING.format(source=str(Path(sp.__file__).parents[1])))
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    rows = [eval(line) for line in done.stdout.splitlines()]
    assert [len(row) for row in rows] == [5, 5, 5]
    for position in zip(*rows, strict=True):
        assert len(set(position)) == 3, rows


# Server hints, as servers send them.


def hinted(play: Any, **headers: str) -> Played:
    policy = retry(on=sp.transient, rng=lambda: 0.0, within=None)
    played: Played = play(policy, http_error(**headers), "ok")
    return played


@every_way
@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry_After": "20"}, 20),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"x_amz_retry_after": "2500"}, 2.5),
        ({"Retry_After": "Fri, 31 Dec 1999 23:59:59 GMT"}, 1),
        ({"Retry_After": "soon"}, 1),
        ({"Retry_After": "-1"}, 1),
        ({"Retry_After": ""}, 1),
        ({"Retry_After": "0"}, 1),
        ({}, 1),
    ],
    ids=str,
)
def test_hint_lengthens_the_wait_only_if_valid_and_longer(
    play: Any, headers: dict[str, str], wait: float
) -> None:
    """Our own wait is 1 s: it holds where the hint is shorter, past, garbage, negative or empty."""
    hinted(play, **headers).returned("ok").slept(wait)


@every_way
@pytest.mark.parametrize("value", ["61", "1000000000000", "9" * 5_000], ids=["61", "10^12", "5000 digits"])
def test_hint_beyond_max_hint_stops(play: Any, value: str) -> None:
    seen = hinted(play, Retry_After=value).raised_the_last_error().made(1).slept()
    assert seen.error.retry_after > 60  # type: ignore[union-attr]
    seen.error.close()  # type: ignore[union-attr]


def test_date_is_a_hint() -> None:
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    seen = hinted(SYNC, Retry_After=date).returned("ok")
    # The date has whole seconds, and a slow machine may lose some before it is read.
    assert 1 <= seen.sleeps[0] <= 31


def test_date_counts_from_the_server_s_own_clock() -> None:
    seen = hinted(SYNC, Date="Fri, 31 Dec 1999 23:59:00 GMT", Retry_After="Fri, 31 Dec 1999 23:59:20 GMT")
    seen.returned("ok").slept(20)
