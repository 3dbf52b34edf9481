"""`RetriedCall` where a strategy further in refuses an attempt, and where an outcome is final at once."""

from __future__ import annotations

import contextvars
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.scripted import SYNC, Boom, retry

import stormproof as sp
from stormproof._classify.exhaustion import exhausted_by
from stormproof._classify.verdict import Verdict
from stormproof._context.attempts import running
from stormproof._strategies.retry.call import RetriedCall
from stormproof._strategies.retry.generators import Opened


class CallInHand:
    """One call in the hands of the test: 2 s pass in every attempt, and no wait takes time."""

    def __init__(self, paying: Any = None, **options: Any) -> None:
        given = {"on": Boom, "backoff": sp.Constant(1), "within": None, "budget": None, "attempts": 9}
        self.clock = sp.testing.FakeClock()
        env: Any = SimpleNamespace(timer=self.clock, draw=lambda: 0.5, breakers=())
        self.run = RetriedCall(sp.Retry(**{**given, **options}), paying, env, "op", object())
        self.error: Exception | None = None

    def attempt(self, outcome: Any) -> float | None:
        """Make an attempt that ends in ``outcome``; return the wait that follows."""
        self.run.begin(self.error)
        self.clock.advance(2)
        self.error = outcome if isinstance(outcome, Exception) else None
        return self.run.after(None if self.error is outcome else outcome, self.error)

    def end(self) -> BaseException:
        """Return the error that the caller gets."""
        failure = self.run.give_up(None, self.error)[1]
        assert failure is not None
        return failure


def notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


# The time of a call that ends at once.


@pytest.mark.parametrize(
    ("last", "attempts"),
    [(lambda: sp.Permanent(Boom()), 3), (lambda: sp.CircuitOpen("db is open"), 2)],
    ids=["permanent", "refused"],
)
def test_final_outcome_after_failures_reports_the_time_since_the_first(last: Any, attempts: int) -> None:
    call = CallInHand()
    call.attempt(Boom())
    call.attempt(Boom())
    assert call.attempt(last()) is None
    [line] = notes(call.end())
    assert line.startswith(f"stormproof: {attempts} attempts in 4.000 s since the first failure; stopped: ")


def test_success_at_the_first_attempt_takes_no_time() -> None:
    seen = SYNC(retry(on_result=lambda result: False, name="op"), "ok").returned("ok")
    assert [(type(event).__name__, event.attempts, event.elapsed) for event in seen.events] == [
        ("Succeeded", 1, 0.0)
    ]


def test_success_that_nothing_reports_does_not_read_the_clock(caplog: pytest.LogCaptureFixture) -> None:
    readings: list[float] = []

    class Counting(sp.testing.FakeClock):
        def now(self) -> float:
            readings.append(super().now())
            return readings[-1]

    call = CallInHand()
    call.run.env.timer = Counting()
    with caplog.at_level("WARNING", logger="stormproof"):
        call.attempt(Boom())
        readings.clear()
        call.attempt("ok")
    assert readings == []


def test_result_that_was_good_is_not_kept_by_a_context_of_its_attempt() -> None:
    contexts: list[Any] = []

    class Answer:
        """A result."""

    def callee() -> Answer:
        contexts.append(contextvars.copy_context())
        return Answer()

    with sp.testing.instant():
        answer = weakref.ref(retry(on_result=lambda result: False).call(callee))
    gc.collect()
    assert answer() is None


def test_wait_before_the_end_is_part_of_the_time_that_is_reported() -> None:
    call = CallInHand(late="clip", within=10, backoff=sp.Constant(30))
    assert call.attempt(Boom()) == 10.0
    call.clock.advance(10)
    [line] = notes(call.end())
    assert line.startswith("stormproof: 1 attempt in 10.000 s since the first failure; stopped: a wait")
    stopped = sp.stopped(call.error)
    assert stopped is not None and (stopped.reason, stopped.elapsed) == ("within", 10.0)


# What is left of it.


def test_note_of_an_empty_budget_says_how_it_was_spent() -> None:
    budget = sp.Budget(burst=0)
    call = CallInHand(budget)
    assert call.attempt(Boom()) is None
    assert notes(call.end()) == [f"stormproof: 1 attempt; stopped: {budget.shortage()}"]
    named = CallInHand(budget, within=0.5)
    named.attempt(Boom())
    assert "budget" not in notes(named.end())[0]


def test_scope_forgets_the_failure_of_a_call_that_ended() -> None:
    call = CallInHand(attempts=2)
    with sp.deadline(50, clock=call.clock) as scope:
        call.attempt(Boom())
        assert scope.last_error is call.error
        call.attempt(Boom())
        call.end()
        assert scope.last_error is None


# Rules of the user's that fail.


def test_error_of_a_rule_has_the_failure_that_it_judged_as_its_context() -> None:
    fault, error = ZeroDivisionError("in the rule"), Boom()

    def judge(_: BaseException) -> bool:
        raise fault

    call = CallInHand(on=judge)
    with pytest.raises(ZeroDivisionError):
        call.attempt(error)
    assert fault.__context__ is error


# A refusal further in, after failures that reached the function.


