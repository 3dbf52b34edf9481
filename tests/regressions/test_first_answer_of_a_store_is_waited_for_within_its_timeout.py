"""A call that came before a store's first answer, and after the one token that needs none, waited twice the
store's timeout when the answer never came.

Stormproof: no call waits longer for the store than its timeout.
"""

from __future__ import annotations

import time

import pytest
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof.redis import RedisStore

TIMEOUT = 2.0


@pytest.mark.redis
def test_first_call_to_a_hanging_store_ends_within_its_timeout():
    with Server() as server:
        server.pause()
        with RedisStore(server.url, timeout=TIMEOUT) as store:
            limiter = sp.Limiter(1000, 1000, store=store, name="x")
            assert limiter.allow()
            started = time.monotonic()
            limiter.wait()
            # Less than twice; a busy machine may wake the thread late.
            assert time.monotonic() - started < 1.9 * TIMEOUT
        server.resume()
