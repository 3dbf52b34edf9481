"""From ``on=`` and ``on_result=`` to a verdict: what may be given, and what each answer comes to."""

from __future__ import annotations

import functools
from typing import Any

import httpx
import pytest
from tests.support.http_errors import http_error

import stormproof as sp
from stormproof._classify.foreign_objects import leaves
from stormproof._classify.on_clause import judge, judge_answer, unwrap_marker
from stormproof._classify.verdict import Verdict


class Boom(Exception):
    """Nothing that anybody recognises."""


# What may be given.


@pytest.mark.parametrize(
    ("on", "error", "says"),
    [
        ((), ValueError, "on must name at least one exception type, got ()"),
        ((int,), TypeError, "on must hold exception types, got <class 'int'>"),
        (int, TypeError, "on must hold exception types, got <class 'int'>"),
        (("timeout",), TypeError, "on must hold exception types, got 'timeout'"),
        ((Boom, KeyboardInterrupt), ValueError, "on must not hold KeyboardInterrupt: "),
        (GeneratorExit, ValueError, "on must not hold GeneratorExit: "),
        ("timeout", TypeError, "on must be an exception type, a tuple of them or a callable, got 'timeout'"),
        (None, TypeError, "on must be an exception type, a tuple of them or a callable, got None"),
    ],
)
def test_invalid_on_is_refused_in_the_name_of_its_owner(on: Any, error: type[Exception], says: str) -> None:
    for owner, refused in (("Retry", lambda: judge(on)), ("Breaker", lambda: judge(on, "Breaker"))):
        with pytest.raises(error) as caught:
            refused()
        assert str(caught.value).startswith(f"{owner}: {says}")


def plain(error: Exception) -> bool:
    return True


def with_a_default(error: Exception, strict: bool = True) -> bool:
    return strict


def all_defaults(error: Exception | None = None, strict: bool = True) -> bool:
    return error is not None


def any_number(*errors: Exception) -> bool:
    return len(errors) == 1


def with_keywords(error: Exception, *, strict: bool = True) -> bool:
    return strict


class Rule:
    def __call__(self, error: Exception) -> bool:
        return True

    def method(self, error: Exception) -> bool:
        return True


@pytest.mark.parametrize(
    "on",
    [
        plain,
        with_a_default,
        all_defaults,
        any_number,
        with_keywords,
        Rule(),
        Rule().method,
        functools.partial(with_a_default, strict=True),
        lambda error: True,
    ],
)
def test_any_callable_that_takes_an_exception_is_accepted(on: Any) -> None:
    assert judge(on)(Boom()) == Verdict.RETRY


def nothing() -> bool:
    return True


def two(error: Exception, other: object) -> bool:
    return True


def needs_a_keyword(error: Exception, *, strict: bool) -> bool:
    return True


def one_keyword_too_many(error: Exception, *, strict: bool, kind: str = "") -> bool:
    return True


def generator(error: Exception) -> Any:
    yield True


async def coroutine(error: Exception) -> bool:
    return True


async def async_generator(error: Exception) -> Any:
    yield True


class AsyncRule:
    async def judge(self, error: Exception) -> bool:
        return True

    async def __call__(self, error: Exception) -> bool:
        return True


@pytest.mark.parametrize("on", [coroutine, async_generator, AsyncRule().judge, AsyncRule()])
def test_async_function_is_refused(on: Any) -> None:
    with pytest.raises(TypeError, match=r"^Retry: on must not be async, got "):
        judge(on)


@pytest.mark.parametrize("on", [nothing, two, needs_a_keyword, one_keyword_too_many, generator])
def test_function_that_cannot_take_an_exception_is_refused(on: Any) -> None:
    with pytest.raises(TypeError, match=r"^Retry: on must be a plain function of one argument, "):
        judge(on)


# Refusals of our own.


@pytest.mark.parametrize("on", [Exception, lambda error: True], ids=["type", "callable"])
def test_refusals_are_final_unless_names_refusals(on: Any) -> None:
    refusal = sp.RateLimited("no room")
    assert judge(on)(refusal) == Verdict.FATAL
    assert judge(on, "Fallback", names_refusals=True)(refusal).retry


@pytest.mark.parametrize("on", [Exception, lambda error: True], ids=["type", "callable"])
def test_refusal_that_is_judged_brings_its_hint(on: Any) -> None:
    refusal = sp.RateLimited("no room")
    refusal.retry_after = 4.0
    assert judge(on, names_refusals=True)(refusal).after == 4.0
    assert judge(sp.RateLimited)(refusal).after == 4.0


# What a callable answers.


@pytest.mark.parametrize("answer", [None, 0, "", 1, "yes"])
def test_answer_counts_by_its_truth(answer: Any) -> None:
    assert judge(lambda error: answer, "Hedge")(Boom()).retry is bool(answer)
    assert judge_answer(answer, "ok").retry is bool(answer)


def test_answer_that_is_still_to_be_awaited_is_refused() -> None:
    async def later(asked: Any) -> bool:
        return True

    with pytest.raises(TypeError, match=r"^Hedge: on must answer at once with a truth value or a Verdict"):
        judge(lambda error: later(str(error)), "Hedge")(Boom())


