"""Eight real processes on one limit: together they keep it and use it, wherever the demand is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests.support.limiter_processes import run_processes
from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof._strategies.limiter.rules import leases
from stormproof.redis import RedisStore

pytestmark = [pytest.mark.redis, pytest.mark.proves("invariant 17")]

RATE, BURST, SECONDS = 1000.0, 100, 1.0

#: A machine that had no time for all of them proves nothing about the limit: how often to repeat the run.
TRIES = 4


def on_time(reports: list[dict[str, Any]]) -> bool:
    """Return True if the bound applies: all counted each other, and the busy ones were answered.

    A lease is for one horizon; a process that hears nothing for longer goes on as before, and is charged
    for it later.
    """
    members = len(reports)
    busy = [each for each in reports if each["callers"]]
    return all(each["counted"] >= members and not each["outages"] for each in reports) and all(
        each["late"] <= leases.horizon_s(members) for each in busy
    )


@pytest.mark.parametrize(
    ("callers", "used"),
    [
        pytest.param([10] * 8, 0.97, id="all-busy"),
        pytest.param([40] + [0] * 7, 0.95, id="one of eight"),
    ],
)
def test_limit_is_kept_and_used(server: Server, callers: list[int], used: float) -> None:
    for _ in range(TRIES):
        reports = run_processes(server.url, SECONDS, RATE, BURST, callers)
        admitted = sum(each["admitted"] for each in reports)
        assert server.keys_without_ttl() == []
        if not on_time(reports):
            server.ask("FLUSHALL")
            continue
        assert admitted <= BURST + RATE * SECONDS + leases.overshoot(RATE, BURST, len(callers))
        # A process without demand exchanges only now and then.
        idle = [each["exchanges"] for each in reports if not each["callers"]]
        assert all(exchanges <= 4 + 1 / leases.HOT_S + SECONDS / leases.WARM_S for exchanges in idle)
        if admitted >= used * RATE * SECONDS:
            return
        server.ask("FLUSHALL")
    pytest.fail(f"{admitted} of {RATE * SECONDS:.0f} were used, or late, at each of {TRIES} tries")


HOLDS = """
import sys, time
import stormproof as sp

store = sp.redis.RedisStore(sys.argv[1], timeout=1.0)
limiter = sp.Limiter(0, 1000, store=store, name="x")
store.settle(10)
spent = 0
while limiter._fleet.bucket.held(limiter.clock_time()) < 10:
    spent += limiter.allow()
    time.sleep(0.001)
print(spent, flush=True)
time.sleep(60)
"""


def test_killed_process_takes_no_more_than_its_lease_along(server: Server) -> None:
    victim = subprocess.Popen([sys.executable, "-c", HOLDS, server.url], stdout=subprocess.PIPE, text=True)
    try:
        assert victim.stdout is not None
        spent = int(victim.stdout.readline())
    finally:
        victim.kill()
        victim.communicate()
    before = int(server.ask("HGET", "sp:{x}:limiter", "level")) // 1_000_000
    # Half a share of what there was is the most that it could have leased.
    assert 1000 - spent - 500 <= before < 1000 - spent
    with RedisStore(server.url, timeout=1.0) as store:
        limiter = sp.Limiter(0, 1000, store=store, name="x")
        # It is forgotten: the one that is left counts itself alone.
        fleet = limiter._fleet
        assert fleet is not None
        eventually(lambda: limiter.allow(0) and fleet.bucket.instances == 1)
        admitted = 0

        def use() -> bool:
            nonlocal admitted
            admitted += limiter.allow()
            return admitted == before

        eventually(use)
    assert server.keys_without_ttl() == []
