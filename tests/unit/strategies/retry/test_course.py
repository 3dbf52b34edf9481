"""`Course`, given the time, the draws, the verdict and the scope: a wait, or why there is none."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

import stormproof as sp
from stormproof._classify.verdict import Verdict
from stormproof._strategies.retry.rules.decision import Course, Ending, Stop, refusing, scope_ended

TRANSIENT = Verdict(True)


def options(**changed: Any) -> Any:
    """Options that wait 1, 2, 4 s and so on, without a limit but for those given."""
    given = {
        "delay": lambda index, previous, draw: 2.0**index,
        "judge": lambda error: Verdict(False),
        "plan": None,
        "within": None,
        "max_hint": 60.0,
        "most_attempts": math.inf,
        "most_seconds": math.inf,
        "reports_failures": False,
        "late": "stop",
    }
    return SimpleNamespace(**{**given, **changed})


def ask(course: Course, now: float = 0.0, verdict: Any = TRANSIENT, scope: Any = None) -> Any:
    return course.next(verdict, now, lambda: 0.5, scope)


def reason(answer: Any) -> str:
    assert isinstance(answer, Stop), answer
    return answer.reason


class Purse:
    """A budget that writes down what it is asked, and pays."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def failure(self, is_timeout: bool) -> None:
        self.asked.append(("failure", is_timeout))

    def pay(self, kind: str, max_wait: float | None) -> float:
        self.asked.append((kind, math.inf if max_wait is None else max_wait))
        return 1.0


class Gate:
    """A breaker that stays shut for a while."""

    def __init__(self, shut: float | None, name: str | None = "db") -> None:
        self.shut, self.name = shut, name
        self.refusals: list[float | None] = []

    def shut_for(self) -> float | None:
        return self.shut

    def refusal(self, after: float | None) -> str:
        self.refusals.append(after)
        return "refusal"


def test_waits_follow_the_schedule_from_its_start() -> None:
    course = Course(options(), None)
    assert course.number == 0
    assert [ask(course, now) for now in (10, 20, 30)] == [1, 2, 4]
    assert course.spent is None
    course.give_back()


def test_backoff_is_given_the_wait_before() -> None:
    seen: list[Any] = []

    def delay(index: int, previous: float | None, draw: float) -> float:
        seen.append((index, previous, draw))
        return 7.0 + index

    course = Course(options(delay=delay), None)
    assert [ask(course), ask(course)] == [7, 8]
    assert seen == [(0, None, 0.5), (1, 7.0, 0.5)]


def test_plan_is_given_the_wait_before() -> None:
    seen: list[Any] = []

    def plan(index: int, previous: float | None, verdict: Any, draw: Any) -> tuple[float, float, int]:
        seen.append((index, previous, verdict))
        return 3.0, 5.0, index + 2

    course = Course(options(plan=plan), None)
    assert [ask(course), ask(course)] == [3, 3]
    assert seen == [(0, None, TRANSIENT), (2, 5.0, TRANSIENT)]


def test_course_that_begins_again_is_as_new() -> None:
    purse = Purse()
    course = Course(options(within=5.0, most_seconds=5.0, most_attempts=2), purse)
    course.number = 1
    assert [ask(course, 0), ask(course, 1)] == [1, 2]
    course.begin_again()
    assert (course.number, course.spent) == (0, None)
    course.give_back()
    # Within 5 s from now on, not from the former first failure.
    assert [ask(course, 100), ask(course, 103)] == [1, 2]
    course.begin_again()
    course.number += 2
    assert reason(ask(course)) == "attempts"


def test_time_allowed_counts_from_the_first_failure() -> None:
    course = Course(options(delay=lambda *_: 1.0, within=5.0, most_seconds=5.0), None)
    assert [ask(course, 10), ask(course, 14)] == [1, 1]
    assert reason(ask(course, 14.5)) == "within"


def test_hint_is_waited_for_if_the_failure_came_in_time() -> None:
    hinted = Verdict(True, 2.0)
    course = Course(options(within=5.0, most_seconds=5.0), None)
    ask(course, 0)
    assert 2.0 <= ask(course, 4.5, hinted) <= 2.2
    assert reason(ask(course, 5.0, hinted)) == "within"


