"""The model of retry_storm.py in virtual time: callers who arrive one after the other, a backend that refuses
from 2.0 to 2.2 s, and how many are served in the busiest 50 ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import stormproof as sp

ATTEMPTS = 6
BACKOFFS: dict[str, Any] = {
    "no retry": None,
    "no jitter": sp.Exponential(0.1, cap=1e6, jitter="none"),
    "equal": sp.Exponential(0.1, cap=1e6, jitter="equal"),
    "full": sp.Exponential(0.1, cap=1e6),
}


def storm(kind: str, gap_s: float, callers: int = 1000, seed: int = 42) -> tuple[float, int]:
    """(The peak per second over 50 ms, how many callers meet the outage.) Callers arrive ``gap_s`` apart."""
    rng = np.random.default_rng(seed)
    backoff = BACKOFFS[kind]
    now = gap_s * np.arange(1, callers + 1)
    served: list[Any] = []
    met = 0
    for n in range(ATTEMPTS):
        refused = (now >= 2.0) & (now <= 2.2)
        served.append(now[~refused])
        met = met or int(refused.sum())
        now = now[refused]
        if backoff is None or not len(now):
            break
        now = now + backoff.delay(n, None, rng.random(len(now)))
    buckets = np.floor(np.concatenate(served) * 20).astype(int)
    return float(np.bincount(buckets).max() * 20), met
