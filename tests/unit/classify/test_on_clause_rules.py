"""What `on=` and `on_result=` make of errors, groups, answers and our own refusals; what they keep."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import stormproof as sp
from stormproof._classify.on_clause import by_type, judge, judge_answer, judge_marked
from stormproof._classify.verdict import Verdict


class Boom(Exception):
    pass


def caused(error: Exception) -> Exception:
    """Return ``error`` with a cause, so that more than its type is to be read."""
    error.__cause__ = ValueError()
    return error


@pytest.mark.parametrize(
    ("on", "advice"),
    [
        ([Boom], "; write a tuple"),
        (Boom(), "; give its type, Boom"),
        (3, "; did you mean attempts=?"),
        (None, "; did you mean on=transient?"),
        ("transient", "; did you mean on=transient?"),
        ("Boom", "; give the type itself, not its name"),
        (3.5, ""),
        (True, ""),
    ],
    ids=repr,
)
def test_advice_fits_what_was_given(on: Any, advice: str) -> None:
    with pytest.raises(TypeError) as caught:
        judge(on)
    assert str(caught.value).endswith(f"got {on!r}{advice}")


# The kind and the hint of the error itself.


@pytest.mark.parametrize(
    ("error", "kind"),
    [(TimeoutError(), "timeout"), (sp.AttemptTimeout(1.0), "timeout"), (Boom(), "transient")],
)
def test_named_type_keeps_the_kind_of_its_error(error: Exception, kind: str) -> None:
    verdict = judge((type(error),))(error)
    assert (verdict.retry, verdict.kind) == (True, kind)


def test_error_that_is_fatal_by_itself_is_retried_where_it_is_named() -> None:
    """With its hint and its kind where that matters to budgets; its reason not to retry is left out."""

    class Answered(Exception):
        status_code = 404
        response = SimpleNamespace(status_code=404, headers={"Retry-After": "7"})

    assert not sp.transient(Answered()).retry
    verdict = judge(Answered)(Answered())
    assert (verdict.retry, verdict.after, verdict.reason) == (True, 7.0, "")
    assert verdict.kind == "transient"


def test_throttled_error_keeps_its_reason_and_its_kind() -> None:
    class Answered(Exception):
        response = SimpleNamespace(status_code=429, headers={"Retry-After": "7"})

    verdict = judge(Answered)(Answered())
    assert verdict == sp.transient(Answered())
    assert (verdict.retry, verdict.after, verdict.kind) == (True, 7.0, "throttle")
    assert verdict.reason


def test_refusal_that_is_named_is_retried_after_its_own_time() -> None:
    verdict = judge(sp.CircuitOpen)(sp.CircuitOpen("db", 5.0))
    assert (verdict.retry, verdict.after) == (True, 5.0)
    assert not judge(Exception)(sp.CircuitOpen("db", 5.0)).retry


# Groups.


def group(*errors: Exception) -> Any:
    return ExceptionGroup("several", errors)


def test_group_of_timeouts_is_a_timeout() -> None:
    named = judge((TimeoutError, Boom))
    assert named(group(TimeoutError(), TimeoutError())).kind == "timeout"
    assert named(group(TimeoutError(), Boom())).kind == "transient"
    assert named(group(Boom(), Boom())).kind == "transient"


def test_group_has_the_longest_hint_and_a_reason_of_its_leaves() -> None:
    def on(error: Any) -> Any:
        return type(error) is not Boom or Verdict(True, error.args[0], "transient", error.args[1])

    verdict = judge(on)(group(Boom(1.0, ""), Boom(3.0, "first"), Boom(2.0, "second")))
    assert (verdict.retry, verdict.after) == (True, 3.0) and verdict.reason in ("first", "second")
    assert judge(on)(group(Boom(None, ""), Boom(None, ""))).reason == ""
    leaves = judge((Boom,))(group(sp.RetryAfter(4.0, Boom()), sp.RetryAfter(2.0, Boom())))
    assert (leaves.retry, leaves.after) == (True, 4.0)


def test_group_with_one_fatal_leaf_is_fatal() -> None:
    assert not judge(Boom)(group(Boom(), KeyError())).retry
    assert not judge(Boom)(group(Boom(), sp.Permanent(Boom()))).retry


# What is remembered per type.


def test_verdicts_are_known_by_type_only_where_nothing_is_attached() -> None:
    judged = judge((Boom, ConnectionError))
    known = by_type(judged).known
    for error in (caused(Boom()), caused(KeyError())):
        judged(error)
    assert known == {}
    assert judged(KeyError()).retry is False and known[KeyError] is Verdict.FATAL
    assert judged(ConnectionError()).retry is True and known[ConnectionError].retry is True
    # What is known of one type says nothing of another.
    assert judged(Boom()).retry is True and judged(ValueError()).retry is False


def test_type_that_may_mean_several_things_is_never_known() -> None:
    judged = judge(Exception)

    class Answered(Exception):
        status_code = 503

    judged(Answered())
    assert Answered not in by_type(judged).known


def test_verdicts_of_a_callable_are_never_known() -> None:
    own = by_type(judge(lambda error: True))
    assert (own.known, own.final) == ({}, set())


def test_refusals_that_are_not_named_are_final() -> None:
    judged = judge(Exception)
    assert not judged(sp.CircuitOpen("db", 5.0)).retry
    assert not judged(KeyboardInterrupt()).retry
    assert by_type(judged).final == {sp.CircuitOpen}


def test_no_refusal_is_final_where_some_are_named() -> None:
    judged = judge((Boom, sp.CircuitOpen))
    assert not judged(sp.BulkheadFull("db", 5)).retry
    assert by_type(judged).final == set()


def stopped(budget: Any, **options: Any) -> Exception:
    """Return the error of a call that was given up."""

    def fails() -> None:
        raise Boom

    policy = sp.retry(on=Boom, backoff=sp.Constant(0), budget=budget, **options)
    with pytest.raises(Boom) as caught:
        policy.call(fails)
    return caught.value


def test_error_stopped_by_a_refusal_matches_where_that_is_named() -> None:
    error = stopped(sp.Budget(0, burst=0))
    assert sp.stopped(error).reason == "budget"
    named = judge(sp.BudgetExhausted)
    assert named(error).retry
    assert not named(Boom()).retry and not named(caused(Boom())).retry
    assert not judge(sp.CircuitOpen)(error).retry
    # One that used up its attempts was refused nothing.
    assert not named(stopped(None, attempts=2)).retry


# Answers.


def response(**headers: str) -> Any:
    return SimpleNamespace(status_code=200, headers=headers)


def test_answer_that_is_a_verdict_is_taken() -> None:
    own = Verdict(True, 3.0)
    assert judge_answer(own, response()) is own


@pytest.mark.parametrize("answer", [False, None, 0, ""])
def test_answer_that_is_false_accepts_the_result(answer: object) -> None:
    assert judge_answer(answer, response()).retry is False


def test_refused_result_comes_back_when_it_says() -> None:
    assert judge_answer(True, response()) == Verdict.RETRY
    assert judge_answer(True, object()) == Verdict.RETRY
    hinted = judge_answer(True, response(**{"Retry-After": "9"}))
    assert (hinted.retry, hinted.after) == (True, 9.0)
    busy = SimpleNamespace(status_code=503, headers={"Retry-After": "4"})
    assert (judge_answer(True, busy).retry, judge_answer(True, busy).after) == (True, 4.0)


# Marks.


def test_hint_around_an_error_is_a_floor_for_its_own() -> None:
    named = judge(Boom)
    assert judge_marked(named, sp.RetryAfter(0.0, Boom())).after == 0.0
    assert judge_marked(named, sp.RetryAfter(0.25, Boom())).after == 0.25
    assert judge_marked(named, sp.RetryAfter(2.0)).retry
    assert not judge_marked(named, sp.Permanent(Boom())).retry
    assert not judge_marked(named, sp.RetryAfter(2.0, KeyError())).retry
