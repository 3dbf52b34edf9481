"""SCRIPT FLUSH under way: the next exchange sends the text, and no call is affected."""

from __future__ import annotations

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import Server
from tests.support.store_outage import StoreOutage

pytestmark = [pytest.mark.redis, pytest.mark.proves("fault redis-script-flush")]


def test_script_flush_causes_no_error_and_reloads_the_scripts(server: Server) -> None:
    with StoreOutage(server) as outage:
        outage.call_for(0.1)
        before = [store.stats()["reloads"] for store in outage.stores]
        for _ in range(3):
            server.ask("SCRIPT", "FLUSH")
            outage.call_for(0.1)
        assert outage.store_events == []
        assert not any(outage.alone)
        assert sum(store.stats()["reloads"] for store in outage.stores) > sum(before)
        assert all(store.stats()["errors"] == 0 for store in outage.stores)
        eventually(lambda: outage.call_for(0.01)[0] > 0)
