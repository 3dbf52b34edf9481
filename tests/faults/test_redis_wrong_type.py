"""A foreign value sits at our key: that resource alone decides by its `on_failure`."""

from __future__ import annotations

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import Server
from tests.support.store_outage import BURST, RATE, Ordeal

from stormproof import events

pytestmark = [pytest.mark.redis, pytest.mark.proves("fault redis-wrong-type")]


def test_only_that_resource_falls_back(server: Server) -> None:
    with Ordeal(server) as ordeal:
        key = ordeal.stores[0].key("limiter", "limiter")
        server.ask("DEL", key)
        server.ask("SET", key, "somebody else's", "PX", 60_000)
        eventually(lambda: ordeal.live(0.01) and ordeal.alone == [True, True, False, False])
        admitted, _ = ordeal.live(0.3)
        assert 0.8 * RATE * 0.3 <= admitted <= BURST + RATE * 0.3 * 1.05 + 2
        assert all(store.state == "up" for store in ordeal.stores)
        assert [(type(event), event.operation) for event in ordeal.told] == [
            (events.StoreDown, "limiter")
        ] * 2
        assert server.ask("GET", key) == "somebody else's"
        server.ask("DEL", key)
        ordeal.recovered()
        eventually(lambda: len(ordeal.told) == 4)
        assert [(type(event), event.operation) for event in ordeal.told[2:]] == [
            (events.StoreUp, "limiter")
        ] * 2
