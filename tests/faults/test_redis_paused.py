"""Redis stops answering (SIGSTOP) and goes on later, with all it knew."""

from __future__ import annotations

import time

import pytest
from tests.support.redis_servers import Server
from tests.support.store_outage import TIMEOUT, StoreOutage

from stormproof import events

pytestmark = [pytest.mark.redis, pytest.mark.proves("fault redis-paused")]


def test_paused_redis_delays_no_call(server: Server) -> None:
    with StoreOutage(server) as outage:
        outage.call_for(0.1)
        server.pause()
        # From the first moment on, while the exchange still waits for its answer.
        _, worst = outage.call_for(TIMEOUT * 2)
        assert worst < TIMEOUT
        outage.call_until_alone()
        outage.assert_share_is_kept()
        assert {type(event) for event in outage.store_events} == {events.StoreDown}
        server.resume()
        outage.call_until_recovered()
        assert server.keys_without_ttl() == []


def test_paused_redis_does_not_delay_close(server: Server) -> None:
    outage = StoreOutage(server)
    try:
        outage.call_for(0.1)
        server.pause()
        start = time.monotonic()
        for store in outage.stores:
            store.close()
        # It would wait for ever. A few timeouts are enough, where the machine is not busy.
        assert time.monotonic() - start < 20 * TIMEOUT
    finally:
        server.resume()
        outage.close()
