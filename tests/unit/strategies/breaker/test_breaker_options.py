"""`Breaker(count=..., on_state_change=..., observe=...)`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scripted import Boom

import stormproof as sp
from stormproof.events import WouldRefuse


@pytest.fixture(autouse=True)
def clock() -> Iterator[sp.testing.FakeClock]:
    with sp.testing.instant() as clock:
        yield clock


def fail() -> None:
    raise Boom


async def afail() -> None:
    raise Boom


def retry(**more: Any) -> sp.Retry:
    return sp.Retry(**{"on": Boom, "attempts": 4, "backoff": sp.Constant(0), "budget": None, **more})


@pytest.mark.parametrize(("count", "failures"), [("attempts", 4), ("calls", 1)])
def test_breaker_inside_retry_counts_attempts_or_calls(count: Any, failures: int) -> None:
    breaker = sp.Breaker(count=count, min_calls=100)
    with pytest.raises(Boom):
        sp.Policy(retry(), breaker).call(fail)
    assert breaker.counts.failures == failures
    assert breaker.counts.excluded == 4 - failures if count == "calls" else breaker.counts.excluded == 0


def test_breaker_inside_retry_counts_calls_in_tasks() -> None:
    breaker = sp.Breaker(count="calls", min_calls=100)
    with pytest.raises(Boom):
        asyncio.run(sp.Policy(retry(), breaker).acall(afail))
    assert (breaker.counts.failures, breaker.counts.excluded) == (1, 3)


def test_later_attempt_that_succeeds_is_neutral() -> None:
    breaker, outcomes = sp.Breaker(count="calls"), iter([True, False])

    def once() -> None:
        if next(outcomes):
            raise Boom

    sp.Policy(retry(), breaker).call(once)
    assert (breaker.counts.failures, breaker.counts.successes, breaker.counts.excluded) == (1, 0, 1)


def test_first_attempt_inside_another_policys_second_attempt_counts() -> None:
    breaker = sp.Breaker(count="calls", min_calls=100)
    inner = sp.Policy(retry(attempts=2), breaker)
    outer = sp.Policy(retry(attempts=2, retry_exhausted=True))
    with pytest.raises(Boom):
        outer.call(lambda: inner.call(fail))
    assert (breaker.counts.failures, breaker.counts.excluded) == (2, 2)


def test_breaker_alone_in_a_retried_block_counts_calls() -> None:
    breaker = sp.Breaker(count="calls", min_calls=100)
    with pytest.raises(Boom):
        for attempt in sp.retrying(on=Boom, backoff=sp.Constant(0), budget=None):
            with attempt, breaker.admit():
                raise Boom
    assert (breaker.counts.failures, breaker.counts.excluded) == (1, 3)


def test_call_counting_breaker_opens_and_closes(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(count="calls", consecutive=2, open_for=5)
    policy = sp.Policy(retry(), breaker)
    for _ in range(2):
        with pytest.raises(Boom):
            policy.call(fail)
    assert breaker.state == "open"
    clock.advance(6)
    policy.call(lambda: None)
    assert breaker.state == "closed"


# The hook.


def test_on_state_change_is_called_after_each_change_without_a_lock(clock: sp.testing.FakeClock) -> None:
    changes: list[Any] = []

    def changed(name: str, old: str, new: str) -> None:
        # Reading the state takes the lock: held, this would block for ever.
        changes.append((name, old, new, breaker.state))

    breaker = sp.Breaker(consecutive=1, open_for=5, name="ledger", on_state_change=changed)
    with pytest.raises(Boom):
        sp.Policy(breaker).call(fail)
    clock.advance(6)
    sp.Policy(breaker).call(lambda: None)
    assert changes == [
        ("ledger", "closed", "open", "open"),
        ("ledger", "open", "half_open", "half_open"),
        ("ledger", "half_open", "closed", "closed"),
    ]


def test_on_state_change_that_raises_does_not_break_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda report: reported.append(report.exc_value))

    def broken(name: str, old: str, new: str) -> None:
        raise RuntimeError(name)

    with pytest.raises(Boom):
        sp.Policy(sp.Breaker(consecutive=1, on_state_change=broken)).call(fail)
    assert [str(error) for error in reported] == ["breaker"]


# Observing.


def test_observing_breaker_refuses_nothing_and_emits_what_it_would_have_refused(
    clock: sp.testing.FakeClock,
) -> None:
    breaker = sp.Breaker(consecutive=2, open_for=5, name="ledger", observe=True)
    policy, events = sp.Policy(breaker), []
    unsubscribe = sp.subscribe(lambda event: events.append(event) if isinstance(event, WouldRefuse) else None)
    try:
        for _ in range(5):
            with pytest.raises(Boom):
                policy.call(fail)
    finally:
        unsubscribe()
    assert events == [WouldRefuse(operation="ledger", by="breaker")] * 3
    assert breaker.state == "open"
    # What it would have refused is not counted: the circuit half-opens and probes as if it had.
    clock.advance(6)
    policy.call(lambda: None)
    assert breaker.state == "closed"


def test_retry_is_not_stopped_by_an_observing_breaker() -> None:
    breaker, calls = sp.Breaker(consecutive=1, observe=True), []

    def count() -> None:
        calls.append(1)
        raise Boom

    with pytest.raises(Boom):
        sp.Policy(retry(), breaker).call(count)
    assert len(calls) == 4


def test_observing_breaker_held_open_by_hand_admits() -> None:
    breaker = sp.Breaker(observe=True)
    breaker.force_open()
    assert sp.Policy(retry(), breaker).call(lambda: 1) == 1


# What a refusal says.


def test_error_of_a_full_half_open_circuit_mentions_the_probes(clock: sp.testing.FakeClock) -> None:
    breaker = sp.Breaker(consecutive=1, open_for=5, name="ledger")
    breaker.admit().failure(Boom())
    with pytest.raises(sp.CircuitOpen, match="ledger is open: try again in 5 s") as caught:
        breaker.admit()
    assert caught.value.state == "open"
    clock.advance(6)
    breaker.admit()
    with pytest.raises(sp.CircuitOpen, match="ledger is probing") as caught:
        breaker.admit()
    assert caught.value.state == "half_open"
