"""An error that an inner layer gave up on is final for outer layers, however it is wrapped on the way.

Not so where the inner layer raised a refusal (``raises="refusal"``, a deadline's end) that its caller named
as the cause of another error, and where what it gave up on was an exception group within another one: both
were retried again, 9 calls for 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stormproof as sp


class ServiceError(Exception):
    pass


class Calls:
    def __init__(self, error: Exception) -> None:
        self.error = error
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        raise self.error


def retry(on: Any, **options: Any) -> sp.Policy:
    options = {"attempts": 3, "budget": None, "backoff": sp.Constant(0), **options}
    return sp.Policy(sp.Retry(on, **options), clock=sp.testing.FakeClock())


def translated(call: Callable[[], Any]) -> Callable[[], Any]:
    def translate() -> Any:
        try:
            return call()
        except Exception as error:
            raise ServiceError("the service is down") from error

    return translate


@pytest.mark.parametrize(
    ("inner", "calls"),
    [
        (retry(ConnectionError, budget=sp.Budget(burst=1), raises="refusal"), 2),
        (retry(ConnectionError, backoff=sp.Constant(2), within=1, raises="refusal"), 1),
        (sp.Policy(sp.Deadline(1), *retry(ConnectionError, backoff=sp.Constant(2)).strategies), 1),
        (retry(ConnectionError), 3),
    ],
    ids=["budget", "within", "deadline", "attempts"],
)
def test_refusal_as_the_cause_of_another_error_is_final(inner: sp.Policy, calls: int) -> None:
    failing = Calls(ConnectionError("refused"))
    with pytest.raises(ServiceError) as caught:
        retry(ServiceError).call(translated(lambda: inner.call(failing)))
    assert failing.count == calls
    assert sp.stopped(caught.value) is not None


def test_outer_layer_that_names_the_refusal_retries_it() -> None:
    failing = Calls(ConnectionError("refused"))
    inner = retry(ConnectionError, budget=sp.Budget(burst=0), raises="refusal")
    with pytest.raises(sp.BudgetExhausted):
        retry(sp.BudgetExhausted).call(inner.call, failing)
    assert failing.count == 3


def test_group_within_a_group_keeps_its_mark() -> None:
    failing = Calls(ExceptionGroup("both", [ConnectionError("a"), ConnectionError("b")]))
    inner = retry(ConnectionError)

    def in_a_group() -> None:
        try:
            inner.call(failing)
        except Exception as error:
            raise ExceptionGroup("tasks", [error]) from None

    with pytest.raises(ExceptionGroup):
        retry(ConnectionError).call(in_a_group)
    assert failing.count == 3
