"""What the checks run: policies that retry whatever fails in the lab, crowds, and walks along a schedule."""

from __future__ import annotations

from typing import Any

import numpy as np

import stormproof as sp
from stormproof import lab

ON = (lab.BackendError, sp.AttemptTimeout)
DRAWS = 200_000


def retrying(**options: Any) -> sp.Policy:
    """A policy that retries what fails in a simulation, without a budget unless one is given."""
    return sp.Policy(sp.Retry(**{"on": ON, "budget": None, **options}))


def simulate(policy: sp.Policy | None, scenario: lab.Scenario, seed: int = 1) -> lab.Result:
    """`lab.simulate` by the exact engine, so that the figures do not hang on what is installed."""
    return lab.simulate(policy, scenario, seed=seed, engine="exact")


def draws(seed: int, count: int = DRAWS) -> Any:
    return np.random.default_rng(seed).random(count)


def walk(backoff: Any, retries: int, clients: int, seed: int = 1) -> Any:
    """The waits of ``clients`` clients, one row for each of their ``retries`` retries."""
    rng = np.random.default_rng(seed)
    waits: list[Any] = []
    for n in range(retries):
        prev = waits[-1] if waits else None
        waits.append(np.broadcast_to(backoff.delay(n, prev, rng.random(clients)), (clients,)))
    return np.stack(waits)


def crowd(calls: int, lasts: float, **options: Any) -> lab.Scenario:
    """``calls`` callers, nobody else, who all call at 1 s, where a backend begins to refuse for ``lasts``."""
    given: dict[str, Any] = {
        "clients": calls,
        "arrival_rps": 0,
        "capacity_rps": 10_000_000,
        "outage": lab.Outage(1, lasts, "fail"),
        "faults": [lab.Burst(1, calls)],
        "duration": 10,
        "arrivals": "even",
        **options,
    }
    return lab.Scenario(**given)


def thousands(value: float) -> str:
    """A count with thousands separators, rounded to three figures."""
    return f"{float(f'{value:.3g}'):,.0f}"


def received(result: lab.Result) -> list[tuple[float, float | None]]:
    """(Time, attempts per second that arrived) for each step of the series."""
    return list(zip(result.series["time"], result.series["received"], strict=True))  # type: ignore[arg-type]
