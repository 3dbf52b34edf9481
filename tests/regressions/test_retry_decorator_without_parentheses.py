"""`@sp.retry` above a function took the function for `on=`, said nothing, and put a policy in its place."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import stormproof as sp


async def fetch_async(user: int) -> int:
    return user


def stream(user: int) -> Any:
    yield user


def none() -> int:
    return 1


def two(user: int, timeout: float) -> int:
    return user


def by_name(error: Exception, *, strict: bool) -> bool:
    return strict


@pytest.mark.parametrize("function", [stream, none, two, by_name])
def test_function_that_cannot_judge_an_exception_is_refused_when_given(function: Any) -> None:
    with pytest.raises(TypeError, match=r"Retry: on must be a plain function .* @retry\(on=\.\.\.\)"):
        sp.retry(function)
    with pytest.raises(TypeError, match="Breaker: on must be a plain function"):
        sp.Breaker(on=function)


def test_async_function_is_refused_when_given() -> None:
    with pytest.raises(TypeError, match=r"^Retry: on must not be async"):
        sp.retry(fetch_async)
    with pytest.raises(TypeError, match=r"^Breaker: on must not be async"):
        sp.Breaker(on=fetch_async)


def test_bare_retry_on_a_function_raises_when_it_is_decorated() -> None:
    with pytest.raises(TypeError, match=r"got the function .*fetch to decorate; .*@retry\(on=\.\.\.\)"):

        @sp.retry
        def fetch(user: int) -> int:
            return user


class Judge:
    def ask(self, error: Exception) -> bool:
        return True

    def __call__(self, error: Exception) -> bool:
        return True


def usual(error: Exception, strict: bool = True, *, odd: bool = False) -> bool:
    return strict


@pytest.mark.parametrize(
    "judge", [Judge(), Judge().ask, usual, functools.partial(by_name, strict=True), lambda *errors: True]
)
def test_callable_that_can_judge_an_exception_is_accepted(judge: Any) -> None:
    left: list[Any] = [ValueError("once"), "done"]

    @sp.retry(judge, backoff=sp.Constant(0))
    def fetch() -> str:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    assert fetch() == "done"
