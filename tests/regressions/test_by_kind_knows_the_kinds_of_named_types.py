"""`ByKind` waited by its default for every failure that ``on`` named by type, or that a callable picked."""

from __future__ import annotations

from typing import Any

import pytest

import stormproof as sp

BY_KIND = sp.ByKind(
    sp.Constant(1),
    throttle=sp.Constant(2),
    timeout=sp.Constant(3),
    network=sp.Constant(4),
    server=sp.Constant(5),
)


class Status(Exception):
    def __init__(self, status: int) -> None:
        self.status_code = status


FAILURES = [
    (ConnectionResetError(), 4),
    (ConnectionError(), 4),
    (TimeoutError(), 3),
    (Status(429), 2),
    (Status(503), 5),
    (Status(404), 1),
    (ValueError(), 1),
    (sp.RetryAfter(0.5, ConnectionResetError()), 4),
    (ExceptionGroup("one", [ConnectionResetError()]), 4),
]


@pytest.mark.parametrize(
    "on", [(ConnectionError, TimeoutError, Status, ValueError), lambda error: True], ids=["types", "callable"]
)
@pytest.mark.parametrize(("error", "wait"), FAILURES, ids=lambda part: repr(part)[:30])
def test_by_kind_waits_as_the_kind_of_a_failure_that_on_names(on: Any, error: Exception, wait: float) -> None:
    def call() -> None:
        raise error

    clock = sp.testing.FakeClock()
    policy = sp.Policy(sp.Retry(on, attempts=3, backoff=BY_KIND), clock=clock)
    with pytest.raises(Exception):  # noqa: B017 - any of them
        policy.call(call)
    assert clock.sleeps == [wait, wait]


def test_by_kind_waits_by_default_for_a_post_that_on_names_for_the_network_sees_it_as_final() -> None:
    class Posted(Status):
        request = type("Request", (), {"method": "POST", "headers": {}})()

    assert not sp.transient(Posted(503)).retry
    clock = sp.testing.FakeClock()
    calls: list[int] = []

    @sp.Policy(sp.Retry(Posted, attempts=2, backoff=BY_KIND), clock=clock)
    def call() -> None:
        calls.append(1)
        raise Posted(503)

    with pytest.raises(Posted):
        call()
    assert len(calls) == 2
