"""A call that reached its function and failed raises that failure, whatever refused a later attempt.

Where ``on`` named the refusal and the attempts were used up at one, the caller got the refusal, and `stopped`
said "0 attempts"; where ``on_result`` had refused the function's result, the caller got the refusal of the
attempt after it; a deadline that a later wait for a place would have passed was raised without the failure as
its cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import stormproof as sp


def closed() -> sp.RateLimit:
    """Admits one call."""
    return sp.RateLimit(sp.Limiter(0, 1))


def failing() -> None:
    raise ConnectionError("refused")


def policy(*inner: Any, on: Any = (ConnectionError, sp.RateLimited), **options: Any) -> sp.Policy:
    return sp.Policy(sp.Retry(on, attempts=3, backoff=sp.Constant(0), budget=None, **options), *inner)


def in_thread(made: sp.Policy, fn: Callable[[], Any]) -> Any:
    return made.call(fn)


def in_task(made: sp.Policy, fn: Callable[[], Any]) -> Any:
    async def call() -> Any:
        return fn()

    return asyncio.run(made.acall(call))


BOTH = pytest.mark.parametrize("run", [in_thread, in_task])


@BOTH
def test_failure_surfaces_when_attempts_end_at_a_named_refusal(run: Any) -> None:
    with pytest.raises(ConnectionError) as caught:
        run(policy(closed()), failing)
    stopped = sp.stopped(caught.value)
    assert stopped is not None and (stopped.reason, stopped.attempts) == ("limit", 3)


@BOTH
def test_refusal_on_request_is_raised_from_the_failure(run: Any) -> None:
    with pytest.raises(sp.RateLimited) as caught:
        run(policy(closed(), raises="refusal"), failing)
    assert isinstance(caught.value.__cause__, ConnectionError)


@BOTH
def test_fallback_that_names_the_refusal_answers(run: Any) -> None:
    retry = policy(closed()).strategies
    assert run(sp.Policy(sp.Fallback("kept", on=sp.RateLimited), *retry), failing) == "kept"


@BOTH
def test_call_that_was_never_admitted_raises_the_refusal_with_its_attempts(run: Any) -> None:
    with pytest.raises(sp.RateLimited) as caught:
        run(policy(sp.RateLimit(sp.Limiter(0, 0))), failing)
    stopped = sp.stopped(caught.value)
    assert stopped is not None and (stopped.reason, stopped.attempts) == ("attempts", 3)


def test_block_raises_the_failure() -> None:
    limited = sp.Policy(closed())
    with pytest.raises(ConnectionError) as caught:
        for attempt in sp.retrying(on=(ConnectionError, sp.RateLimited), backoff=sp.Constant(0), budget=None):
            with attempt:
                limited.call(failing)
    stopped = sp.stopped(caught.value)
    assert stopped is not None and stopped.reason == "limit"


@BOTH
@pytest.mark.parametrize("on", [ConnectionError, (ConnectionError, sp.RateLimited)])
def test_refused_result_is_returned_when_a_later_attempt_is_refused(run: Any, on: Any) -> None:
    made = policy(closed(), on=on, on_result=lambda value: value is None)
    assert run(made, lambda: None) is None


def test_failure_after_a_refused_result_surfaces() -> None:
    results: list[Any] = [None, ConnectionError("refused")]

    def step() -> Any:
        result = results.pop(0)
        if result is not None:
            raise result

    made = policy(sp.RateLimit(sp.Limiter(0, 2)), on=ConnectionError, on_result=lambda value: value is None)
    with pytest.raises(ConnectionError):
        made.call(step)


@BOTH
def test_deadline_that_a_wait_further_in_would_pass_has_the_failure_as_its_cause(run: Any) -> None:
    error = ConnectionError("refused")

    def step() -> None:
        raise error

    limited = sp.RateLimit(sp.Limiter(1, 1), max_wait=None)
    retry = sp.Retry(ConnectionError, backoff=sp.Constant(0), budget=None)
    made = sp.Policy(sp.Deadline(0.5), retry, limited, clock=sp.testing.FakeClock())
    with pytest.raises(sp.DeadlineExceeded) as caught:
        run(made, step)
    assert caught.value.__cause__ is error
    stopped = sp.stopped(caught.value)
    assert stopped is not None and stopped.reason == "deadline"


def test_deadline_of_the_functions_own_keeps_its_cause() -> None:
    steps: list[Exception] = [ConnectionError("refused"), sp.DeadlineExceeded("late", "inner")]

    def step() -> None:
        raise steps.pop(0)

    with sp.deadline(30, "outer"), pytest.raises(sp.DeadlineExceeded) as caught:
        policy(on=ConnectionError).call(step)
    assert caught.value.scope == "inner" and caught.value.__cause__ is None
