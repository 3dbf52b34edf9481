"""A store without users: its thread ends, its connections close, its leases go back."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from tests.integration.fleet.test_fleet_limiter import lease_some, settled
from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof.redis import RedisStore

pytestmark = pytest.mark.redis


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "stormproof-store"}


def clients(server: Server) -> int:
    """Count the connected clients beside the one that asks."""
    return str(server.ask("CLIENT", "LIST")).count("id=") - 1


def test_dropped_stores_end_their_threads_and_connections(server: Server) -> None:
    before = threads()
    kept = []
    for _ in range(3):
        store = RedisStore(server.url, timeout=10)
        kept.append((store, sp.Limiter(10, 5, store=store, name="x"), sp.Bulkhead(5, store=store, name="x")))
        assert store.settle(5)
        del store
    assert len(threads() - before) == 3 and clients(server) == 3
    kept.clear()
    gc.collect()
    eventually(lambda: not threads() - before)
    eventually(lambda: clients(server) == 0)


def test_dropped_store_gives_back_its_leases(server: Server) -> None:
    store: Any = RedisStore(server.url, timeout=10)
    limiter: Any = sp.Limiter(0, 1000, store=store, name="x")
    bulkhead: Any = sp.Bulkhead(5, store=store, name="x")
    settled(limiter)
    used = lease_some(limiter)
    assert server.ask("HLEN", "sp:{x}:bulkhead") == 1
    del store, limiter, bulkhead
    gc.collect()
    eventually(lambda: int(server.ask("HGET", "sp:{x}:limiter", "level")) == (1000 - used) * 1_000_000)
    eventually(lambda: server.ask("HLEN", "sp:{x}:bulkhead") == 0)


def test_limiter_keeps_its_store_alive(server: Server) -> None:
    limiter = sp.Limiter(0, 100, store=RedisStore(server.url, timeout=10), name="x")
    gc.collect()
    settled(limiter)
    lease_some(limiter)
    assert limiter.store is not None and limiter.store.state == "up"
    limiter.store.close()


def test_reload_that_fails_leaves_no_store_behind(server: Server) -> None:
    before = threads()
    limiter = {"rate": 100, "burst": 50, "store": True, "name": "x"}

    def data(timeout: float, attempts: int) -> dict[str, Any]:
        policy = {"retry": {"attempts": attempts}, "rate_limit": {"limiter": limiter}}
        return {"store": {"url": server.url, "timeout": timeout}, "policies": {"p": policy}}

    registry = sp.Registry.from_data(data(0.5, 1))
    store = registry.store
    raised = []
    for timeout in (0.6, 0.7):
        with pytest.raises(sp.ConfigError) as caught:
            # The limiter is made before what is wrong is found.
            registry.reload({**data(timeout, 1), "breakers": {"b": {"probes": 0}}})
        raised.append(caught)
        with pytest.raises(sp.ConfigError) as caught:
            registry.reload({**data(timeout, 1), "policies": {**data(0.5, 1)["policies"], "z": {"retry": 5}}})
        raised.append(caught)
    assert registry.store is store and not store._exchange._closing
    assert len(threads() - before) <= 1
    with pytest.raises(sp.ConfigError):
        sp.Registry.from_data({**data(0.5, 1), "policies": {**data(0.5, 1)["policies"], "z": {"retry": 5}}})
    assert len(threads() - before) <= 1
    store.close()
    eventually(lambda: not threads() - before)