def test_failures_that_may_be_retried_or_were_pushed_back_are_reported() -> None:
    purse = Purse()
    course = Course(options(reports_failures=True), purse)
    fatal, pushback = Verdict(False), Verdict(False, kind="pushback")
    assert reason(ask(course, 0, fatal)) == "fatal"
    assert purse.asked == []
    assert reason(ask(course, 0, pushback)) == "fatal"
    assert purse.asked == [("failure", False)]
    ask(course, 0, Verdict(True, kind="timeout"))
    assert purse.asked[1:] == [("failure", True), ("timeout", math.inf)]


def test_budget_is_given_the_kind_and_the_time_left() -> None:
    purse = Purse()
    ask(Course(options(), purse), 0, Verdict(True, kind="throttle"))
    ask(Course(options(within=9.0, most_seconds=9.0), purse))
    assert purse.asked == [("throttle", math.inf), ("transient", 9.0)]


def test_budget_without_pay_is_asked_by_withdraw() -> None:
    asked: list[bool] = []
    budget = SimpleNamespace(withdraw=lambda is_timeout: asked.append(is_timeout) or 1.0)
    assert ask(Course(options(), budget), 0, Verdict(True, kind="timeout")) == 1
    assert asked == [True]


@pytest.mark.parametrize("name", ["pay", "other"])
def test_error_inside_pay_is_raised(name: str) -> None:
    class Broken:
        def pay(self, kind: str, max_wait: float | None) -> float:
            return getattr(object(), name)(kind)

        def withdraw(self, is_timeout: bool) -> float:
            return 1.0

    with pytest.raises(AttributeError, match=name):
        ask(Course(options(), Broken()))


def test_request_is_asked_about_the_visible_error() -> None:
    asked: list[Any] = []
    exchange = SimpleNamespace(veto=lambda error: asked.append(error) or "its body is gone")
    stop = ask(Course(options(), None, exchange))
    assert (reason(stop), stop.message) == ("unrepeatable", "not sent again: its body is gone")
    assert asked == [None]


def test_breaker_still_shut_after_the_wait_ends_the_call() -> None:
    gate = Gate(1.0)
    stop = ask(Course(options(), None, None, (gate,)))
    assert (reason(stop), stop.message, stop.after) == ("circuit", "db is open for another 1 s", 1.0)
    assert gate.refusals == [1.0]


def test_breaker_held_open_by_hand_has_no_end() -> None:
    gate = Gate(math.inf, name=None)
    stop = ask(Course(options(), None, None, (gate,)))
    assert (reason(stop), stop.message, stop.after) == ("circuit", "breaker is held open by hand", None)
    assert gate.refusals == [None]


@pytest.mark.parametrize("shut", [None, 0.99])
def test_breaker_that_may_admit_after_the_wait_is_waited_for(shut: float | None) -> None:
    assert ask(Course(options(), None, None, (Gate(shut),))) == 1


def test_open_breaker_does_not_end_a_call_that_retries_its_refusal() -> None:
    given = options(judge=lambda error: Verdict(error == "refusal"))
    assert ask(Course(given, None, None, (Gate(30.0),))) == 1


def test_cancelled_scope_ends_the_call_as_cancelled() -> None:
    with sp.deadline(50, name="job", clock=sp.testing.FakeClock()) as scope:
        scope.cancel()
        stop = ask(Course(options(), None), scope=scope)
        assert (reason(stop), stop.scope, stop.interrupted) == ("cancelled", scope, False)
        assert scope_ended(scope, interrupted=True).interrupted


def test_scope_with_time_left_does_not_end_the_call() -> None:
    with sp.deadline(50, clock=sp.testing.FakeClock()) as scope:
        assert ask(Course(options(), None), scope=scope) == 1


def test_refusals_are_ours_for_limits_of_the_caller_and_where_asked_for() -> None:
    limits = {"cancelled", "deadline"}
    assert refusing(False) == limits
    assert refusing(True) >= limits | {"budget", "within", "circuit"}
    assert "attempts" not in refusing(True)


def test_ending_keeps_its_consequences() -> None:
    ending = Ending("asked", marks=True, notes=False, first_try=True)
    assert (ending.refuses, ending.marks, ending.notes, ending.first_try) == ("asked", True, False, True)
