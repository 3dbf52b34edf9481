"""A foreign value sits at our key: that resource alone decides by its `on_failure`."""

from __future__ import annotations

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import Server
from tests.support.store_outage import StoreOutage

from stormproof import events

pytestmark = [pytest.mark.redis, pytest.mark.proves("fault redis-wrong-type")]


def test_only_the_resource_with_a_foreign_key_falls_back(server: Server) -> None:
    with StoreOutage(server) as outage:
        key = outage.stores[0].key("limiter", "limiter")
        server.ask("DEL", key)
        server.ask("SET", key, "a foreign value", "PX", 60_000)
        eventually(lambda: outage.call_for(0.01) and outage.alone == [True, True, False, False])
        outage.assert_share_is_kept(0.3)
        assert all(store.state == "up" for store in outage.stores)
        assert [(type(event), event.operation) for event in outage.store_events] == [
            (events.StoreDown, "limiter")
        ] * 2
        assert server.ask("GET", key) == "a foreign value"
        server.ask("DEL", key)
        outage.call_until_recovered()
        eventually(lambda: len(outage.store_events) == 4)
        assert [(type(event), event.operation) for event in outage.store_events[2:]] == [
            (events.StoreUp, "limiter")
        ] * 2
