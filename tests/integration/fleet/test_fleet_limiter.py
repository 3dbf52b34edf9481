"""A limiter of several instances. Two stores in one process are two instances to Redis."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from tests.support.polling import eventually
from tests.support.redis_servers import PATIENT_S, Server

import stormproof as sp
from stormproof import events
from stormproof._strategies.limiter.rules import leases
from stormproof.redis import RedisStore

pytestmark = pytest.mark.redis


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[-60:]


@pytest.fixture
def pair(shared_server: Server, prefix: str) -> Iterator[tuple[RedisStore, RedisStore]]:
    with (
        RedisStore(shared_server.url, prefix, PATIENT_S) as one,
        RedisStore(shared_server.url, prefix, PATIENT_S) as two,
    ):
        yield one, two


def level(store: RedisStore, name: str, kind: str = "limiter") -> float | None:
    """Return the level that the server has left."""
    return next(
        (
            entry["state"]["level"]
            for entry in store.inspect()
            if (entry["name"], entry["kind"]) == (name, kind)
        ),
        None,
    )


def settled(*limiters: Any) -> None:
    """Wait until the store has answered each of them, and all know of each other."""
    eventually(lambda: all(limiter._fleet.answered_at is not None for limiter in limiters))
    eventually(lambda: all(limiter._fleet.bucket.instances == len(limiters) for limiter in limiters))


def drain(limiter: sp.Limiter) -> None:
    """Use it until the whole fleet has nothing left, and nothing is on its way from the store."""
    fleet: Any = limiter._fleet
    look = round(limiter.rate * 1e6), limiter.burst * 1_000_000, 0, 0, 0, 0

    def is_dry() -> bool:
        assert limiter.store is not None
        if limiter.allow():
            return False
        answer = limiter.store.call("limiter", fleet.key, *look)
        if answer is None or answer[2] >= 1_000_000:
            return False
        # The next answer brings what was granted before the look, so that `allow` sees it.
        looked_at = limiter.clock_time()
        eventually(lambda: limiter.allow() or fleet.answered_at > looked_at)
        return not limiter.allow()

    eventually(is_dry)


def test_options_are_those_of_the_fleet(pair: tuple[RedisStore, RedisStore]) -> None:
    limiter = sp.Limiter("100/s burst 200", store=pair[0], name="x")
    settled(limiter)
    assert (limiter.rate, limiter.burst) == (100, 200)
    assert repr(limiter) == f"Limiter(rate=100.0, burst=200, store={pair[0]!r}, name='x')"


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("name", {}),
        ("name", {"name": ""}),
        ("name", {"name": 5}),
        ("rate", {"name": "x", "rate": math.inf}),
        ("rate", {"name": "x", "rate": 1e10}),
        ("burst", {"name": "x", "burst": 10**10}),
    ],
)
def test_limiter_options_that_cannot_be_shared_are_refused(
    pair: tuple[RedisStore, RedisStore], field: str, options: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^Limiter: {field} must"):
        sp.Limiter(**{"rate": 10, "burst": 1, "store": pair[0], **options})


def test_two_instances_share_one_burst(pair: tuple[RedisStore, RedisStore]) -> None:
    """Nothing refills here, so every token there ever was is counted."""
    limiters = [sp.Limiter(0, 50, store=store, name="x") for store in pair]
    settled(*limiters)
    admitted = 0

    def used_up() -> bool:
        nonlocal admitted
        admitted += sum(limiter.allow() for limiter in limiters)
        held = [limiter._fleet.bucket.held(limiter.clock_time()) for limiter in limiters if limiter._fleet]
        left = level(pair[0], "x")
        # Tokens may also be on their way from the store: neither there nor held.
        return admitted >= 50 and left is not None and left < 1 and max(held) <= 0

    eventually(used_up)
    assert admitted <= 50 + leases.overshoot(0, 50, 2)


def test_one_instance_may_use_every_token(pair: tuple[RedisStore, RedisStore]) -> None:
    busy, idle = (sp.Limiter(0, 50, store=store, name="x") for store in pair)
    settled(busy, idle)

    admitted = 0

    def use() -> bool:
        nonlocal admitted
        admitted += busy.allow()
        return admitted >= 50

    eventually(use)


def test_decisions_need_no_round_trip(server: Server) -> None:
    with RedisStore(server.url, timeout=PATIENT_S) as store:
        limiter = sp.Limiter(100, 50, store=store, name="x")
        settled(limiter)
        credit = limiter.tokens()
        assert credit == 25
        server.pause()
        start = time.monotonic()
        assert [limiter.allow() for _ in range(25)] == [True] * 25
        assert time.monotonic() - start < PATIENT_S / 2
        server.resume()


def test_idle_instance_gives_back_what_it_leased(pair: tuple[RedisStore, RedisStore]) -> None:
    limiter = sp.Limiter(0, 100, store=pair[0], name="x")
    settled(limiter)
    # Enough demand to lease more than it uses.
    spent = 0

    def spend() -> bool:
        nonlocal spent
        spent += limiter.allow()
        return spent == 30

    eventually(spend)
    eventually(lambda: level(pair[1], "x") == 70)
    # The store has them a moment before the instance reads its answer.
    fleet = limiter._fleet
    assert fleet is not None
    eventually(lambda: fleet.bucket.held(limiter.clock_time()) == 0)


def lease_some(limiter: sp.Limiter, wanted: int = 5) -> int:
    """Use it until it holds a lease; return how many tokens were used for it."""
    used = 0

    def use() -> bool:
        nonlocal used
        used += limiter.allow()
        return limiter._fleet is not None and limiter._fleet.bucket.held(limiter.clock_time()) >= wanted

    eventually(use)
    return used


def test_closing_gives_back_what_is_held(shared_server: Server, prefix: str) -> None:
    with RedisStore(shared_server.url, prefix, PATIENT_S) as watcher:
        store = RedisStore(shared_server.url, prefix, PATIENT_S)
        limiter = sp.Limiter(0, 1000, store=store, name="x")
        settled(limiter)
        used = lease_some(limiter)
        store.close()
        assert level(watcher, "x") == 1000 - used


def test_unused_limiter_gives_back_its_lease(
    pair: tuple[RedisStore, RedisStore],
) -> None:
    limiter: Any = sp.Limiter(0, 1000, store=pair[0], name="x")
    settled(limiter)
    lease_some(limiter)
    bucket = limiter._fleet.bucket
    del limiter
    gc.collect()
    pair[0].wake()
    eventually(lambda: bucket.level <= 0)
    eventually(lambda: not pair[0]._exchange._members)


@pytest.mark.parametrize(("instances", "n"), [(1, 11), (1, 20), (2, 20)])
def test_several_tokens_are_granted_as_soon_as_available(
    pair: tuple[RedisStore, RedisStore], instances: int, n: int
) -> None:
    # A busy machine may take seconds between two of these lines: next to nothing is earned in them.
    limiters = [sp.Limiter(0.01, 20, store=store, name="x") for store in pair[:instances]]
    settled(*limiters)
    eventually(lambda: limiters[0].allow(n))
    # Once they are used, it takes its time again.
    assert not limiters[0].allow(n)


def test_waiter_is_served_sooner_than_by_its_own_share(pair: tuple[RedisStore, RedisStore]) -> None:
    """By its fair share of 5 a second the last one would wait for three seconds and more, each time."""

    async def all_of(limiter: sp.Limiter) -> float:
        start = time.monotonic()
        await asyncio.gather(*(limiter.wait_async() for _ in range(36)))
        return time.monotonic() - start

    tries = itertools.count()

    def is_sooner() -> bool:
        name = f"try {next(tries)}"
        limiter, other = (sp.Limiter(10, 40, store=store, name=name) for store in pair)
        settled(limiter, other)
        return asyncio.run(all_of(limiter)) < 2.5

    eventually(is_sooner, "a try that the machine did not slow down")


def test_limiter_serves_threads_tasks_and_trio_together(pair: tuple[RedisStore, RedisStore]) -> None:
    limiter = sp.Limiter(500, 5, store=pair[0], name="x")
    served: list[str] = []

    def in_thread() -> None:
        for _ in range(10):
            limiter.wait()
            served.append("thread")

    async def in_task(library: str) -> None:
        for _ in range(10):
            await limiter.wait_async()
            served.append(library)

    threads = [
        threading.Thread(target=in_thread),
        threading.Thread(target=lambda: asyncio.run(in_task("asyncio"))),
        threading.Thread(target=lambda: trio.run(in_task, "trio")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(served) == ["asyncio"] * 10 + ["thread"] * 10 + ["trio"] * 10


def test_wait_that_would_pass_the_deadline_fails_at_once(pair: tuple[RedisStore, RedisStore]) -> None:
    limiter = sp.Limiter(0.001, 1, store=pair[0], name="x")
    settled(limiter)
    drain(limiter)
    # The next token comes after a thousand seconds.
    with sp.deadline(60) as scope:
        with pytest.raises(sp.DeadlineExceeded):
            limiter.wait()
        assert scope.remaining() > 0


def test_cancelled_waiter_gives_its_token_back(pair: tuple[RedisStore, RedisStore]) -> None:
    # A busy machine may take seconds between two of these lines: next to nothing is earned in them.
    limiter = sp.Limiter(0.01, 10, store=pair[0], name="x")
    settled(limiter)
    drain(limiter)
    before = limiter.tokens()
    reservation = limiter.reserve(3)
    assert reservation.ok and reservation.delay > 1
    assert limiter.tokens() == pytest.approx(before - 3, abs=0.5)
    reservation.cancel()
    assert limiter.tokens() == pytest.approx(before, abs=0.5)


def test_more_than_the_burst_is_refused(pair: tuple[RedisStore, RedisStore]) -> None:
    limiter = sp.Limiter(100, 5, store=pair[0], name="x")
    assert not limiter.reserve(6).ok
    with pytest.raises(sp.RateLimited, match="burst"):
        limiter.wait(6)
    assert limiter.allow(0)


def test_new_rate_and_burst_apply_to_the_fleet(pair: tuple[RedisStore, RedisStore]) -> None:
    limiter = sp.Limiter(0, 5, store=pair[0], name="x")
    settled(limiter)
    drain(limiter)
    limiter.set_rate(1000)
    limiter.set_burst(50)
    assert (limiter.rate, limiter.burst) == (1000, 50)
    eventually(limiter.allow)


def test_rate_limit_on_a_fleet_limiter_admits_its_burst(pair: tuple[RedisStore, RedisStore]) -> None:
    limiter = sp.Limiter(0, 5, store=pair[0], name="x")
    settled(limiter)
    policy = sp.Policy(sp.RateLimit(limiter))
    done = 0

    def call() -> bool:
        nonlocal done
        try:
            policy.call(int)
            done += 1
        except sp.RateLimited:
            return done >= 5
        return False

    eventually(call)
    assert done <= 5 + leases.overshoot(0, 5, 1)


def test_keyed_fleet_limiter_has_a_limit_per_key(pair: tuple[RedisStore, RedisStore]) -> None:
    one, two = (sp.keyed(sp.Limiter(0, 4, store=store, name="tenants"), limit=8) for store in pair)
    for key in ("a", "b", ("a", 1), b"a", 7, None):
        assert one[key].name == two[key].name
        assert one[key].allow()
    assert len({one[key].name for key in ("a", "b", ("a", 1), b"a", 7, None, "7", "b'a'", "None")}) == 9
    # The first instance uses up the key "a"; the second one sees it there and nowhere else.
    drain(one["a"])
    eventually(lambda: two["a"].tokens() < 1)
    assert two["b"].tokens() >= 1
    with pytest.raises(TypeError, match="key must be a string"):
        one[object()]


def test_keyed_fleet_limiters_are_bounded(pair: tuple[RedisStore, RedisStore]) -> None:
    limiters = sp.keyed(sp.Limiter(10, 4, store=pair[0], name="tenants"), limit=5)
    for key in range(50):
        limiters[key].allow()
    gc.collect()
    pair[0].wake()
    # Five, and the template.
    eventually(lambda: len(pair[0]._exchange._members) <= 6)


def test_rate_budget_is_shared_by_the_fleet(pair: tuple[RedisStore, RedisStore]) -> None:
    budgets = [sp.RateBudget(0, 10, store=store, name="x") for store in pair]
    settled(*(budget._shared for budget in budgets))
    paid = 0.0

    def used_up() -> bool:
        nonlocal paid
        paid += sum(budget.withdraw() for budget in budgets)
        return paid >= 9

    eventually(used_up)
    for budget in budgets:
        drain(budget._shared)
        # Of less than a token nothing can be paid.
        assert budget.balance < 1


def test_keyed_rate_budget_is_shared_per_key(pair: tuple[RedisStore, RedisStore]) -> None:
    one, two = (sp.keyed(sp.RateBudget(0, 4, store=store, name="tenants")) for store in pair)
    assert one["a"].name == two["a"].name != one["b"].name
    assert (one["a"].rate, one["a"].burst, one["a"].store) == (0, 4, pair[0])
    drain(one["a"]._shared)
    eventually(lambda: two["a"].balance < 1)
    eventually(lambda: two["b"].balance >= 1)


def test_exchanges_are_emitted(pair: tuple[RedisStore, RedisStore]) -> None:
    emitted_events: list[Any] = []
    stop = sp.subscribe(emitted_events.append)
    try:
        limiter = sp.Limiter(100, 20, store=pair[0], name="x\n")
        eventually(lambda: emitted_events)
        limiter.allow()
    finally:
        stop()
    first = next(event for event in emitted_events if isinstance(event, events.LeaseExchanged))
    assert (first.operation, first.kind, first.level, first.instances) == ("x\\n", "limiter", 20.0, 1)
    assert first.held == 10 and first.latency > 0


def test_instance_back_after_a_long_pause_has_one_token(shared_server: Server, prefix: str) -> None:
    """Its knowledge of the store is old by then; the others may have used it up."""
    stores = [RedisStore(shared_server.url, prefix, PATIENT_S) for _ in range(5)]
    clocks = [sp.testing.FakeClock() for _ in stores]
    limiters: list[sp.Limiter] = []
    try:
        for store, clock in zip(stores, clocks, strict=True):
            limiters.append(sp.Limiter(0.001, 100, store=store, name="x", clock=clock))
            fleet = limiters[-1]._fleet
            assert store.settle(5) and fleet is not None
            limiters[-1].allow()

            def cold(clock: Any = clock, fleet: Any = fleet) -> bool:
                clock.advance(1)
                return bool(fleet.next_at == math.inf)

            eventually(cold)
        assert [sum(limiter.allow() for _ in range(20)) for limiter in limiters] == [1] * 5
    finally:
        for store in stores:
            store.close()


def test_hundred_thousand_decisions_cost_a_few_exchanges(pair: tuple[RedisStore, RedisStore]) -> None:
    limiter = sp.Limiter(leases.MOST_SHARED, 10**6, store=pair[0], name="x")
    settled(limiter)
    before = pair[0].stats()["exchanges"]
    admitted = sum(limiter.allow() for _ in range(100_000))
    assert admitted > 90_000
    assert pair[0].stats()["exchanges"] - before < 1000
