"""Redis stops answering (SIGSTOP) and goes on later, with all it knew."""

from __future__ import annotations

import time

import pytest
from tests.support.redis_servers import Server
from tests.support.store_outage import TIMEOUT, Ordeal

from stormproof import events

pytestmark = [pytest.mark.redis, pytest.mark.proves("fault redis-paused")]


def test_paused_redis_delays_no_call(server: Server) -> None:
    with Ordeal(server) as ordeal:
        ordeal.live(0.1)
        server.pause()
        # From the first moment on, while the exchange still waits for its answer.
        _, worst = ordeal.live(TIMEOUT * 2)
        assert worst < TIMEOUT
        ordeal.fallen_back()
        ordeal.share_is_kept()
        assert {type(event) for event in ordeal.told} == {events.StoreDown}
        server.resume()
        ordeal.recovered()
        assert server.keys_without_ttl() == []


def test_paused_redis_does_not_delay_close(server: Server) -> None:
    ordeal = Ordeal(server)
    try:
        ordeal.live(0.1)
        server.pause()
        start = time.monotonic()
        for store in ordeal.stores:
            store.close()
        assert time.monotonic() - start < 2 * (1 + 2 * TIMEOUT)
    finally:
        server.resume()
        ordeal.close()
