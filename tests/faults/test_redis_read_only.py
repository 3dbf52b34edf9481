"""The server turns into a replica that takes no writes, as after a failover that clients did not follow."""

from __future__ import annotations

import pytest
from tests.support.redis_servers import Server
from tests.support.store_outage import StoreOutage

from stormproof import events

pytestmark = [pytest.mark.redis, pytest.mark.proves("fault redis-read-only")]


def test_read_only_server_counts_as_down_until_it_takes_writes(server: Server) -> None:
    with Server() as master, StoreOutage(server) as outage:
        outage.call_for(0.1)
        server.make_read_only(master)
        outage.call_until_alone()
        outage.assert_share_is_kept()
        # It answers, but not to what matters: no part goes back and forth.
        assert [type(event) for event in outage.store_events] == [events.StoreDown] * 2
        assert {event.error for event in outage.store_events} == {"redis.exceptions.ReadOnlyError"}
        server.make_writable()
        outage.call_until_recovered()
        assert server.keys_without_ttl() == []
