"""Hooks of one policy: `on_retry`, the arguments in hooks, and an `on_result` that is awaited."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scripted import Boom

import stormproof as sp


@pytest.fixture(autouse=True)
def clock() -> Iterator[sp.testing.FakeClock]:
    with sp.testing.instant() as clock:
        yield clock


def failing(times: int, value: Any = "done") -> Any:
    """A function that raises `Boom` ``times`` times, then returns ``value``."""
    left = [times]

    def fetch(*args: Any, **kwargs: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise Boom(left[0])
        return value

    return fetch


def options(**more: Any) -> dict[str, Any]:
    return {"on": Boom, "backoff": sp.Constant(0.5), **more}


class Calls:
    """Records what `on_retry` is given."""

    def __init__(self, clock: sp.testing.FakeClock) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self._clock = clock

    def __call__(self, attempt: sp.Attempt, error: Exception | None, wait: float) -> None:
        kind = None if error is None else type(error)
        self.seen.append(
            (attempt.number, attempt.args, dict(attempt.kwargs), kind, wait, len(self._clock.sleeps))
        )

    async def later(self, attempt: sp.Attempt, error: Exception | None, wait: float) -> None:
        await asyncio.sleep(0)
        self(attempt, error, wait)


EXPECTED = [(1, (1,), {"b": 2}, Boom, 0.5, 0), (2, (1,), {"b": 2}, Boom, 0.5, 1)]


def test_on_retry_is_called_before_each_sleep_with_the_arguments(clock: sp.testing.FakeClock) -> None:
    calls = Calls(clock)
    assert sp.retry(**options(on_retry=calls)).call(failing(2), 1, b=2) == "done"
    assert calls.seen == EXPECTED


def test_on_retry_sees_the_arguments_of_a_decorated_method(clock: sp.testing.FakeClock) -> None:
    calls, fail = Calls(clock), failing(1)

    class Client:
        @sp.retry(**options(on_retry=calls))
        def get(self, url: str) -> Any:
            return fail()

    client = Client()
    client.get("/a")
    assert [seen[1] for seen in calls.seen] == [(client, "/a")]


def test_on_retry_may_be_async_in_async_calls(clock: sp.testing.FakeClock) -> None:
    calls, fail = Calls(clock), failing(2)

    async def fetch(*args: Any, **kwargs: Any) -> Any:
        return fail(*args, **kwargs)

    assert asyncio.run(sp.retry(**options(on_retry=calls.later)).acall(fetch, 1, b=2)) == "done"
    assert calls.seen == EXPECTED


def test_on_retry_is_not_called_when_no_attempt_follows(clock: sp.testing.FakeClock) -> None:
    calls = Calls(clock)
    with pytest.raises(Boom):
        sp.retry(**options(on_retry=calls, attempts=2)).call(failing(9))
    assert [seen[0] for seen in calls.seen] == [1]


def test_on_retry_knows_the_error_before(clock: sp.testing.FakeClock) -> None:
    seen: list[Any] = []
    hook = lambda attempt, error, wait: seen.append((attempt.last_error, error))  # noqa: E731
    sp.retry(**options(on_retry=hook)).call(failing(2))
    assert seen[0][0] is None
    assert seen[1][0] is seen[0][1]


def test_on_retry_that_raises_ends_the_call_and_keeps_the_failure() -> None:
    def broken(attempt: sp.Attempt, error: Exception | None, wait: float) -> None:
        raise RuntimeError("hook")

    with pytest.raises(RuntimeError, match="hook") as caught:
        sp.retry(**options(on_retry=broken)).call(failing(1))
    assert isinstance(caught.value.__context__, Boom)


def test_async_on_retry_is_refused_in_a_sync_call(clock: sp.testing.FakeClock) -> None:
    with pytest.raises(TypeError, match="on_retry must not be async in a sync call"):
        sp.retry(**options(on_retry=Calls(clock).later)).call(failing(1))


def test_on_retry_runs_in_blocks(clock: sp.testing.FakeClock) -> None:
    calls, fail = Calls(clock), failing(2)
    for attempt in sp.retrying(**options(on_retry=calls)):
        with attempt:
            fail()
    assert [(seen[0], seen[3], seen[4], seen[5]) for seen in calls.seen] == [
        (1, Boom, 0.5, 0),
        (2, Boom, 0.5, 1),
    ]


def test_on_retry_runs_in_async_blocks(clock: sp.testing.FakeClock) -> None:
    calls, fail = Calls(clock), failing(1)

    async def main() -> None:
        async for attempt in sp.retrying(**options(on_retry=calls.later)):
            async with attempt:
                fail()

    asyncio.run(main())
    assert [seen[0] for seen in calls.seen] == [1]


def test_on_retry_runs_between_connects(clock: sp.testing.FakeClock) -> None:
    calls, connect = Calls(clock), failing(2, object())
    policy = sp.Retry(**options(on_retry=calls, budget=None))
    for _ in sp.reconnecting(connect, policy, close=lambda connection: None):
        break
    assert [(seen[0], seen[3]) for seen in calls.seen] == [(1, Boom), (2, Boom)]


def test_before_attempt_sees_the_arguments() -> None:
    seen: list[Any] = []
    hook = lambda attempt: seen.append((attempt.number, attempt.args, dict(attempt.kwargs)))  # noqa: E731
    sp.retry(**options(before_attempt=hook)).call(failing(1), "x", key=1)
    assert seen == [(1, ("x",), {"key": 1}), (2, ("x",), {"key": 1})]


def test_attempt_has_no_arguments_outside_hooks() -> None:
    kept: list[sp.Attempt] = []
    sp.retry(**options(before_attempt=kept.append)).call(failing(1), "secret")
    assert [(attempt.args, dict(attempt.kwargs)) for attempt in kept] == [((), {}), ((), {})]


# Results.


def test_async_on_result_is_awaited() -> None:
    values = iter(["pending", "pending", "ready"])

    async def fetch() -> str:
        return next(values)

    async def is_pending(value: str) -> bool:
        await asyncio.sleep(0)
        return value == "pending"

    assert asyncio.run(sp.retry(**options(on_result=is_pending)).acall(fetch)) == "ready"


def test_async_on_result_is_awaited_in_a_block() -> None:
    values = iter(["pending", "ready"])
    results = []

    async def is_pending(value: str) -> bool:
        return value == "pending"

    async def main() -> None:
        async for attempt in sp.retrying(**options(on_result=is_pending)):
            async with attempt:
                attempt.result = next(values)
                results.append(attempt.result)

    asyncio.run(main())
    assert results == ["pending", "ready"]


def test_async_on_result_is_refused_in_a_sync_call() -> None:
    async def is_pending(value: str) -> bool:
        return True

    with pytest.raises(TypeError, match="on_result must not be async in a sync call"):
        sp.retry(**options(on_result=is_pending)).call(lambda: 1)


# The log.


def test_each_retry_is_a_debug_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="stormproof"):
        sp.retry(**options(name="quote")).call(failing(2))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", "quote failed at attempt 1 (tests.support.scripted.Boom): the next one follows in 0.500 s"),
        ("DEBUG", "quote failed at attempt 2 (tests.support.scripted.Boom): the next one follows in 0.500 s"),
        ("INFO", "quote succeeded at attempt 3, 1.000 s after its first failure"),
    ]


def test_retries_are_not_logged_above_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="stormproof"):
        sp.retry(**options(name="quote")).call(failing(1))
    assert [record.levelname for record in caplog.records] == ["INFO"]
