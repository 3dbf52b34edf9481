"""The short ways through the failure path come to what the long ones come to."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import types
from collections.abc import Iterator
from typing import Any

import pytest

import stormproof as sp


class Own(Exception):
    """An exception of the application's."""


@pytest.fixture
def events() -> Iterator[list[Any]]:
    seen: list[Any] = []
    unsubscribe = sp.subscribe(seen.append)
    yield seen
    unsubscribe()


def failing(error: type[Exception], calls: list[int]) -> Any:
    def call() -> None:
        calls.append(1)
        raise error("refused")

    return call


def test_fatal_failure_of_a_known_type_is_emitted_to_a_later_subscriber() -> None:
    wrapped = sp.retry(on=OSError, name="known")(failing(Own, []))
    for _ in range(3):
        with pytest.raises(Own):
            wrapped()
    seen: list[Any] = []
    unsubscribe = sp.subscribe(seen.append)
    try:
        with pytest.raises(Own):
            wrapped()
    finally:
        unsubscribe()
    assert [(type(event).__name__, event.reason) for event in seen] == [("GaveUp", "fatal")]


def test_fatal_failure_of_a_known_type_is_raised_as_it_is() -> None:
    wrapped = sp.retry(on=OSError)(failing(Own, []))
    for _ in range(3):
        with pytest.raises(Own) as caught:
            wrapped()
        assert not hasattr(caught.value, "__notes__")
        assert sp.stopped(caught.value) is None


def test_registered_rule_holds_for_a_type_that_was_met_before() -> None:
    classifier = sp.transient.with_()
    calls: list[int] = []
    wrapped = sp.retry(on=classifier, attempts=3, backoff=sp.Constant(0))(failing(Own, calls))
    for _ in range(2):
        with pytest.raises(Own):
            wrapped()
    assert len(calls) == 2
    classifier.register(Own, True)
    with pytest.raises(Own):
        wrapped()
    assert len(calls) == 5


def test_rule_registered_with_transient_holds_for_a_policy_that_names_the_type() -> None:
    calls: list[int] = []
    wrapped = sp.retry(on=Own, attempts=2, backoff=sp.Constant(0), budget=None)(failing(Own, calls))
    with pytest.raises(Own):
        wrapped()
    assert len(calls) == 2
    sp.transient.register(Own, sp.Verdict(False, kind="pushback"))
    try:
        with pytest.raises(Own):
            wrapped()
    finally:
        sp.transient.unregister(Own)
    assert len(calls) == 3


def test_refusal_of_a_breaker_in_a_retry_is_emitted_and_raised_as_itself(events: list[Any]) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=3600)
    wrapped = sp.Policy(sp.Retry(on=OSError), breaker, name="guarded")(failing(Own, []))
    with pytest.raises(Own):
        wrapped()
    for _ in range(2):
        del events[:]
        with pytest.raises(sp.CircuitOpen):
            wrapped()
        assert [type(event).__name__ for event in events] == ["Refused", "GaveUp"]


def test_budget_whose_withdraw_is_overridden_decides_about_retries() -> None:
    class Miser(sp.Budget):
        def withdraw(self, timeout: bool = False) -> float:
            return 0.0

    calls: list[int] = []
    wrapped = sp.retry(on=Own, backoff=sp.Constant(0), budget=Miser())(failing(Own, calls))
    with pytest.raises(Own) as caught:
        wrapped()
    stopped = sp.stopped(caught.value)
    assert stopped is not None and stopped.reason == "budget"
    assert len(calls) == 1


def test_budget_whose_failure_is_overridden_hears_of_failures() -> None:
    heard: list[bool] = []

    class Listener(sp.Budget):
        def failure(self, timeout: bool = False) -> None:
            heard.append(timeout)

    wrapped = sp.retry(on=Own, attempts=2, backoff=sp.Constant(0), budget=Listener())(failing(Own, []))
    with pytest.raises(Own):
        wrapped()
    assert heard == [False, False]


def test_policy_call_refuses_a_coroutine_function_before_and_after_its_first_use() -> None:
    async def coroutine() -> None: ...

    policy = sp.retry(on=Own)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"Policy\.call: fn must be a plain function"):
            policy.call(coroutine)
        assert policy.call(int, "7") == 7


@pytest.mark.parametrize("strategies", [(sp.Retry(on=Own, backoff=sp.Constant(0)),), (sp.Breaker(),), ()])
@pytest.mark.parametrize("is_off", [False, True])
def test_policy_call_refuses_all_that_return_a_coroutine(strategies: tuple[Any, ...], is_off: bool) -> None:
    async def coroutine() -> None: ...

    class Caller:
        async def __call__(self) -> None: ...

        def give(self) -> Any:
            return coroutine()

    policy = sp.Policy(*strategies)
    with sp.disabled() if is_off else contextlib.nullcontext():
        for fn in (coroutine, Caller(), Caller().__call__, functools.partial(coroutine), Caller().give):
            with pytest.raises(TypeError, match=r"Policy\.call: fn must"):
                policy.call(fn)


def test_policy_call_refuses_a_coroutine_that_a_later_attempt_gives() -> None:
    async def coroutine() -> None: ...

    calls: list[int] = []

    def fails_first() -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise Own("refused")
        return coroutine()

    with pytest.raises(TypeError, match=r"Policy\.call: fn must return a value"):
        sp.retry(on=Own, backoff=sp.Constant(0)).call(fails_first)


def test_policy_call_returns_a_generator_that_a_plain_function_made() -> None:
    def items() -> Any:
        return (item for item in range(3))

    assert list(sp.retry(on=Own).call(items)) == [0, 1, 2]


def test_async_scope_left_in_another_context_returns_its_result() -> None:
    @types.coroutine
    def pause() -> Iterator[None]:
        yield

    async def work() -> int:
        await pause()
        return 7

    coroutine = sp.Policy(sp.Deadline(5))(work)()
    contextvars.copy_context().run(coroutine.send, None)
    with pytest.raises(StopIteration) as ended:
        contextvars.copy_context().run(coroutine.send, None)
    assert ended.value.value == 7
    assert sp.remaining() is None


def test_attempt_seen_from_inside_counts_up_and_knows_the_last_error() -> None:
    seen: list[tuple[int, type | None]] = []

    def work() -> int:
        current = sp.attempt()
        assert current is not None
        seen.append((current.number, None if current.last_error is None else type(current.last_error)))
        if len(seen) < 3:
            raise Own("refused")
        return 7

    assert sp.retry(on=Own, backoff=sp.Constant(0))(work)() == 7
    assert seen == [(1, None), (2, Own), (3, Own)]
    assert sp.attempt() is None


def test_retried_coroutine_ended_in_another_context_returns_its_result() -> None:
    attempts: list[int] = []

    @types.coroutine
    def pause() -> Iterator[None]:
        yield

    async def work() -> int:
        attempts.append(1)
        if len(attempts) == 3:
            await pause()
            return 7
        raise Own("refused")

    coroutine = sp.retry(on=Own, backoff=sp.Constant(0))(work)()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stormproof._strategies.retry.aio_loop.sleep", sleep_without_a_loop)
        contextvars.copy_context().run(coroutine.send, None)
        with pytest.raises(StopIteration) as ended:
            contextvars.copy_context().run(coroutine.send, None)
    assert ended.value.value == 7


async def sleep_without_a_loop(seconds: float, clock: Any) -> None:
    """Do not sleep."""
