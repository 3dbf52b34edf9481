"""What a decision costs that a whole fleet shares: ours against a round trip, and against other libraries.

Starts a redis-server of its own on loopback, and ends it with the program.
"""

from __future__ import annotations

import atexit
from functools import cache
from importlib import import_module
from typing import Any

from tests.support.redis_servers import Server

from ..call_timing import Calls, Steps
from ..model import Bar, Case, Group

_LIMITER = "Stormproof Limiter.allow(), store"
_REFUSED = "Stormproof Limiter.allow(), store, nothing left"
_BUDGET = "Stormproof Budget.withdraw(), store"
_EVALSHA = "one EVALSHA that returns 1"

#: So many that none of them is ever refused; the most that a store counts exactly.
_PLENTY = 10**9


@cache
def _server() -> Server:
    server = Server()
    atexit.register(server.stop)
    return server


@cache
def _store() -> Any:
    # Room for a machine that is busy measuring.
    return import_module("stormproof").redis.RedisStore(_server().url, timeout=1.0)


def _client() -> Any:
    return import_module("redis").Redis(port=_server().port)


def evalsha() -> Steps:
    """redis-py, one connection, a script that returns 1."""
    client = _client()
    sha = client.script_load("return 1")
    return Steps(
        "run(sha, 1, 'k')", {"run": client.evalsha, "sha": sha}, lambda _: client.evalsha(sha, 1, "k") == 1
    )


def limiter() -> Steps:
    """Limiter(10**9, 10**9, store=RedisStore(...)): tokens are there; the exchange runs beside it."""
    made = import_module("stormproof").Limiter(_PLENTY, _PLENTY, store=_store(), name="plenty")
    _store().settle(5)
    return Steps("allow()", {"allow": made.allow}, lambda _: made.allow())


def refused() -> Steps:
    """Limiter(0.01, 1, store=RedisStore(...)): the fleet has nothing left."""
    made = import_module("stormproof").Limiter(0.01, 1, store=_store(), name="dry")
    _store().settle(5)
    made.allow()
    return Steps("allow()", {"allow": made.allow}, lambda _: not made.allow())


def budget() -> Steps:
    """Budget(0.1, 10**9, store=RedisStore(...)).withdraw(): paid."""
    made = import_module("stormproof").Budget(0.1, burst=_PLENTY, store=_store(), name="plenty")
    _store().settle(5)
    return Steps("withdraw()", {"withdraw": made.withdraw}, lambda _: made.withdraw() == 1.0)


def limits() -> Steps:
    """limits: FixedWindowRateLimiter.hit() on its Redis storage."""
    library, strategies = import_module("limits"), import_module("limits.strategies")
    storage = import_module("limits.storage").storage_from_string(_server().url)
    window = strategies.FixedWindowRateLimiter(storage)
    rate = library.parse(f"{_PLENTY}/hour")
    return Steps("hit(rate, 'k')", {"hit": window.hit, "rate": rate}, lambda _: window.hit(rate, "k"))


def pyrate_limiter() -> Steps:
    """pyrate-limiter: Limiter.try_acquire() on a RedisBucket of 10**6 an hour."""
    library = import_module("pyrate_limiter")
    rates = [library.Rate(10**6, library.Duration.HOUR)]
    made = library.Limiter(library.RedisBucket.init(rates, _client(), "pyrate"))
    return Steps("acquire('k')", {"acquire": made.try_acquire}, lambda _: bool(made.try_acquire("k")))


def throttled() -> Steps:
    """throttled-py: limit() of its token bucket on a RedisStore."""
    library = import_module("throttled")
    quota = library.rate_limiter.per_hour(10**8, burst=10**8)
    store = library.RedisStore(server=_server().url)
    made = library.Throttled(key="k", using="token_bucket", quota=quota, store=store)
    return Steps("limit()", {"limit": made.limit}, lambda _: not made.limit().limited)


def pybreaker() -> Steps:
    """pybreaker: a call that succeeds through a breaker on CircuitRedisStorage."""
    library = import_module("pybreaker")
    storage = library.CircuitRedisStorage(library.STATE_CLOSED, _client(), namespace="bench")
    breaker = library.CircuitBreaker(state_storage=storage)
    return Steps("call(fn)", {"call": breaker.call, "fn": int}, lambda _: breaker.call(int) == 0)


GROUPS = [
    Group(
        name="fleet",
        title="A decision that a whole fleet shares, on Redis over loopback",
        baseline=_EVALSHA,
        meter=Calls(),
        cases=(
            Case(_EVALSHA, evalsha),
            Case(_LIMITER, limiter),
            Case(_REFUSED, refused),
            Case(_BUDGET, budget),
            Case("limits, fixed window", limits, needs="limits"),
            Case("pyrate-limiter, bucket", pyrate_limiter, needs="pyrate_limiter"),
            Case("throttled-py, token bucket", throttled, needs="throttled"),
            Case("pybreaker, a call", pybreaker, needs="pybreaker"),
        ),
        bars=(
            Bar("fleet limiter, of one EVALSHA", _LIMITER, 1 / 20),
            Bar("fleet limiter that refuses, of one EVALSHA", _REFUSED, 1 / 20),
            Bar("fleet budget, of one EVALSHA", _BUDGET, 1 / 20),
            Bar("fleet limiter: ns a decision, 100,000 a second", _LIMITER, 10_000, of="value"),
            Bar("fleet budget: ns a decision, 100,000 a second", _BUDGET, 10_000, of="value"),
        ),
    ),
]
