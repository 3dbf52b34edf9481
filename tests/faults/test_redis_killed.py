"""Redis is killed while processes use it, and comes back empty."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import PATIENT_S, Server
from tests.support.store_outage import BURST, StoreOutage

from stormproof import events
from stormproof.redis import RedisStore, StoreUnavailable

pytestmark = [pytest.mark.redis, pytest.mark.proves("fault redis-killed")]


def test_local_mode_admits_each_instance_its_share(server: Server) -> None:
    with StoreOutage(server) as outage:
        outage.call_for(0.1)
        server.kill()
        outage.call_until_alone()
        outage.assert_share_is_kept()
        assert [type(event) for event in outage.store_events] == [events.StoreDown] * 2
        assert {event.on_failure for event in outage.store_events} == {"local"}
        assert all(store.stats()["fallbacks"] > 0 for store in outage.stores)
        server.start()
        outage.call_until_recovered()
        assert (
            sorted(type(event).__name__ for event in outage.store_events)
            == ["StoreDown"] * 2 + ["StoreUp"] * 2
        )
        outage.call_for(0.1)
        assert server.keys_without_ttl() == []


def test_open_lets_everything_pass(server: Server) -> None:
    with StoreOutage(server, "open") as outage:
        server.kill()
        outage.call_until_alone()
        assert all(limiter.allow() for limiter in outage.limiters for _ in range(10 * BURST))
        assert all(budget.withdraw() for budget in outage.budgets for _ in range(100))
        outage.limiters[0].wait()
        server.start()
        outage.call_until_recovered()
        # And the limit is back.
        eventually(lambda: not outage.limiters[0].allow())


def test_closed_lets_nothing_pass(server: Server) -> None:
    with StoreOutage(server, "closed") as outage:
        server.kill()
        outage.call_until_alone()
        assert not any(limiter.allow() for limiter in outage.limiters)
        assert not any(budget.withdraw() for budget in outage.budgets)
        assert not outage.limiters[0].reserve(1).ok
        server.start()
        outage.call_until_recovered()
        eventually(outage.limiters[0].allow)


def test_tokens_used_during_the_outage_are_charged(server: Server) -> None:
    """An outage that only we noticed must not hand out the burst a second time."""
    with StoreOutage(server, rate=0.001) as outage:
        server.pause()
        outage.call_until_alone()
        # Of their shares of the burst nothing is left, and nothing comes in.
        eventually(lambda: not any(limiter.allow() for limiter in outage.limiters))
        server.resume()
        eventually(lambda: not any(outage.alone))
        left = server.ask("HGET", outage.stores[0].key("limiter", "limiter"), "level")
        assert int(left) < BURST * 1_000_000 / 2


def test_parts_created_while_redis_is_down_join_when_it_is_up(server: Server) -> None:
    """Objects made while it is down decide by the declared rule, and join when it comes."""
    import stormproof as sp

    server.kill()
    with sp.redis.RedisStore(server.url, on_failure="local", instances=4) as store:
        limiter = sp.Limiter(0, 40, store=store, name="x")
        eventually(lambda: store.state == "down" and limiter._fleet is not None and limiter._fleet.alone)
        assert sum(limiter.allow() for _ in range(40)) == 10
        server.start()
        eventually(lambda: limiter._fleet is not None and not limiter._fleet.alone)


def test_calls_in_flight_fail_when_redis_is_killed(server: Server, measured: Callable[[str], None]) -> None:
    """The answer never comes: the callers get an error as soon as the server is gone."""
    with RedisStore(server.url, timeout=PATIENT_S) as store:
        store.call("probe", store.key("probe", "x"))
        server.pause()
        ended: list[float | BaseException] = []

        def call() -> None:
            try:
                store.call("probe", store.key("probe", "x"))
            except StoreUnavailable:
                ended.append(time.monotonic())
            except BaseException as error:
                ended.append(error)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        assert ended == [], "no call was in the middle"
        killed = time.monotonic()
        server.kill()
        for thread in threads:
            thread.join(3 * PATIENT_S)
        assert len(ended) == 4 and all(isinstance(end, float) for end in ended), ended
        worst = max(end - killed for end in ended if isinstance(end, float))
        assert worst < PATIENT_S / 2
        assert store.state == "down"
        server.start()
        eventually(lambda: store.state == "up")
        assert store.call("probe", store.key("probe", "x")) == b"OK"
        measured(f"4 calls in the middle, answered within {worst * 1000:.0f} ms of the kill")
