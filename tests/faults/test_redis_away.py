"""Parts used while the store is away follow `on_failure`: made then, forked then, or left by `close`."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.faults.test_redis_fork import run
from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof._config.registry import retune
from stormproof.redis import RedisStore

NOWHERE = "redis://127.0.0.1:1/0"
RATE, BURST = 0.001, 40
#: What one of four may use of 40 tokens, of 20 retries and of 8 places.
INSTANCES = 4
ALLOWED = {
    "local": {"limiter": 10, "budget": 5, "bulkhead": 2},
    "open": {"limiter": 50, "budget": 50, "bulkhead": 8},
    "closed": {"limiter": 0, "budget": 0, "bulkhead": 0},
}
MODES = pytest.mark.parametrize("mode", ["local", "open", "closed"])


@pytest.fixture
def away() -> Iterator[Callable[..., RedisStore]]:
    """Stores that know already that their server is away."""
    made: list[RedisStore] = []

    def make(mode: str, **options: Any) -> RedisStore:
        store = RedisStore(NOWHERE, on_failure=mode, **options)
        made.append(store)
        with pytest.raises(sp.redis.StoreUnavailable):
            store.call("probe", "x")
        assert store.state == "down"
        return store

    yield make
    for store in made:
        store.close()


def allowed(limiter: sp.Limiter, budget: sp.Budget, bulkhead: sp.Bulkhead) -> dict[str, int]:
    """Return how many of fifty tries each one allows."""
    return {
        "limiter": sum(limiter.allow() for _ in range(50)),
        "budget": sum(bool(budget.withdraw()) for _ in range(50)),
        "bulkhead": len(bulkhead._permits),
    }


def parts(store: RedisStore) -> tuple[sp.Limiter, sp.Budget, sp.Bulkhead]:
    return (
        sp.Limiter(RATE, BURST, store=store, name="x"),
        sp.Budget(0, burst=20, store=store, name="x"),
        sp.Bulkhead(8, store=store, name="x"),
    )


@MODES
def test_parts_made_while_the_store_is_away_use_on_failure_at_once(
    away: Callable[..., RedisStore], mode: str
) -> None:
    store = away(mode, instances=INSTANCES)
    assert allowed(*parts(store)) == ALLOWED[mode]


def test_new_keys_while_the_store_is_away_use_on_failure(away: Callable[..., RedisStore]) -> None:
    tenants = sp.keyed(sp.Limiter(1000, 1000, store=away("open"), name="t"), key=lambda tenant: tenant)
    assert sum(tenants[f"tenant {index}"].allow() for index in range(50) for _ in range(4)) == 200


def test_dropped_keys_while_the_store_is_away_leave_nothing_behind(away: Callable[..., RedisStore]) -> None:
    store = away("open")
    tenants = sp.keyed(sp.Limiter(10, 10, store=store, name="t"), limit=5)
    for index in range(50):
        tenants[index].allow()
    gc.collect()
    store.wake()
    # Five, and the template.
    eventually(lambda: len(store._exchange._members) <= 6)


@MODES
def test_breaker_made_while_the_store_is_away_uses_its_own_counts(
    away: Callable[..., RedisStore], mode: str
) -> None:
    breaker = sp.Breaker(consecutive=2, store=away(mode), name="x")
    assert breaker._fleet is not None and breaker._fleet.alone
    for _ in range(2):
        breaker.admit().failure()
    assert breaker.state == "open"


@MODES
def test_parts_made_of_a_closed_store_use_on_failure(mode: str) -> None:
    store = RedisStore(NOWHERE, on_failure=mode, instances=INSTANCES)
    store.close()
    assert allowed(*parts(store)) == ALLOWED[mode]


@pytest.mark.redis
@MODES
def test_parts_of_a_store_closed_later_use_on_failure(server: Server, mode: str) -> None:
    store = RedisStore(server.url, timeout=0.5, on_failure=mode, instances=INSTANCES)
    limiter, budget, bulkhead = parts(store)
    assert store.settle(5)
    store.close()
    assert allowed(limiter, budget, bulkhead) == ALLOWED[mode]


@pytest.mark.redis
def test_policy_with_a_store_that_a_reload_closed_uses_on_failure(server: Server) -> None:
    limiter = {"rate": 1000, "burst": 5, "store": True, "name": "q"}
    policies = {"q": {"rate_limit": {"limiter": limiter}}}
    registry = sp.Registry.from_data({"store": {"url": server.url, "timeout": 0.5}, "policies": policies})
    assert registry.store.settle(5)
    left = registry["q"]
    registry.reload({"policies": {"other": {"timeout": "1s"}}})
    assert registry.store is None
    done = 0

    def call() -> bool:
        nonlocal done
        try:
            left.call(int)
            done += 1
        except sp.RateLimited:
            pass
        return done >= 50

    eventually(call)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other platform: no fork here")
@pytest.mark.redis
@MODES
def test_child_forked_during_an_outage_uses_on_failure(server: Server, mode: str) -> None:
    url = server.url
    server.kill()
    run(
        server,
        f"""
        store = sp.redis.RedisStore({url!r}, on_failure={mode!r}, instances={INSTANCES})
        limiter = sp.Limiter({RATE}, {BURST}, store=store, name="x")
        budget = sp.Budget(0, burst=20, store=store, name="x")
        bulkhead = sp.Bulkhead(8, store=store, name="x")
        eventually(lambda: all(part._fleet.alone for part in (limiter, budget, bulkhead)))
        from tests.faults.test_redis_away import ALLOWED, allowed
        for _ in range(5):
            found = in_child(lambda: allowed(limiter, budget, bulkhead))
            assert found == ALLOWED[{mode!r}], found
        """,
    )


# Changed meanwhile.


@MODES
def test_new_rate_while_the_store_is_away_changes_the_share(
    away: Callable[..., RedisStore], mode: str
) -> None:
    limiter = sp.Limiter(RATE, BURST, store=away(mode, instances=INSTANCES), name="x")
    limiter.set_rate(2 * RATE)
    limiter.set_burst(2 * BURST)
    assert (limiter.rate, limiter.burst) == (2 * RATE, 2 * BURST)
    assert sum(limiter.allow() for _ in range(50)) == {"local": 20, "open": 50, "closed": 0}[mode]
    limiter.set_burst(2 * BURST)
    # What was used stays used.
    assert sum(limiter.allow() for _ in range(50)) == {"local": 0, "open": 50, "closed": 0}[mode]


@MODES
def test_reload_while_the_store_is_away_applies_to_the_share(
    away: Callable[..., RedisStore], mode: str
) -> None:
    store = away(mode, instances=INSTANCES)
    limiter, budget, bulkhead = parts(store)
    rate = sp.RateBudget(RATE, BURST, store=store, name="r")
    assert retune(limiter, sp.Limiter(RATE, 2 * BURST, store=store, name="x"))
    assert retune(budget, sp.Budget(0, burst=40, store=store, name="x"))
    assert retune(bulkhead, sp.Bulkhead(16, store=store, name="x"))
    assert retune(rate, sp.RateBudget(RATE, 2 * BURST, store=store, name="r"))
    found = {**allowed(limiter, budget, bulkhead), "rate": sum(bool(rate.withdraw()) for _ in range(50))}
    assert (
        found
        == {
            "local": {"limiter": 20, "budget": 10, "bulkhead": 4, "rate": 20},
            "open": {"limiter": 50, "budget": 50, "bulkhead": 16, "rate": 50},
            "closed": {"limiter": 0, "budget": 0, "bulkhead": 0, "rate": 0},
        }[mode]
    )


@pytest.mark.redis
def test_rate_budget_in_a_store_is_reloaded(server: Server) -> None:
    with RedisStore(server.url, timeout=0.5) as store:
        live = sp.RateBudget(0, 5, store=store, name="x")
        assert store.settle(5)
        assert retune(live, sp.RateBudget(100_000, 50, store=store, name="x"))
        assert (live.rate, live.burst) == (100_000, 50)
        paid = 0

        def pay() -> bool:
            nonlocal paid
            paid += bool(live.withdraw())
            return paid >= 100

        eventually(pay)
