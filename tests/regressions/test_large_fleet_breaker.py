"""A breaker of a fleet failed in the store once some 1,300 processes had seen failures at the same time,
which is when it is needed: Lua passes on no more than 8,000 values at once. Every process then went on alone.

Stormproof: a state of any size is written, and cleaned up, in parts.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.redis_servers import Server

from stormproof.redis import RedisStore

PROCESSES = 5_000
#: In microseconds: not over while a test runs.
FAR, LONG_AGO = 10**16, 1


def exchange(store: RedisStore, key: str, vote: int) -> Any:
    """Return the answer to one process of them; the votes of all are needed."""
    open_for, growth, most, probes, lease = 5_000_000, 2_000_000, 60_000_000, 3, 1_000_000
    rule = (0, 20, 10_000_000, open_for, growth, most, probes, lease, PROCESSES)
    return store.call("breaker", key, "n0", 0, 1, 1, vote, 0, "", *rule)


@pytest.mark.redis
def test_every_process_of_a_large_fleet_reports_failures():
    with Server() as server, RedisStore(server.url, timeout=5) as store:
        key, client = store.key("breaker", "x"), store._link.client()
        names = [f"n{number}" for number in range(1, PROCESSES)]
        client.hset(key, mapping={f"{kind}:{name}": FAR for name in names for kind in "ifv"})
        client.hset(key, mapping={f"i:gone{number}": LONG_AGO for number in range(10_000)})

        state, _, _, taken, _, instances, reporters, _ = exchange(store, key, vote=0)
        assert (state, taken, instances, reporters) == (b"closed", 1, PROCESSES, PROCESSES)
        kept = set(client.hkeys(key))
        assert {b"i:n0", b"f:n0", b"i:n1", f"v:n{PROCESSES - 1}".encode()} <= kept
        assert not [field for field in kept if field.startswith(b"i:gone")]

        assert exchange(store, key, vote=1)[0] == b"open"
