"""One point of the sweep: a fleet that recovers from a hang, or a quiet caller's refused retries."""

from __future__ import annotations

from random import Random

import stormproof as sp
from stormproof import lab

ON = (lab.BackendError, sp.AttemptTimeout)

OFFERED_RPS, CAPACITY_RPS = 8_000, 10_000
HANG_S, TIMEOUT_S = 5, 0.5
DAY_S = 86_400


class DoubleTimeouts(sp.Budget):
    """A `Budget` that charges 2 for a retry after a timeout, as AWS's quota does."""

    def withdraw(self, timeout: bool = False) -> float:
        """Pay for one retry: 1, or 2 after a timeout; 0.0 when refused."""
        if not timeout:
            return super().withdraw()
        with self._lock:
            self._settle()
            if self._live.tokens < 2.0 - 1e-9:
                return 0.0
            self._live.tokens = max(0.0, self._live.tokens - 2.0)
            return 2.0


def make(burst: float, double: bool, clock: sp.testing.FakeClock | None = None) -> sp.Budget:
    """Return the default budget with another ``burst``."""
    return (DoubleTimeouts if double else sp.Budget)(burst=burst, clock=clock)


def recovery_s(
    processes: int, burst: float | None, double: bool, duration: float, seed: int = 1
) -> float | None:
    """Return the seconds from the hang's end to full goodput, ``None`` if there is none; no retries
    with ``burst=None``."""
    retry = sp.Retry(on=ON, attempts=1) if burst is None else sp.Retry(on=ON, budget=make(burst, double))
    scenario = lab.Scenario(
        clients=processes,
        arrival_rps=OFFERED_RPS,
        capacity_rps=CAPACITY_RPS,
        outage=lab.Outage(at=5, lasts=HANG_S, mode="hang"),
        timeout=TIMEOUT_S,
        duration=duration,
    )
    # The compiled engine knows the shipped kinds only.
    engine = "exact" if double else "fast"
    result = lab.simulate(sp.Policy(retry), scenario, seed=seed, engine=engine)
    return result.recovery_time if result.recovered else None


def refused_share(
    gap_s: float, failing: float, burst: float, double: bool, days: float, seed: int = 1
) -> float:
    """Return the share of failing calls whose one retry, which would succeed, is refused.

    One call every ``gap_s`` seconds. With ``double``, all failures are timeouts.
    """
    draw, clock = Random(seed).random, sp.testing.FakeClock()
    budget = make(burst, double, clock)
    failed = refused = 0
    for _ in range(round(days * DAY_S / gap_s)):
        clock.advance(gap_s)
        if draw() >= failing:
            budget.success()
            continue
        failed += 1
        if paid := budget.withdraw(double):
            budget.success(paid)
        else:
            refused += 1
    return refused / failed
