"""A process that left a bulkhead of a fleet shortened the lease of all: the key was gone after a second, and
with it the places of a process that had been silent for that long, whose lease was for two.

Stormproof: places are held for as long as their own lease says, whatever other processes do.
"""

from __future__ import annotations

import pytest
from tests.support.redis_servers import Server

from stormproof.redis import RedisStore

LEASE = 60_000_000


@pytest.mark.redis
def test_leaving_instance_gives_back_only_its_own_places():
    with Server() as server, RedisStore(server.url, timeout=5) as store:
        key, client = store.key("bulkhead", "x"), store._link.client()
        assert store.call("bulkhead", key, "stays", 4, 3, 3, LEASE)[0] == 3
        assert store.call("bulkhead", key, "leaves", 4, 1, 0, LEASE)[0] == 1
        store.call("bulkhead", key, "leaves", 4, 0, 0, 0)
        assert client.pttl(key) > LEASE / 1000 / 2
        assert store.call("bulkhead", key, "comes", 4, 4, 0, 1_000_000)[0] == 1
        assert client.pttl(key) > LEASE / 1000 / 2


@pytest.mark.redis
def test_key_of_a_fleet_bulkhead_expires_with_its_lease():
    with Server() as server, RedisStore(server.url, timeout=5) as store:
        key, client = store.key("bulkhead", "x"), store._link.client()
        store.call("bulkhead", key, "one", 4, 1, 1, LEASE)
        assert 0 < client.pttl(key) <= LEASE / 1000 + 1000
