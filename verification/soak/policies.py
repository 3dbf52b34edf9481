"""The policies under load, shared by threads and tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

import stormproof as sp
from stormproof.httpx import AsyncTransport, Transport

from .h2_connection import STREAMS

#: The client of those tasks that read over HTTP/2.
READS_HTTP2 = "reads over HTTP/2"
#: Clients that make many requests at once on few connections, and cut them off together.
IMPATIENT = ("impatient", "impatient over HTTP/2")
IMPATIENT_CONNECTIONS, IMPATIENT_S = 5, 0.05

#: Tokens a second, and at once.
RATE, BURST = 300.0, 150
#: Attempts that may be under way at once, hedges aside; everybody else queues.
PLACES = 64
#: Connections that each client may have: fewer than the bulkhead's places and their hedges would take.
CONNECTIONS = 24
#: The same over HTTP/2, where each has `h2_connection.STREAMS` streams.
H2_CONNECTIONS = 2
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


def _limits(most: int = CONNECTIONS) -> httpx.Limits:
    # Bounded, so that attempts wait for a connection and are cut off in that wait, too.
    return httpx.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=5)


def clients(fleet: Fleet, url: str) -> dict[str, httpx.Client]:
    """A client for each policy, for threads."""
    return {
        name: httpx.Client(
            transport=Transport(policy(0), httpx.HTTPTransport(limits=_limits()), idempotency_key="auto"),
            **_settings(url),
        )
        for name, policy in _policies(fleet).items()
    }


def async_clients(fleet: Fleet, url: str, h2_url: str) -> dict[str, httpx.AsyncClient]:
    """A client for each policy, for tasks, and one that reads over HTTP/2."""
    inner = {name: httpx.AsyncHTTPTransport(limits=_limits()) for name in _policies(fleet)}
    made = {name: _async_client(policy(1), inner[name], url) for name, policy in _policies(fleet).items()}
    http2 = httpx.AsyncHTTPTransport(limits=_limits(H2_CONNECTIONS), http1=False, http2=True)
    return {**made, READS_HTTP2: _async_client(fleet.reads(1), http2, h2_url)}


def _async_client(policy: sp.Policy, inner: httpx.AsyncHTTPTransport, url: str) -> httpx.AsyncClient:
    transport = AsyncTransport(policy, inner, idempotency_key="auto")
    return httpx.AsyncClient(transport=transport, **_settings(url))


def impatient_clients(url: str, h2_url: str) -> dict[str, httpx.AsyncClient]:
    """Clients with a few connections, whose attempts are cut off soon."""
    few = _limits(IMPATIENT_CONNECTIONS)
    policy = sp.Policy(sp.Timeout(IMPATIENT_S), name="impatient")
    http1, http2 = IMPATIENT
    inner = httpx.AsyncHTTPTransport(limits=_limits(1), http1=False, http2=True)
    return {
        http1: _async_client(policy, httpx.AsyncHTTPTransport(limits=few), url),
        http2: _async_client(policy, inner, h2_url),
    }


def slots(client: str) -> int:
    """Requests that a client can have in flight at once."""
    several = {
        READS_HTTP2: H2_CONNECTIONS * STREAMS,
        IMPATIENT[0]: IMPATIENT_CONNECTIONS,
        IMPATIENT[1]: STREAMS,
    }
    return several.get(client, CONNECTIONS)


def _policies(fleet: Fleet) -> dict[str, Callable[[int], sp.Policy]]:
    return {"reads": fleet.reads, "writes": fleet.writes}


def _settings(url: str) -> dict[str, Any]:
    return {"base_url": url, "timeout": 5, "follow_redirects": True, "trust_env": False}
