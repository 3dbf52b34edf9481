"""The policies under load, shared by threads and tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

import stormproof as sp
from stormproof.httpx import AsyncTransport, Transport

#: Tokens a second, and at once.
RATE, BURST = 300.0, 150
#: Attempts that may be under way at once, hedges aside; everybody else queues. httpx's pool takes longer
#: for each request the more connections it has, so that a few hundred of them would be all that is measured.
PLACES = 64
#: Connections that each client keeps while they are idle.
KEPT = 64
#: Retries and hedges together: one for five successes, and what the budget holds in the beginning.
RATIO = 0.2
TIMEOUT_S = 2.0
#: What the breaker looks back on.
WINDOW_S = 4.0
DEADLINE_S = 30.0
#: More than the store's 30 ms by default: the machine is to be busy, and its Redis with it.
STORE_TIMEOUT_S = 0.25


class Fleet:
    """One store, and what lives in it.

    The limiter and the breaker are there twice, once for threads and once for tasks, as they would be in
    two processes; budget and bulkhead are one object for both.
    """

    def __init__(self, url: str, retries: int) -> None:
        self.store = sp.redis.RedisStore(url, prefix="soak", timeout=STORE_TIMEOUT_S)
        self.budget = sp.Budget(RATIO, burst=retries, store=self.store, name="soak")
        self.bulkhead = sp.Bulkhead(PLACES, queue=100_000, max_wait=None, store=self.store, name="soak")
        self.limiters = [self._limiter() for _ in range(2)]
        self.breakers = [self._breaker() for _ in range(2)]

    def _limiter(self) -> sp.Limiter:
        return sp.Limiter(RATE, BURST, store=self.store, name="soak")

    def _breaker(self) -> sp.Breaker:
        return sp.Breaker(
            failure_ratio=0.6,
            min_calls=50,
            window=WINDOW_S,
            open_for=1,
            probes=5,
            probe_timeout=5,
            on=sp.transient,
            store=self.store,
            name="soak",
        )

    def reads(self, which: int) -> sp.Policy:
        """For what may be made twice at once."""
        return sp.Policy(
            sp.Deadline(DEADLINE_S),
            sp.RateLimit(self.limiters[which], max_wait=20),
            sp.Retry(attempts=4, budget=self.budget),
            self.bulkhead,
            self.breakers[which],
            sp.Hedge(after=0.8),
            sp.Timeout(TIMEOUT_S),
            name="reads",
        )

    def writes(self, which: int) -> sp.Policy:
        """For what is sent again with its key only. Each attempt asks for a place and a token anew."""
        return sp.Policy(
            sp.Deadline(DEADLINE_S),
            sp.Retry(attempts=3, budget=self.budget),
            self.bulkhead,
            sp.RateLimit(self.limiters[which], max_wait=None),
            self.breakers[which],
            sp.Timeout(TIMEOUT_S),
            name="writes",
        )


def _limits() -> httpx.Limits:
    # The bulkhead is the bound, not httpx's pool.
    return httpx.Limits(max_connections=None, max_keepalive_connections=KEPT, keepalive_expiry=5)


def clients(fleet: Fleet, url: str) -> dict[str, httpx.Client]:
    """A client for each policy, for threads."""
    return {
        name: httpx.Client(
            transport=Transport(policy(0), httpx.HTTPTransport(limits=_limits()), idempotency_key="auto"),
            **_settings(url),
        )
        for name, policy in _policies(fleet).items()
    }


def async_clients(fleet: Fleet, url: str) -> dict[str, httpx.AsyncClient]:
    """A client for each policy, for tasks."""
    return {
        name: httpx.AsyncClient(
            transport=AsyncTransport(
                policy(1), httpx.AsyncHTTPTransport(limits=_limits()), idempotency_key="auto"
            ),
            **_settings(url),
        )
        for name, policy in _policies(fleet).items()
    }


def _policies(fleet: Fleet) -> dict[str, Callable[[int], sp.Policy]]:
    return {"reads": fleet.reads, "writes": fleet.writes}


def _settings(url: str) -> dict[str, Any]:
    return {"base_url": url, "timeout": 5, "follow_redirects": True, "trust_env": False}
