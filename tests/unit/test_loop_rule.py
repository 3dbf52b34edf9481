"""The rule of the loop at its edges: what it tells, whom it asks, and what it makes of odd answers."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from tests.scripted import SYNC, Boom, BudgetSpy, does, retry

import holdfast as hf
from holdfast.classify import Mark, Verdict, mark
from holdfast.loop import Run, Stop


class Asked:
    """A client's request that writes down what it is asked."""

    draft = None

    def __init__(self, response: Any = None, veto: str | None = None) -> None:
        self.response = response
        self.why = veto
        self.asked: list[Any] = []

    def turn(self, number: int, error: Exception | None) -> None:
        self.asked.append(("turn", number, error))

    def response_of(self, error: BaseException) -> Any:
        self.asked.append(("response_of", error))
        return self.response

    def veto(self, error: BaseException | None) -> str | None:
        self.asked.append(("veto", error))
        return self.why


def run_of(exchange: Any = None, budget: Any = None, **options: Any) -> Run:
    """One call under a Retry that waits 1 s, in the hands of the test."""
    given = {"on": Boom, "backoff": hf.Constant(1), "within": None, "budget": None}
    env: Any = SimpleNamespace(timer=hf.testing.FakeClock(), draw=lambda: 0.5)
    return Run(hf.Retry(**{**given, **options}), budget, env, "op", object(), exchange=exchange)


# What the scope's end in the middle of a wait is called.


