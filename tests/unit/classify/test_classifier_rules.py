"""The classifier's weighing: depths, groups, marks, methods and rules, each at its edge."""

from __future__ import annotations

import datetime
import math
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

import stormproof as sp
from stormproof._classify.classifier import Classifier, transient
from stormproof._classify.exhaustion import Mark, mark
from stormproof._classify.on_clause import judge
from stormproof._classify.verdict import Verdict


class Own(Exception):
    """A type that no table knows."""


# Verdicts.


def test_verdict_accepts_durations_as_hints() -> None:
    assert Verdict(True, 0.0).after == 0.0
    assert Verdict(True, 3).after == 3.0
    assert Verdict(True, math.inf).after == math.inf
    assert Verdict(True, datetime.timedelta(seconds=2)).after == 2.0
    assert Verdict(True, np.float64("inf")).after == math.inf
    for bad in (-1, -0.5, math.nan):
        with pytest.raises(ValueError, match=r"^Verdict: after must be "):
            Verdict(True, bad)


def test_verdict_without_a_kind_has_that_of_its_answer() -> None:
    assert (Verdict(True).kind, Verdict(False).kind) == ("transient", "fatal")
    assert (Verdict.RETRY.kind, Verdict.FATAL.kind) == ("transient", "fatal")


# Depth.


def wrapped(times: int) -> Exception:
    error: Exception = ConnectionResetError()
    for _ in range(times):
        error = sp.RetryAfter(1, error)
    return error


def grouped(times: int) -> Exception:
    error: Exception = ConnectionResetError()
    for _ in range(times):
        error = sp.RetryAfter(1, ExceptionGroup("", [error]))
    return error


def test_classifier_looks_through_at_most_four_wrappers() -> None:
    assert transient(wrapped(4)).retry
    assert not transient(wrapped(5)).retry
    assert transient(grouped(2)).retry
    assert not transient(grouped(3)).retry


# Groups.


def said_no() -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://localhost/")
    response = httpx.Response(503, headers={"x-should-retry": "false"}, request=request)
    return httpx.HTTPStatusError("503", request=request, response=response)


def test_pushback_in_a_group_comes_before_other_refusals() -> None:
    assert transient(ExceptionGroup("", [Own(), said_no()])).kind == "pushback"
    assert transient(ExceptionGroup("", [said_no(), Own()])).kind == "pushback"
    assert transient(ExceptionGroup("", [Own(), ConnectionResetError()])).kind == "fatal"


def test_verdict_of_a_group_has_the_reason_of_its_first_retryable_leaf() -> None:
    rule = Classifier().register(Own, lambda error: Verdict(True, error.args[0], "throttle", error.args[1]))
    seen = rule(ExceptionGroup("", [Own(2.0, "first"), Own(5.0, "second")]))
    assert (seen.after, seen.kind, seen.reason) in [(5.0, "transient", "first"), (5.0, "transient", "second")]


def test_group_of_timeouts_has_the_kind_timeout() -> None:
    assert transient(ExceptionGroup("", [TimeoutError(), TimeoutError()])).kind == "timeout"
    assert transient(ExceptionGroup("", [TimeoutError(), ConnectionResetError()])).kind == "transient"


# Marks and methods.


def response(method: str = "GET", status: int = 503, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, request=httpx.Request(method, "http://localhost/"))


def test_response_that_an_inner_layer_gave_up_on_is_final() -> None:
    answer = response(retry_after="7")
    assert transient(answer).retry
    mark(answer, Mark("inner", object(), 3))
    seen = transient(answer)
    assert (seen.retry, seen.after, seen.kind, seen.reason) == (False, 7.0, "fatal", "exhausted by inner")


def test_method_that_may_have_been_processed_is_final_and_keeps_its_hint() -> None:
    seen = transient(response("POST", retry_after="7"))
    assert (seen.retry, seen.after, seen.kind) == (False, 7.0, "fatal")
    assert "; POST without an idempotency key may have been processed" in seen.reason


def test_long_method_is_cut_in_the_reason() -> None:
    seen = transient(response("X" * 50))
    assert f"; {'X' * 20} without" in seen.reason


# Rules.


def test_rule_is_found_by_class_and_by_either_spelling() -> None:
    for key in (httpx.ReadError, "httpx.ReadError"):
        assert not Classifier().register(key, False)(httpx.ReadError("x")).retry
    inner = type("Inner", (Exception,), {"__module__": "lib.sub.mod"})
    for spelt in ("lib.sub.mod.Inner", "lib.Inner"):
        assert Classifier().register(spelt, True)(inner()).retry
    assert not Classifier().register("lib.sub.Inner", True)(inner()).retry
    assert Classifier().register("lib.Inner", True).describe()["rules"] == ["lib.Inner"]
    assert Classifier().register(Own, True).describe()["rules"] == [f"{__name__}.Own"]


def test_rule_is_called_every_time_until_unregistered() -> None:
    asked: list[Any] = []

    def rule(error: Exception) -> bool:
        asked.append(error)
        return True

    made = Classifier().register(Own, rule)
    first, second = Own(), Own()
    assert made(first).retry and made(second).retry
    assert asked == [first, second]
    made.unregister(Own)
    assert not made(Own()).retry
    made.register(Own, True)
    assert made(Own()).retry
    made.unregister("never.Registered")
    assert made(Own()).retry


def test_rule_1025_is_refused() -> None:
    made = Classifier()
    for place in range(1024):
        made.register(f"lib.Error{place}", True)
    made.register("lib.Error0", False)
    with pytest.raises(ValueError, match=r"^Classifier: at most 1024 rules can be registered$"):
        made.register("lib.Another", True)


def test_tables_are_described_as_plain_data() -> None:
    described = transient.describe()
    assert described["kind"] == "transient"
    assert described["rules"] == []
    assert described["statuses"] == [408, 425, 429, 500, "502-504", 507, 509, "512-599"]


def test_equal_classifiers_have_one_hash_and_others_mostly_not() -> None:
    one, other = transient.with_(statuses={500}), transient.with_(statuses={500})
    assert one == other
    assert hash(one) == hash(other)
    assert hash(one) != hash(transient.with_(statuses={501}))


# What is kept per type.


class Kept(ConnectionError):
    """A failure of the user's own, with nothing to read in it."""


@pytest.mark.parametrize("on", ["transient", "types"])
def test_verdict_kept_for_a_type_is_dropped_when_a_rule_is_registered(on: str) -> None:
    said = Verdict(False, kind="pushback")
    judged = judge(transient if on == "transient" else Kept)
    assert [judged(Kept()).retry for _ in range(3)] == [True] * 3
    transient.register(Kept, said)
    try:
        assert judged(Kept()) is said
    finally:
        transient.unregister(Kept)
    assert judged(Kept()).retry


@pytest.mark.parametrize("on", ["transient", "types"])
def test_verdict_cached_for_a_type_is_not_used_for_an_error_with_a_response(on: str) -> None:
    judged = judge(transient if on == "transient" else Kept)
    assert judged(Kept()).after is None
    error = Kept()
    error.response = SimpleNamespace(status_code=503, headers={"retry-after": "7"})  # type: ignore[attr-defined]
    assert judged(error) == judge(transient if on == "transient" else Kept)(error)
    assert judged(Kept()).after is None
