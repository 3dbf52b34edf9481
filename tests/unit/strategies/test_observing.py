"""`observe=True`: a strategy emits what it would refuse, refuses nothing, and does not record its outcome."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scripted import Boom

import stormproof as sp
from stormproof.events import Refused, WouldRefuse


@pytest.fixture
def events() -> Iterator[list[Any]]:
    seen: list[Any] = []
    unsubscribe = sp.subscribe(lambda e: seen.append(e) if isinstance(e, (WouldRefuse, Refused)) else None)
    yield seen
    unsubscribe()


def test_observing_bulkhead_lets_calls_through_without_a_place(events: list[Any]) -> None:
    bulkhead = sp.Bulkhead(1, queue=5, name="pool", observe=True)
    policy = sp.Policy(bulkhead)
    inside = policy.call(lambda: policy.call(lambda: (bulkhead.in_use, bulkhead.queued)))
    assert inside == (1, 0)
    assert bulkhead.in_use == 0
    assert events == [WouldRefuse("pool", by="bulkhead")]


def test_observing_bulkhead_never_waits_in_tasks(events: list[Any]) -> None:
    policy = sp.Policy(sp.Bulkhead(2, queue=5, name="pool", observe=True))

    async def main(clock: sp.testing.VirtualClock) -> float:
        await asyncio.gather(*(policy.acall(lambda: asyncio.sleep(1)) for _ in range(5)))
        return clock.now()

    assert sp.testing.run(main) == pytest.approx(1)
    assert events == [WouldRefuse("pool", by="bulkhead")] * 3


def test_observing_throttle_counts_as_if_it_had_refused(events: list[Any]) -> None:
    outcomes = []
    for observe in (False, True):
        throttle = sp.Throttle(k=1, on=Boom, observe=observe, clock=sp.testing.FakeClock())
        policy, made = sp.Policy(throttle, rng=7), 0

        def fail() -> None:
            nonlocal made
            made += 1
            raise Boom

        for _ in range(50):
            with pytest.raises((Boom, sp.Throttled)):
                policy.call(fail)
        outcomes.append((throttle.describe()["requests"], throttle.rejection, len(events)))
        assert made == (50 if observe else 50 - len(events))
        events.clear()
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][2] > 0


def test_observing_limiter_allows_all_and_never_waits(events: list[Any]) -> None:
    clock = sp.testing.FakeClock()
    limiter = sp.Limiter(1, 2, name="api", observe=True, clock=clock)
    assert [limiter.allow() for _ in range(3)] == [True] * 3
    limiter.wait()
    asyncio.run(limiter.wait_async())
    late = limiter.reserve()
    assert (late.ok, late.delay) == (True, 0.0)
    assert clock.sleeps == []
    assert events == [WouldRefuse("api", by="rate_limit")] * 4
    # No token was taken for what would have been refused.
    clock.advance(2)
    assert limiter.tokens() == 2


def test_rate_limit_with_an_observing_limiter_refuses_nothing(events: list[Any]) -> None:
    policy = sp.Policy(sp.RateLimit(sp.Limiter(1, 1, observe=True, clock=sp.testing.FakeClock())))
    assert [policy.call(lambda: 1) for _ in range(3)] == [1, 1, 1]
    assert events == [WouldRefuse("limiter", by="rate_limit")] * 2


@pytest.mark.parametrize(
    "strategy",
    [
        sp.Bulkhead(1, observe=True),
        sp.Throttle(observe=True),
        sp.Breaker(observe=True),
        sp.RateLimit(sp.Limiter(1, 1, observe=True)),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_observing_survives_copies_files_and_reprs(strategy: Any) -> None:
    data = sp.to_data(sp.Policy(strategy, name="p"))
    loaded = sp.Registry.from_data({"policies": {"p": data}})["p"].strategies[0]
    rebuilt = eval(repr(strategy), {name: getattr(sp, name) for name in sp.__all__})
    for made in (copy.deepcopy(strategy), loaded, rebuilt):
        limiter = getattr(made, "limiter", made)
        assert limiter.observe is True


@pytest.mark.parametrize("make", [lambda v: sp.Bulkhead(1, observe=v), lambda v: sp.Throttle(observe=v)])
@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_observe_must_be_a_flag(make: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="observe must be True or False"):
        make(value)


def test_metrics_count_what_would_have_been_refused() -> None:
    from stormproof._telemetry.meters import Meters

    meters = Meters()
    unsubscribe = sp.subscribe(meters.add, first_tries=False)
    try:
        limiter = sp.Limiter(0, 1, name="metered", observe=True)
        for _ in range(3):
            limiter.allow()
    finally:
        unsubscribe()
    counted = meters.read().counts["would_refuse"]
    assert counted == {("metered", "rate_limit"): 2}


def test_note_of_an_empty_budget_says_what_was_earned_spent_and_what_to_set() -> None:
    def fail() -> None:
        raise Boom

    with sp.testing.instant(), pytest.raises(Boom) as caught:
        sp.retry(on=Boom, budget=sp.Budget(burst=1), name="op").call(fail)
    (note,) = caught.value.__notes__
    assert note.endswith(
        "stopped: retry budget exhausted: burst 1, 0 successes earned 0, 1 retry spent 1; "
        "to allow more, set burst=2"
    )
