"""What callers in line for a fleet's limiter had booked was charged to the store at once, and ripened in
every process at the same time: 40 callers that were cancelled after 5 ms again and again let four instances
pass 24 more than 10/s and a burst of 1 allow; without one, they were 13 ahead where 6.5 are stated. Each also
counted on the speed at which its last lease ripened, as if that lasted.

Stormproof: what is in line is charged when it is spent, and counts on the fair share beyond what is lent.
"""

from __future__ import annotations

import math

import pytest
from tests.unit.strategies.limiter.test_leases import Pool

from stormproof._strategies.limiter.rules import leases
from stormproof._strategies.limiter.rules.bucket import Grant
from stormproof._strategies.limiter.rules.leases import LeaseBucket

TICK_S, PATIENCE_S, MAX_WAIT_S = 0.0025, 0.005, 5.0


class Process:
    """One instance of a fleet: its bucket, and when it goes to the store."""

    def __init__(self, pool: Pool, place: int) -> None:
        self.pool = pool
        self.bucket = LeaseBucket(pool.rate, pool.burst, pool.instances, 1, 0.0)
        self.due, self.earliest = place * 0.003, 0.0

    def visit(self, now: float) -> None:
        if now >= self.due:
            owed, wanted = self.bucket.ask(now)
            granted, before, after = self.pool.exchange(owed, wanted, now)
            self.bucket.take(owed, granted, before, after, self.pool.instances, now)
            short, ready_s = granted < wanted, self.bucket.ready_s()
            self.due, self.earliest = leases.next_visit(
                now, self.bucket.demand, self.pool.instances, short, ready_s
            )
        self.bucket.advance(now)


class Caller:
    """Calls again and again, in line; with ``patience_s`` it leaves after that, and calls anew."""

    def __init__(self, process: Process, patience_s: float) -> None:
        self.process, self.patience_s = process, patience_s
        self.grant: Grant | None = None
        self.since = 0.0

    def act(self, now: float) -> int:
        """Return the calls that pass at ``now``."""
        bucket, passed = self.process.bucket, 0
        while True:
            if self.grant is None:
                grant = bucket.reserve(1, now, MAX_WAIT_S, queue=True)
                if bucket.tokens(now) < 1:
                    self.process.due = min(self.process.due, max(self.process.earliest, now))
                if not grant.ok:
                    return passed
                self.grant, self.since = grant, now
            if self.grant not in bucket.waiting:
                self.grant, passed = None, passed + 1
            elif bucket.pause(self.grant, now) <= 1e-12:
                bucket.arrive(self.grant, now)
            else:
                if now - self.since >= self.patience_s:
                    bucket.leave(self.grant, now)
                    self.grant = None
                return passed


def passes(pool: Pool, cancelled: int, seconds: float) -> list[float]:
    """Return when each call passed: 20 callers that wait, and ``cancelled`` that do not."""
    fleet = [Process(pool, place) for place in range(pool.instances)]
    callers = [Caller(fleet[i % len(fleet)], math.inf) for i in range(20)]
    callers += [Caller(fleet[i % len(fleet)], PATIENCE_S) for i in range(cancelled)]
    spent: list[float] = []
    for step in range(int(seconds / TICK_S)):
        now = step * TICK_S
        for process in fleet:
            process.visit(now)
        for caller in callers:
            spent += [now] * caller.act(now)
    return spent


def most_ahead(spent: list[float], rate: float, burst: int) -> float:
    """Return by how many calls the worst window w is ahead of burst + rate * w."""
    least, ahead = math.inf, -math.inf
    for place, at in enumerate(spent):
        least = min(least, place - rate * at)
        ahead = max(ahead, place + 1 - rate * at - least - burst)
    return ahead


@pytest.mark.parametrize("cancelled", [0, 5, 40])
@pytest.mark.parametrize(("rate", "burst", "instances"), [(10, 1, 4), (50, 5, 4), (20, 5, 8), (200, 20, 2)])
def test_fleet_with_cancelled_callers_uses_its_limit_and_keeps_the_stated_bound(
    rate: int, burst: int, instances: int, cancelled: int
) -> None:
    seconds = max(3.0, 60 / rate)
    spent = passes(Pool(rate, burst, instances), cancelled, seconds)
    assert most_ahead(spent, rate, burst) <= leases.overshoot(rate, burst, instances)
    assert len(spent) >= 0.95 * (rate * seconds + burst)
