"""A breaker's ``open_growth`` of 100,000 raised OverflowError in place of the call's own error, and one of
1.05 never came to ``open_max``: the exponent was cut at 64, too late for the one and too early for the other.

Stormproof: the time grows with every reopening until ``open_max``, whatever the growth, in one process and in
a fleet.
"""

from __future__ import annotations

import pytest
from tests.support.redis_servers import Server
from tests.support.scripted import Boom

import stormproof as sp
from stormproof.redis import RedisStore


def fails():
    raise Boom


@pytest.mark.parametrize(("growth", "reopenings"), [(1e5, 70), (1e300, 3), (1.05, 140)])
def test_open_time_grows_to_open_max(growth, reopenings):
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=1, open_growth=growth, open_max=600, clock=clock)
    policy = sp.Policy(breaker, clock=clock)
    for _ in range(reopenings):
        with pytest.raises(Boom):
            policy.call(fails)
        clock.advance(600.001)
    with pytest.raises(Boom):
        policy.call(fails)
    with pytest.raises(sp.CircuitOpen) as refused:
        policy.call(fails)
    assert refused.value.retry_after == pytest.approx(600, abs=1)


@pytest.mark.redis
@pytest.mark.parametrize(("growth", "reopenings"), [(1e5, 70), (1.05, 140)])
def test_open_time_in_a_fleet_grows_to_open_max(growth, reopenings):
    """The script is given that many reopenings, and a vote to open."""
    with Server() as server, RedisStore(server.url, timeout=1) as store:
        key = store.key("breaker", "x")
        server.ask("HSET", key, "reopened", reopenings)
        growth_micro, most = round(growth * 1_000_000), 600_000_000
        reply = store.call(
            "breaker", key, "me", 0, 1, 1, 1, 0, "", 0, 1, 10**7, 10**6, growth_micro, most, 1, 10**6, 1
        )
        assert (reply[0], reply[2]) == (b"open", most)
