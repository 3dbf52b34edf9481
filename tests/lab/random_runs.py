"""Random scenarios and policies that both engines can run, and whether they give the same run.

The suite runs some hundred of them; ``make parity`` runs ten thousand.
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from typing import Any

import numpy as np

import stormproof as sp
from stormproof import lab
from stormproof.lab.engines.numba import engine
from stormproof.lab.results.recorder import Raw
from stormproof.lab.simulate import exact

ON = (lab.BackendError, sp.AttemptTimeout)

#: What must be equal: totals exactly, columns step by step, and what is summed in another order to 1e-9.
TOTALS = ("calls", "attempts", "successes", "failures", "until")
COLUMNS = ("offered", "received", "succeeded", "kept", "tries", "queue")


def backoff(rng: Random) -> Any:
    jitter: Any = rng.choice(["none", "full", "equal", sp.Symmetric(0.4)])
    base = rng.choice([0.0, 0.0625, rng.uniform(0.01, 0.4)])
    return rng.choice(
        [
            sp.Constant(base, jitter=jitter),
            sp.Exponential(base or 0.1, factor=rng.choice([1.5, 2.0, 3.0]), cap=2.0, jitter=jitter),
            sp.Linear(base or 0.1, cap=1.0, jitter=jitter),
            sp.Fibonacci(base or 0.1, cap=1.0, jitter=jitter),
            sp.Schedule([0.1, base, 0.5]),
            sp.Decorrelated(base or 0.05, cap=1.0, clip=rng.choice(["range", "sample"])),
        ]
    )


def budget(rng: Random) -> Any:
    window = rng.choice([0.25, 1.0, 10.0])
    return rng.choice(
        [
            None,
            sp.Budget(rng.choice([0.0, 0.1, 0.5, 1.0]), burst=rng.choice([0, 1, 10]), window=window),
            sp.Budget(),
            sp.WindowBudget(rng.choice([0.1, 0.5]), floor=rng.choice([0.0, 0.5]), window=window),
            sp.QuotaBudget(
                rng.choice([10, 50, 500]),
                retry_cost=5,
                timeout_cost=10,
                success_credit=1,
                throttle_cost=rng.choice([None, 3]),
            ),
            sp.ThrottleBudget(rng.choice([4, 10]), token_ratio=rng.choice([0.1, 0.5])),
            sp.RateBudget(rng.choice([0.5, 5.0]), rng.choice([1, 5]), wait=rng.random() < 0.5),
        ]
    )


def policy(rng: Random) -> sp.Policy | None:
    if rng.random() < 0.05:
        return None
    retry = sp.Retry(
        on=rng.choice([ON, ON, ON, lab.BackendError, sp.transient]),
        attempts=rng.choice([1, 2, 3, 4, 8]),
        backoff=backoff(rng),
        budget=budget(rng),
        within=rng.choice([None, 0.3, 2.0, 30.0]),
        max_hint=rng.choice([0.2, 60.0]),
        late=rng.choice(["stop", "clip"]),
    )
    return sp.Policy(retry, *([sp.Timeout(rng.choice([0.0625, 0.5]))] if rng.random() < 0.3 else []))


def fault(rng: Random) -> Any:
    at, lasts = rng.choice([0.5, 1.0, rng.uniform(0.0, 2.0)]), rng.choice([0.25, 0.5, rng.uniform(0.05, 1.0)])
    hint = rng.choice([None, None, 0.1, 0.4])
    cost = rng.choice([None, 0.0, 0.3, 1.0])
    return rng.choice(
        [
            lab.Outage(at, lasts),
            lab.Outage(at, lasts, "fail", hint, cost),
            lab.Brownout(at, lasts, rng.choice([0.0, 0.5])),
            lab.Ramp(at, lasts, 0.2, 4),
            lab.Errors(at, lasts, rng.choice([0.1, 0.6]), hint, cost),
            lab.Latency(at, lasts, 0.1),
            lab.Partition(at, lasts, 0.5, rng.choice(["hang", "fail"])),
            lab.Deploy(at, lasts, instances=3, detect=0.1),
            lab.ColdCache(at, 3.0, 50),
            lab.Spike(at, lasts, rng.choice([0.0, 3.0])),
            lab.Burst(at, 100, over=rng.choice([0.0, 0.25])),
        ]
    )


def scenario(rng: Random) -> lab.Scenario:
    found = [fault(rng) for _ in range(rng.choice([1, 1, 2, 3]))]
    hours = [each for each in found if isinstance(each, lab.Outage)]
    spread: Any = rng.choice(["fixed", "fixed", "exponential", "lognormal"])
    return lab.Scenario(
        clients=rng.choice([1, 3, 40]),
        arrival_rps=rng.choice([64, 128, rng.uniform(50, 250)]),
        capacity_rps=rng.choice([128, 256, rng.uniform(100, 400)]),
        outage=hours,
        faults=[each for each in found if each not in hours],
        latency=rng.choice([0.0, 0.0, 0.0, 0.03125, lab.Spread("exponential", 0.05)]),
        timeout=rng.choice([None, 0.25, 0.25, 1.0]),
        duration=rng.choice([3.0, 4.0]),
        arrivals=rng.choice(["even", "poisson"]),
        service=spread,
        workers=rng.choice([1, 1, 4]),
        queue=rng.choice([None, None, 0, 20]),
        shed=rng.random() < 0.2,
        limit_rps=rng.choice([None, None, None, 120.0]),
        error_rate=rng.choice([0.0, 0.0, 0.05, 0.4]),
        retry_after=rng.choice([None, None, 0.1]),
        cost=rng.choice([0.0, 0.0, 0.5, 1.5]),
        fleet=rng.random() < 0.15,
        resolution=rng.choice([None, 0.3]),
    )


def case(seed: int) -> tuple[sp.Policy | None, lab.Scenario]:
    """Return the policy and the scenario of ``seed``."""
    rng = Random(f"parity {seed}")
    return policy(rng), scenario(rng)


def difference(got: Raw, wanted: Raw) -> str | None:
    """Say in what the two runs differ; None: in nothing."""
    for name in TOTALS:
        if getattr(got, name) != getattr(wanted, name):
            return f"{name}: {getattr(got, name)!r} != {getattr(wanted, name)!r}"
    for name in COLUMNS:
        if not np.array_equal(getattr(got, name), getattr(wanted, name), equal_nan=True):
            return f"{name} differs"
    if not np.allclose(got.budget, wanted.budget, 1e-9, 1e-9, equal_nan=True):
        return "budget differs"
    return None


def compared(seed: int) -> str | None:
    """Run case ``seed`` by both engines: in what the runs differ."""
    rule, place = case(seed)
    why = engine.why_not(rule, place)
    if why is not None:
        return f"not compiled: {why}"
    return difference(engine.run(rule, place, seed, None), exact(rule, place, seed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    bad = 0
    for seed in range(chosen.first, chosen.first + chosen.cases):
        found = compared(seed)
        if found is not None:
            bad += 1
            sys.stdout.write(f"case {seed}: {found}\n  {case(seed)!r}\n")
    equal = f"{chosen.cases - bad:,} of {chosen.cases:,}"
    sys.stdout.write(f"{equal} random runs are equal in both engines, count for count\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
