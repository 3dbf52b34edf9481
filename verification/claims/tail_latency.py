"""Claims about the slow tail, and about hedging it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import stormproof as sp
from stormproof import lab

from .experiments import simulate
from .model import Found, Topic, found
from .sources import TAIL

topic = Topic("Tails and hedging")


@topic.claim(
    "One slow server in a hundred",
    "If one server in 100 answers slowly, 63 % of the requests that ask 100 servers are slow; with one in "
    "10,000 and "
    "2,000 servers it is almost one in five.",
    TAIL,
)
def fan_out() -> Found:
    rng = np.random.default_rng(1)
    shares = [float(np.mean(rng.binomial(n, p, 200_000) > 0)) for n, p in ((100, 0.01), (2000, 0.0001))]
    return found(
        "200,000 requests with 100 servers each, and 200,000 with 2,000",
        f"{shares[0]:.1%} and {shares[1]:.1%}",
        abs(shares[0] - 0.63) < 0.01 and 0.17 < shares[1] < 0.2,
    )


@topic.claim(
    "Hedging at the 95th percentile costs 5 percent",
    "A second request sent after the 95th percentile of the latency adds about 5 % of load and shortens the "
    "tail "
    "substantially.",
    TAIL,
    slow=True,
)
def hedged() -> Found:
    mean, sigma = 0.05, 1.0
    p95 = math.exp(math.log(mean) - sigma**2 / 2 + 1.6448536 * sigma)
    place = lab.Scenario(
        clients=1,
        arrival_rps=200,
        capacity_rps=1e6,
        latency=lab.Spread("lognormal", mean=mean, sigma=sigma),
        duration=60,
    )
    policies: dict[str, Any] = {
        "alone": None,
        "after p95": sp.Policy(sp.Hedge(after=p95, max=2, idempotent=True)),
        "after the p95 it measures": sp.Policy(sp.Hedge(after="p95", max=2, idempotent=True)),
    }
    results = {kind: simulate(policy, place) for kind, policy in policies.items()}
    extra = {kind: result.amplification - 1 for kind, result in results.items()}
    p99 = {kind: result.p99 or math.inf for kind, result in results.items()}
    known, own = extra["after p95"], extra["after the p95 it measures"]
    return found(
        f"`lab.simulate`, lognormal latency (mean 50 ms, sigma 1), `Hedge(after={p95:.3f})` and "
        "`Hedge(after='p95')`",
        "; ".join(f"{kind}: p99 {p99[kind] * 1000:.0f} ms, {extra[kind]:.1%} more load" for kind in results),
        all(abs(share - 0.05) < 0.01 for share in (known, own)) and p99["after p95"] < 0.75 * p99["alone"],
        "A percentile that is measured while hedging counts the attempts that lose as well, with the time "
        "they had taken when they were cancelled.",
    )