def test_policy_in_the_place_of_on_is_refused() -> None:
    for make in (sp.retry, sp.Retry, sp.Breaker):
        with pytest.raises(TypeError, match="on must say which errors, not how to retry them"):
            make(on=sp.retry(on=Boom))  # type: ignore[operator]


def test_explicit_verdict_is_used_unchanged() -> None:
    verdict = Verdict(True, 3.0, "throttle", "because")
    assert judge(lambda error: verdict)(Boom()) is verdict
    assert judge_answer(verdict, "ok") is verdict


def test_predicate_that_returns_false_gives_a_fatal_verdict() -> None:
    assert judge(lambda error: False)(Boom()) == Verdict.FATAL
    assert judge_answer(False, "ok") == Verdict.FATAL
    assert judge(Boom)(KeyError()) == Verdict.FATAL


def test_true_from_on_keeps_the_kind_and_the_reason_of_the_error() -> None:
    timed_out = Verdict(True, None, "timeout", "timed out")
    reset = sp.transient(ConnectionResetError())
    assert judge(lambda error: True)(TimeoutError()) == timed_out
    assert judge(TimeoutError)(TimeoutError()) == timed_out
    assert judge(Boom)(Boom()) == Verdict.RETRY
    assert judge(ConnectionError)(ConnectionResetError()) == reset
    # Asked twice: the second answer comes from what was remembered.
    known = judge(OSError)
    assert [known(ConnectionResetError()) for _ in range(2)] == [reset] * 2
    assert known(TimeoutError()) == timed_out


def test_do_not_retry_of_a_server_is_final_for_retry_and_counted_by_breakers() -> None:
    said_no = http_error(503, x_should_retry="false")
    assert judge(OSError)(said_no).kind == "pushback"
    assert judge(lambda error: True)(said_no).kind == "pushback"
    counted = judge(OSError, names_refusals=True)(said_no)
    assert (counted.retry, counted.kind) == (True, "transient")
    counted = judge(lambda error: True, names_refusals=True)(said_no)
    assert (counted.retry, counted.kind) == (True, "transient")


def test_refused_result_is_retried_unless_the_server_forbids() -> None:
    said_no = httpx.Response(503, headers={"x-should-retry": "false"})
    assert judge_answer(True, said_no).kind == "pushback"
    assert judge_answer(True, httpx.Response(503)) == Verdict.RETRY
    assert judge_answer(True, "anything") == Verdict.RETRY


def test_server_s_hint_and_throttling_are_kept() -> None:
    throttled = judge(OSError)(http_error(429, retry_after="7"))
    assert (throttled.retry, throttled.after, throttled.kind) == (True, 7.0, "throttle")


# Groups, and the two marks.


@pytest.mark.parametrize("on", [Boom, lambda error: True], ids=["type", "callable"])
def test_group_is_judged_by_its_leaves(on: Any) -> None:
    rule = judge(on)
    assert rule(ExceptionGroup("", [Boom(), ExceptionGroup("", [Boom()])])) == Verdict.RETRY
    permanent = ExceptionGroup("", [Boom(), sp.Permanent(Boom())])
    assert rule(permanent) == Verdict.FATAL
    hinted = ExceptionGroup("", [sp.RetryAfter(2, Boom()), sp.RetryAfter(5, Boom()), sp.RetryAfter(3)])
    assert rule(hinted) == Verdict(True, 5.0)
    assert judge(Boom)(ExceptionGroup("", [Boom(), KeyError()])) == Verdict.FATAL


def test_group_that_is_named_is_not_looked_into() -> None:
    assert judge(ExceptionGroup)(ExceptionGroup("", [KeyError()])) == Verdict.RETRY


def test_hint_of_a_leafs_own_verdict_counts() -> None:
    rule = judge(lambda error: True if isinstance(error, ExceptionGroup) else Verdict(True, 6.0))
    assert rule(ExceptionGroup("", [sp.RetryAfter(5, Boom()), Boom()])) == Verdict(True, 6.0)


def test_leaves_are_the_errors_that_are_not_groups() -> None:
    one, other, third = Boom(), KeyError(), Boom()
    group = ExceptionGroup("", [one, ExceptionGroup("", [other, ExceptionGroup("", [third])])])
    assert set(leaves(group)) == {one, other, third}


def test_unwrap_marker_looks_through_permanent_and_retry_after() -> None:
    error, cause = Boom(), KeyError()
    assert unwrap_marker(error) == (error, None)
    assert unwrap_marker(sp.Permanent(error)) == (error, None)
    assert unwrap_marker(sp.RetryAfter(3, error)) == (error, 3.0)
    assert unwrap_marker(sp.RetryAfter(3)) == (None, 3.0)
    raised_from = sp.RetryAfter(3)
    raised_from.__cause__ = cause
    assert unwrap_marker(raised_from) == (cause, 3.0)
    both = sp.RetryAfter(3, error)
    both.__cause__ = cause
    assert unwrap_marker(both) == (error, 3.0)
