"""The fallback: what it stands in for, with what, and what it never catches."""

from __future__ import annotations

import asyncio
import functools
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.support.loops import Loop, each_loop
from tests.support.scripted import ASYNCIO, SYNC, Bang, Boom, each_way, retry

import stormproof as sp


def falling(value: Any, **options: Any) -> sp.Policy:
    return sp.Policy(sp.Fallback(value, **options), name="score")


# What is given.


@each_way
def test_success_passes_through(play: Any) -> None:
    seen = play(falling("plan b"), "fine").returned("fine").made(1)
    assert seen.events == []


@each_way
def test_failure_gives_the_value(play: Any) -> None:
    seen = play(falling("plan b"), Boom).returned("plan b").made(1)
    assert seen.events == [sp.events.FellBack("score", "tests.support.scripted.Boom")]


@pytest.mark.parametrize("value", [None, 0, "", [], False])
def test_falsy_value_is_a_value(value: Any) -> None:
    SYNC(falling(value), Boom).returned(value)
    ASYNCIO(falling(value), Boom).returned(value)


@each_way
def test_callable_that_takes_nothing_is_called(play: Any) -> None:
    play(falling(lambda: "called"), Boom).returned("called")


@each_way
def test_callable_that_takes_the_error_gets_it(play: Any) -> None:
    got: list[Any] = []
    seen = play(falling(got.append), Boom).returned(None)
    assert got == [seen.last]


def no_argument() -> str:
    return "none"


def one_argument(error: Exception) -> str:
    return type(error).__name__


def optional(error: Exception | None = None) -> str:
    return type(error).__name__


def any_number(*errors: Exception) -> str:
    return type(errors[0]).__name__


def only_keywords(*, depth: int = 1) -> str:
    return "none"


class Answer:
    def __call__(self, error: Exception) -> str:
        return type(error).__name__

    def method(self) -> str:
        return "none"


class Wrapped:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __eq__(self, other: object) -> bool:
        return other == "Boom" and isinstance(self.error, Boom)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("fallback", "answer"),
    [
        (no_argument, "none"),
        (one_argument, "Boom"),
        (optional, "Boom"),
        (any_number, "Boom"),
        (only_keywords, "none"),
        (functools.partial(one_argument), "Boom"),
        (functools.partial(lambda first, error: first, "first"), "first"),
        (Answer(), "Boom"),
        (Answer().method, "none"),
        (Wrapped, "Boom"),
        (list, []),
        (dict, {}),
        (str, ""),
        (MagicMock(return_value="mock"), "mock"),
    ],
)
def test_fallback_gets_the_arguments_it_can_take(fallback: Any, answer: Any) -> None:
    assert SYNC(falling(fallback), Boom).value == answer


def test_class_makes_a_new_object_for_each_call() -> None:
    policy = falling(list)
    assert SYNC(policy, Boom).value is not SYNC(policy, Boom).value


def two(error: Exception, more: int) -> None: ...


def needs_keyword(*, key: str) -> None: ...


@pytest.mark.parametrize("fallback", [two, needs_keyword])
def test_callable_that_needs_more_is_refused(fallback: Any) -> None:
    with pytest.raises(
        TypeError, match="Fallback: value must be callable without arguments or with the error"
    ):
        sp.Fallback(fallback)


# Async.


@each_loop
def test_async_callable_is_awaited(loop: Loop) -> None:
    async def other(error: Exception) -> str:
        await loop.sleep(1)
        return f"instead of {type(error).__name__}"

    @falling(other)
    async def call() -> str:
        raise Boom

    assert loop.run(call) == "instead of Boom"


def test_awaitable_result_of_a_lambda_is_awaited() -> None:
    async def other(where: str) -> str:
        return where

    ASYNCIO(falling(lambda: other("there")), Boom).returned("there")


async def fetch_other() -> str:
    return "other"


def test_async_callable_is_refused_in_sync_code() -> None:
    policy = falling(fetch_other)
    with pytest.raises(TypeError, match=r"value must not be async where the call is not, got .*fetch_other"):
        policy(no_argument)
    with pytest.raises(TypeError, match="must not be async"):
        policy.call(no_argument)
    assert asyncio.run(policy.acall(fetch_other)) == "other"


# What it catches.


@each_way
def test_on_limits_the_caught_errors(play: Any) -> None:
    policy = falling("plan b", on=ConnectionError)
    play(policy, Boom).returned("plan b")
    seen = play(policy, Bang).raised(Bang)
    assert seen.error is seen.last
    assert seen.events == []


@pytest.mark.parametrize(
    "on",
    [(ConnectionError, KeyError), lambda error: isinstance(error, Boom), sp.transient],
    ids=["a tuple", "a callable", "a classifier"],
)
def test_on_may_be_a_tuple_a_callable_or_a_classifier(on: Any) -> None:
    SYNC(falling("plan b", on=on), Boom).returned("plan b")
    SYNC(falling("plan b", on=on), Bang).raised(Bang)