def test_refused_attempt_is_not_counted() -> None:
    call, errors = CallInHand(), [Boom(), Boom(), Boom()]
    for error in errors:
        assert call.attempt(error) is not None
    assert call.attempt(sp.CircuitOpen("db is open", retry_after=30.0)) is None
    assert call.end() is errors[-1]
    stopped = sp.stopped(errors[-1])
    assert stopped is not None
    assert (stopped.reason, stopped.attempts, stopped.retry_after) == ("circuit", 3, 30.0)


def test_failure_before_a_refusal_is_noted_with_the_text_of_the_refusal() -> None:
    call, error = CallInHand(), Boom()
    call.attempt(error)
    call.attempt(sp.CircuitOpen("db is open"))
    assert call.end() is error
    assert notes(error)[0].endswith("; stopped: db is open")
    mark = exhausted_by(error)
    assert mark is not None and mark.reason == "db is open"


def test_refusal_asked_for_has_its_own_figures() -> None:
    call, error = CallInHand(raises="refusal"), Boom()
    call.attempt(error)
    call.attempt(Boom())
    refusal = sp.CircuitOpen("db is open", retry_after=30.0)
    call.attempt(refusal)
    assert call.end() is refusal
    stopped = refusal.stopped
    assert (stopped.reason, stopped.attempts, stopped.elapsed, stopped.retry_after) == (
        "circuit",
        2,
        4.0,
        30.0,
    )


def test_end_of_a_scope_that_has_a_cause_is_not_put_in_front_of_an_earlier_failure() -> None:
    call, cause = CallInHand(), Boom("inner")
    late = sp.DeadlineExceeded("no time left of 'job'", "job")
    late.__cause__ = cause
    with sp.deadline(50, name="job", clock=call.clock):
        assert call.attempt(Boom("outer")) is not None
        assert call.attempt(late) is None
        assert call.end() is late
    assert late.__cause__ is cause


# A refusal that ``on`` names, at the last attempt.


def named(**options: Any) -> CallInHand:
    """Return a call of two attempts that retries refusals, and is done with the second one's."""
    return CallInHand(on=(Boom, sp.CircuitOpen), attempts=2, **options)


def test_failure_before_a_last_refusal_that_is_retried_surfaces_with_its_text() -> None:
    call, error = named(), Boom()
    call.attempt(error)
    call.attempt(sp.CircuitOpen("db is open"))
    assert call.end() is error
    assert notes(error)[0].endswith("; stopped: db is open")


def test_last_refusal_that_is_retried_is_raised_itself_where_asked_for() -> None:
    call, error = named(raises="refusal"), Boom()
    call.attempt(error)
    refusal = sp.CircuitOpen("db is open")
    call.attempt(refusal)
    assert call.end() is refusal
    assert refusal.__cause__ is error


def test_last_refusal_that_is_retried_gives_the_time_until_it_admits_a_call() -> None:
    call, error = CallInHand(on=lambda error: Verdict(True), attempts=2), Boom()
    call.attempt(error)
    call.attempt(sp.CircuitOpen("db is open", retry_after=30.0))
    assert call.end() is error
    stopped = sp.stopped(error)
    assert stopped is not None
    assert (stopped.reason, stopped.retry_after) == ("circuit", 30.0)


# Results that are judged.


class Busy:
    """A response that asks its client to come back in 7 s."""

    status_code = 503

    def __init__(self) -> None:
        self.headers = {"Retry-After": "7"}


@pytest.mark.parametrize("opens", [False, True], ids=["result", "stream"])
def test_hint_of_a_refused_result_is_waited_for(opens: bool) -> None:
    call = CallInHand(on_result=lambda result: True)
    call.run.answer = True
    wait = call.attempt(Opened(iter(()), Busy()) if opens else Busy())
    assert wait is not None and 7.0 <= wait <= 7.7


def test_result_before_a_refusal_is_returned() -> None:
    call = CallInHand(on_result=lambda result: True)
    call.run.answer = True
    assert call.attempt("first") is not None
    assert call.attempt("second") is not None
    assert call.attempt(sp.CircuitOpen("db is open")) is None
    assert call.run.give_up(None, call.error) == ("second", None)


# What an attempt is part of.


def test_attempt_of_an_inner_call_knows_the_attempt_around_it() -> None:
    around: list[Any] = []
    inner = retry(name="inner", before_attempt=lambda attempt: around.append(attempt.outer))
    with sp.testing.instant():

        @retry(name="outer", attempts=2)
        def visit() -> None:
            inner.call(dict)
            raise Boom

        with pytest.raises(Boom):
            visit()
    # A first attempt sets nothing, as that would cost more than the rest of it.
    assert [each and (each.operation, each.number) for each in around] == [None, ("outer", 2)]


@pytest.mark.parametrize("is_same", [True, False], ids=["same layer", "another layer"])
def test_mark_of_a_call_inside_its_own_layer_is_not_taken_for_that_of_the_call_around(is_same: bool) -> None:
    around = CallInHand()
    token = running.set(around.run)
    try:
        call = CallInHand(attempts=1)
    finally:
        running.reset(token)
    if is_same:
        call.run.owner = around.run.owner
    call.attempt(Boom())
    mark = exhausted_by(call.end())
    assert mark is not None
    assert (mark.owner == around.run.owner, mark.owner == call.run.owner) == (False, not is_same)
