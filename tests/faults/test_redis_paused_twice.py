"""Redis is away twice: what a fleet lets through in any window stays within the bound of docs/fleet.md."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import Server
from tests.support.sizes import sized
from tests.support.store_outage import stated_overshoot

import stormproof as sp
from stormproof._fleet.health import LONGEST_PROBE_S
from stormproof.redis import RedisStore

pytestmark = [pytest.mark.redis, pytest.mark.sized]

RATE, BURST, INSTANCES, TIMEOUT_S = 400.0, 40, 4, 0.2


def worst_window(times: list[float]) -> float:
    """The most that was let through beyond burst + rate * w, in any window that ends with an admission."""
    worst, best_start = 0.0, float("-inf")
    for number, at in enumerate(times):
        best_start = max(best_start, RATE * at - number)
        worst = max(worst, number + 1 - RATE * at + best_start)
    return worst - BURST


def test_worst_window_counts_the_densest_window() -> None:
    even = [n / RATE for n in range(1000)]
    assert worst_window(even) == pytest.approx(1 - BURST)
    # A hundred at once, in the middle of an even stream: of the two windows, the one with these.
    assert worst_window([*even, *[2.5] * 100]) == pytest.approx(100 - BURST, abs=1.5)


FAULTS: dict[str, tuple[Callable[[Server], None], Callable[[Server], None]]] = {
    "paused": (Server.pause, Server.resume),
    "killed, back empty": (Server.kill, Server.start),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fleet_stays_within_its_bound_while_redis_is_away_twice(server: Server, fault: str) -> None:
    hurt, mend = FAULTS[fault]
    times: list[float] = []
    stores = [RedisStore(server.url, timeout=TIMEOUT_S) for _ in range(INSTANCES)]
    limiters = [sp.Limiter(RATE, BURST, store=store, name="shared") for store in stores]
    # What one limiter admits that is asked as often: less than its rate if the machine is too busy to ask.
    control, control_admitted = sp.Limiter(RATE, BURST), 0

    def call_for(seconds: float) -> None:
        nonlocal control_admitted
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            times.extend(time.monotonic() for limiter in limiters if limiter.allow())
            control_admitted += sum(control.allow() for _ in limiters)
            time.sleep(0.0005)

    try:
        # Those that start together take two exchanges to count each other.
        eventually(lambda: call_for(0.05) or _all_counted(stores[0]))
        times.clear()
        control_admitted = 0
        away_s = sized(2.0, 0.8)
        call_for(1.0)
        for _ in range(2):
            hurt(server)
            call_for(away_s)
            mend(server)
            # Longer than the longest pause between two probes, so that all are back.
            call_for(LONGEST_PROBE_S + TIMEOUT_S + 0.3)
    finally:
        server.resume()
        for store in stores:
            store.close()
    # On a busy machine an answer may come too late: to the fleet that is one outage more.
    outages = max(2, *(store.stats()["outages"] for store in stores))
    assert worst_window(times) <= stated_overshoot(RATE, BURST, INSTANCES, TIMEOUT_S, outages)
    assert len(times) >= 0.5 * control_admitted, "the fleet goes on meanwhile"


def _all_counted(store: RedisStore) -> bool:
    return any(entry["state"].get("instances") == INSTANCES for entry in store.inspect())