def refusals() -> list[Exception]:
    return [
        sp.BudgetExhausted(),
        sp.DeadlineExceeded(),
        sp.AttemptTimeout(),
        sp.CircuitOpen(),
        sp.RateLimited(),
        sp.BulkheadFull(),
        sp.Throttled(),
    ]


@pytest.mark.parametrize("refusal", refusals(), ids=lambda error: type(error).__name__)
def test_refusals_are_failures_like_any_other(refusal: Exception) -> None:
    SYNC(falling("plan b"), refusal).returned("plan b")
    SYNC(falling("plan b", on=(ConnectionError,)), refusal).raised(type(refusal))


def test_fallback_replaces_an_open_breaker() -> None:
    breaker = sp.Breaker()
    breaker.force_open()
    SYNC(sp.Policy(sp.Fallback("plan b"), breaker), "never").returned("plan b").made(0)


@each_way
def test_fallback_replaces_an_exhausted_retry(play: Any) -> None:
    policy = sp.Policy(sp.Fallback(one_argument), *retry(attempts=3).strategies)
    play(policy, Boom, ...).returned("Boom").made(3)


@pytest.mark.parametrize(
    "on", [Exception, BaseException, lambda error: True], ids=["Exception", "Base", "all"]
)
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_base_exceptions_are_never_caught(on: Any, stop: type[BaseException]) -> None:
    @falling("plan b", on=on)
    def call() -> None:
        raise stop

    with pytest.raises(stop):
        call()


@each_loop
def test_cancelled_call_has_no_fallback(loop: Loop) -> None:
    @falling("plan b", on=BaseException)
    async def call() -> None:
        await loop.sleep(60)

    async def scenario() -> None:
        assert await loop.cut(1, call)
        assert loop.time() == 1

    loop.run(scenario)


@each_way
def test_cancelled_scope_has_no_fallback(play: Any) -> None:
    play(falling("plan b"), sp.Cancelled("cancelled")).raised(sp.Cancelled)


@each_way
def test_mark_is_judged_by_its_cause(play: Any) -> None:
    inner = Boom()
    got: list[Any] = []
    policy = falling(got.append, on=ConnectionError)
    play(policy, sp.Permanent(inner)).returned(None)
    play(policy, sp.RetryAfter(5, inner)).returned(None)
    assert got == [inner, inner]
    play(policy, sp.Permanent(Bang())).raised(sp.Permanent)


def test_error_of_the_fallback_keeps_the_failure_as_context() -> None:
    def worse() -> None:
        raise Bang

    seen = SYNC(falling(worse), Boom).raised(Bang)
    assert seen.error is not None and seen.error.__context__ is seen.last


def test_disabled_fallback_does_nothing() -> None:
    SYNC(falling("plan b"), Boom, inside=sp.disabled).raised(Boom)


# Streams.


def test_fallback_replaces_a_stream_that_failed_before_its_first_item() -> None:
    @falling(lambda: [1, 2])
    def items() -> Iterator[int]:
        raise Boom
        yield 0

    assert list(items()) == [1, 2]


def test_fallback_does_not_replace_a_stream_that_fails_after_its_first_item() -> None:
    @falling(["other"])
    def items() -> Iterator[str]:
        yield "first"
        raise Boom

    stream = items()
    assert next(stream) == "first"
    with pytest.raises(Boom):
        next(stream)


async def other_stream() -> AsyncIterator[int]:
    yield 3
    yield 4


@each_loop
@pytest.mark.parametrize(
    ("fallback", "expected"), [([1, 2], [1, 2]), (other_stream, [3, 4]), (lambda: iter("ab"), ["a", "b"])]
)
def test_items_replace_an_async_stream(loop: Loop, fallback: Any, expected: list[Any]) -> None:
    @falling(fallback)
    async def items() -> AsyncIterator[Any]:
        raise Boom
        yield 0

    async def scenario() -> list[Any]:
        return [item async for item in items()]

    assert loop.run(scenario) == expected


# The object.


@pytest.mark.parametrize(
    ("on", "says"),
    [
        ((), "on must name at least one exception type"),
        (int, "on must hold exception types, got <class 'int'>"),
        (5, "on must be an exception type, a tuple of them or a callable, got 5"),
        (KeyboardInterrupt, "on must not hold KeyboardInterrupt"),
    ],
)
def test_invalid_option_is_refused(on: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"Fallback: {says}"):
        sp.Fallback(None, on=on)


def test_equal_options_make_equal_fallbacks() -> None:
    fallback = sp.Fallback("x", on=(KeyError,))
    assert fallback == sp.Fallback("x", on=(KeyError,)) != sp.Fallback("y", on=(KeyError,))
    assert pickle.loads(pickle.dumps(fallback)) == fallback
    assert eval(repr(fallback), {"Fallback": sp.Fallback}) == fallback
    assert fallback.describe() == {"kind": "Fallback", "value": "x", "on": ["KeyError"]}


def test_signature_is_kept() -> None:
    @falling("plan b")
    def call(a: int, *, b: int = 2) -> int:
        return a + b

    assert call(1, b=3) == 4
    call_anyhow: Callable[..., Any] = call
    with pytest.raises(TypeError):
        call_anyhow(1, c=3)
