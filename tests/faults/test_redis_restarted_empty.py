"""Redis is restarted between two exchanges and has forgotten everything, scripts and state."""

from __future__ import annotations

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import Server
from tests.support.store_outage import StoreOutage

pytestmark = [pytest.mark.redis, pytest.mark.proves("fault redis-restarted-empty")]


def test_redis_restarted_empty_is_filled_again(server: Server) -> None:
    with StoreOutage(server) as outage:
        outage.call_for(0.1)
        server.restart_empty()
        outage.call_until_recovered()
        outage.assert_share_is_kept()
        found = {(entry["name"], entry["kind"]) for entry in outage.stores[0].inspect()}
        assert {("limiter", "limiter"), ("budget", "budget")} <= found
        eventually(lambda: all(holder.alone is False for holder in outage.holders))
        assert server.keys_without_ttl() == []


def test_flushed_data_costs_no_call(server: Server) -> None:
    """FLUSHALL, or a failover to a replica that had not heard of it yet: the state starts anew."""
    with StoreOutage(server) as outage:
        outage.call_for(0.1)
        server.ask("FLUSHALL")
        outage.call_for(0.2)
        assert outage.store_events == []
        assert {entry["kind"] for entry in outage.stores[0].inspect()} >= {"limiter", "budget"}
        assert server.keys_without_ttl() == []
