"""Redis is killed while processes use it, and comes back empty."""

from __future__ import annotations

import pytest
from tests.fleet.ordeal import BURST, Ordeal
from tests.fleet.patience import eventually
from tests.fleet.servers import Server

from holdfast import events

pytestmark = pytest.mark.redis


def test_local_each_goes_by_its_share(server: Server) -> None:
    with Ordeal(server) as ordeal:
        ordeal.live(0.1)
        server.kill()
        ordeal.fallen_back()
        ordeal.share_is_kept()
        assert [type(event) for event in ordeal.told] == [events.StoreDown] * 2
        assert {event.on_failure for event in ordeal.told} == {"local"}
        assert all(store.stats()["fallbacks"] > 0 for store in ordeal.stores)
        server.start()
        ordeal.recovered()
        assert sorted(type(event).__name__ for event in ordeal.told) == ["StoreDown"] * 2 + ["StoreUp"] * 2
        ordeal.live(0.1)
        assert server.keys_without_ttl() == []


def test_open_lets_everything_pass(server: Server) -> None:
    with Ordeal(server, "open") as ordeal:
        server.kill()
        ordeal.fallen_back()
        assert all(limiter.allow() for limiter in ordeal.limiters for _ in range(10 * BURST))
        assert all(budget.withdraw() for budget in ordeal.budgets for _ in range(100))
        ordeal.limiters[0].wait()
        server.start()
        ordeal.recovered()
        # And the limit is back.
        eventually(lambda: not ordeal.limiters[0].allow())


def test_closed_lets_nothing_pass(server: Server) -> None:
    with Ordeal(server, "closed") as ordeal:
        server.kill()
        ordeal.fallen_back()
        assert not any(limiter.allow() for limiter in ordeal.limiters)
        assert not any(budget.withdraw() for budget in ordeal.budgets)
        assert not ordeal.limiters[0].reserve(1).ok
        server.start()
        ordeal.recovered()
        eventually(ordeal.limiters[0].allow)


def test_what_was_used_meanwhile_is_charged(server: Server) -> None:
    """An outage that nobody but us noticed must not hand out the burst a second time."""
    with Ordeal(server) as ordeal:
        server.pause()
        ordeal.fallen_back()
        ordeal.live(0.2)
        assert not ordeal.limiters[0].allow()
        server.resume()
        eventually(lambda: not any(ordeal.alone), within=2)
        left = server.ask("HGET", ordeal.stores[0].key("limiter", "limiter"), "level")
        assert int(left) < BURST * 1_000_000 / 2


def test_from_the_start(server: Server) -> None:
    """Objects made while it is down decide by the declared rule, and join when it comes."""
    import holdfast as hf

    server.kill()
    with hf.redis.RedisStore(server.url, on_failure="local", instances=4) as store:
        limiter = hf.Limiter(0, 40, store=store, name="x")
        eventually(lambda: store.state == "down" and limiter._fleet is not None and limiter._fleet.alone)
        assert sum(limiter.allow() for _ in range(40)) == 10
        server.start()
        eventually(lambda: limiter._fleet is not None and not limiter._fleet.alone, within=2)