def ended_in_the_wait(spoil: Any) -> tuple[Any, Any]:
    """Play a call whose clock is slept on for longer than was asked, and at whose end ``spoil`` strikes."""
    scopes: list[Any] = []
    of_scope = hf.testing.FakeClock()

    class Oversleeping(hf.testing.FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            spoil(of_scope, scopes[0])

    def scope() -> Any:
        scopes.append(hf.deadline(50, name="job", clock=of_scope))
        return scopes[0]

    seen = SYNC(retry(clock=Oversleeping(), name="op"), Boom, "never", inside=scope).made(1)
    return seen.error, seen.events[-1]


def test_a_deadline_that_passes_in_the_wait_is_told_as_one() -> None:
    error, event = ended_in_the_wait(lambda clock, scope: clock.advance(100))
    assert type(error) is hf.DeadlineExceeded
    assert error.scope == "job"
    assert "'job'" in str(error)
    assert (type(event).__name__, event.reason, event.attempts) == ("Interrupted", "deadline", 1)


def test_a_cancel_that_comes_in_the_wait_is_told_as_one() -> None:
    error, event = ended_in_the_wait(lambda clock, scope: scope.cancel())
    assert type(error) is hf.Cancelled
    assert "'job'" in str(error)
    assert (type(event).__name__, event.reason) == ("Interrupted", "cancelled")


# A clock set back goes on from where it was, as often as it happens.


def test_a_clock_set_back_twice_hides_no_time() -> None:
    clock = hf.testing.FakeClock()
    run = run_of()
    run.env.timer = SimpleNamespace(now=lambda: clock.now() + offset)  # type: ignore[assignment]
    offset = 0.0
    began = run.now()
    offset -= 100
    assert run.now() == began
    clock.advance(5)
    assert run.now() == began + 5
    offset -= 40
    clock.advance(1)
    assert run.now() == began + 5
    clock.advance(2)
    assert run.now() == began + 7


# Whom the rule asks about an outcome.


def test_a_response_that_an_error_stands_for_is_shown_to_on_result() -> None:
    asked, error = Asked(response="busy"), Boom("503")
    shown: list[Any] = []

    def refuse(result: Any) -> Verdict:
        shown.append(result)
        return Verdict(True, 7.0)

    run = run_of(asked, on=KeyError, on_result=refuse)
    verdict = run.judge(None, error)
    assert verdict is not None and (verdict.retry, verdict.after) == (True, 7.0)
    assert shown == ["busy"]
    assert asked.asked == [("response_of", error)]
    assert run.shown is error


@pytest.mark.parametrize(
    ("response", "on_result"),
    [("fine", lambda result: False), (None, lambda result: True), ("busy", None)],
    ids=["not refused", "no response", "no rule"],
)
def test_without_a_refused_response_the_error_itself_decides(response: Any, on_result: Any) -> None:
    run = run_of(Asked(response=response), on_result=on_result)
    assert run.judge(None, Boom()) == Verdict.RETRY
    assert run.judge(None, KeyError()) == Verdict.FATAL


def test_the_request_is_asked_about_the_error_whether_it_may_be_sent_again() -> None:
    asked, error = Asked(veto="its body is gone"), Boom()
    run = run_of(asked)
    run.begin(None)
    step = run.next(error, run.judge(None, error) or Verdict.FATAL, 0.0)
    assert isinstance(step, Stop)
    assert (step.reason, step.why) == ("unrepeatable", "not sent again: its body is gone")
    assert asked.asked[0] == ("turn", 1, None)
    assert asked.asked[-1] == ("veto", error)


def test_the_request_is_told_why_it_is_sent_again() -> None:
    asked, error = Asked(), Boom()
    run = run_of(asked)
    run.begin(None)
    again = run.begin(error)
    assert asked.asked == [("turn", 1, None), ("turn", 2, error)]
    assert (again.operation, again.number, again.last_error) == ("op", 2, error)
    assert (again.owner, again.exchange) == (run.owner, asked)


# Marks of inner layers.


class Answer:
    """A response that takes a mark."""


def test_a_refused_result_that_an_inner_layer_gave_up_on_is_not_asked_for_again() -> None:
    answer = Answer()
    mark(answer, Mark("inner", object(), 3, "attempts used up"))
    seen = SYNC(retry(on_result=lambda result: result is answer), answer, "never").made(1)
    assert seen.value is answer
    assert seen.events[-1].reason == "exhausted"


def test_a_refused_result_without_a_mark_is_asked_for_again() -> None:
    answer = Answer()
    SYNC(retry(on_result=lambda result: result is answer), answer, "ok").returned("ok").made(2)


def test_retry_exhausted_retries_what_an_inner_layer_gave_up_on() -> None:
    error = Boom("inner")
    mark(error, Mark("inner", object(), 3, "attempts used up"))
    SYNC(retry(), error, "never").made(1).raised_the_last_error()
    SYNC(retry(retry_exhausted=True), error, "ok").returned("ok").made(2)


# What a marked hint keeps of what it is about.


def test_a_hint_keeps_the_kind_and_the_reason_of_its_cause() -> None:
    run = run_of(on=lambda error: Verdict(True, 3.0, "throttle", "quota"))
    verdict = run.judge(None, hf.RetryAfter(5, Boom()))
    assert verdict == Verdict(True, 5.0, "throttle", "quota")
    verdict = run.judge(None, hf.RetryAfter(2, Boom()))
    assert verdict == Verdict(True, 3.0, "throttle", "quota")


def test_a_hint_around_a_timeout_is_a_timeout_to_the_budget() -> None:
    def wait_and_time_out() -> None:
        raise hf.RetryAfter(1) from TimeoutError()

    budget = BudgetSpy()
    SYNC(retry(on=TimeoutError, budget=budget), does(wait_and_time_out), "ok").returned("ok")
    assert ("failure", True) in budget.told
    assert ("withdraw", True) in budget.told


# Schedules of the user's own.


class Own:
    """A schedule that answers what it is told to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def delay(self, n: int, prev: float | None, u: float) -> Any:
        return self.answer


class Planned(Own):
    """A schedule with a plan of its own."""

    def plan(self, place: int, prev: float | None, verdict: Any, draw: Any) -> Any:
        return self.answer, prev, place + 1


@pytest.mark.parametrize("answer", [math.inf, math.nan, -1.0])
def test_a_wait_that_is_none_is_refused_by_name(answer: float) -> None:
    run = run_of(backoff=Own(answer))
    with pytest.raises(ValueError, match=r"^backoff: delay must .*"):
        run._wait(Verdict.RETRY)


@pytest.mark.parametrize("answer", [math.nan, -1.0])
def test_a_planned_wait_that_is_none_is_refused_by_name(answer: float) -> None:
    run = run_of(backoff=Planned(answer))
    with pytest.raises(ValueError, match=r"^backoff: plan must .*"):
        run._wait(Verdict.RETRY)


def test_a_plan_may_never_come_to_an_end() -> None:
    """A wait without end is for a limit to refuse."""
    seen = SYNC(retry(backoff=Planned(math.inf), within=10), Boom, "never")
    assert seen.made(1).slept().events[-1].reason == "within"


def test_a_throttled_call_pays_a_budget_without_a_price_for_it_as_any_other() -> None:
    budget = BudgetSpy()
    throttled = retry(on=lambda error: Verdict(True, kind="throttle"), budget=budget)
    SYNC(throttled, Boom, "ok").returned("ok").made(2)
    assert ("withdraw", False) in budget.told


# What is told to nobody but the log.


def test_a_success_after_retries_is_logged_without_a_subscriber(caplog: pytest.LogCaptureFixture) -> None:
    clock = hf.testing.FakeClock()
    answers = iter([Boom(), "ok"])

    def callee() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with caplog.at_level("INFO", logger="holdfast"):
        assert retry(clock=clock, name="op").call(callee) == "ok"
    assert [(line.levelname, "op" in line.getMessage()) for line in caplog.records] == [("INFO", True)]


def test_the_end_of_a_call_says_how_long_it_took() -> None:
    seen = SYNC(retry(attempts=3, name="op"), Boom, ...).made(3)
    assert (seen.events[-1].elapsed, seen.events[-1].attempts, seen.events[-1].reason) == (3, 3, "attempts")
    assert seen.events[-1].error == "tests.scripted.Boom"
    assert seen.notes == ["holdfast: 3 attempts in 3.000 s; stopped: attempts used up"]
