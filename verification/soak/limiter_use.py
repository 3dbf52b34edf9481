"""`python -m verification.soak.limiter_use`: the share of a limit that is used while callers are cancelled.

20 steady callers, and up to 5 that are cancelled after 5 ms again and again. Locally in virtual time; in a
fleet of two instances in real time, on a Redis server of its own. Ends with 1 if less than 95 % of a limit
is used, or more than the limit allows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable

from tests.support.redis_servers import Server

import stormproof as sp
from stormproof._strategies.limiter.rules.leases import overshoot
from stormproof.redis import RedisStore

RATE, BURST, STEADY, PATIENCE_S = 200, 20, 20, 0.005

Part = sp.Limiter | sp.RateBudget


def caller(part: Part, count: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Return a function whose calls, or retries, each take a token of ``part``; ``count`` counts them."""
    if isinstance(part, sp.Limiter):

        @sp.Policy(sp.RateLimit(part, max_wait=5))
        async def limited() -> None:
            count()

        return limited

    @sp.retry(on=ConnectionError, attempts=2, within=5, backoff=sp.Constant(0), budget=part)
    async def retried() -> None:
        current = sp.attempt()
        if current is not None and current.number == 1:
            raise ConnectionError
        count()

    return retried


async def tokens_used(parts: list[Part], cancellers: int, seconds: float, now: Callable[[], float]) -> int:
    """Return the tokens that were used within ``seconds``; each caller has its turn with one of ``parts``."""
    used, end = 0, now() + seconds

    def count() -> None:
        nonlocal used
        used += now() < end

    async def steady(call: Callable[[], Awaitable[None]]) -> None:
        while now() < end:
            with contextlib.suppress(sp.RateLimited, ConnectionError):
                await call()

    async def impatient(call: Callable[[], Awaitable[None]]) -> None:
        while now() < end:
            with contextlib.suppress(TimeoutError, sp.RateLimited, ConnectionError):
                await asyncio.wait_for(call(), PATIENCE_S)

    calls = [caller(part, count) for part in parts]
    await asyncio.gather(
        *(steady(calls[place % len(calls)]) for place in range(STEADY)),
        *(impatient(calls[place % len(calls)]) for place in range(cancellers)),
    )
    return used


def local(kind: type[Part], cancellers: int, seconds: float) -> int:
    """Return the tokens used in virtual time."""

    async def main(clock: sp.testing.VirtualClock) -> int:
        part = sp.Limiter(RATE, BURST) if kind is sp.Limiter else sp.RateBudget(RATE, BURST, wait=True)
        return await tokens_used([part], cancellers, seconds, clock.now)

    return sp.testing.run(main)


def fleet(kind: type[Part], cancellers: int, seconds: float, url: str) -> int:
    """Return the tokens used by two instances in real time."""
    name = f"{kind.__name__}-{cancellers}"
    with RedisStore(url, "use") as one, RedisStore(url, "use") as two:
        parts: list[Part] = [
            sp.Limiter(RATE, BURST, store=store, name=name)
            if kind is sp.Limiter
            else sp.RateBudget(RATE, BURST, wait=True, store=store, name=name)
            for store in (one, two)
        ]
        return asyncio.run(tokens_used(parts, cancellers, seconds, time.monotonic))


def main() -> int:
    """Print a line for each case; return 1 if one is outside its bounds."""
    parser = argparse.ArgumentParser(prog="python -m verification.soak.limiter_use", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    failed = 0
    with Server() as server:
        for kind in (sp.Limiter, sp.RateBudget):
            for place in ("local", "fleet"):
                more = overshoot(RATE, BURST, 2) if place == "fleet" else 0.0
                for cancellers in (0, 1, 2, 3, 5):
                    used = (
                        local(kind, cancellers, seconds)
                        if place == "local"
                        else fleet(kind, cancellers, seconds, server.url)
                    )
                    most = RATE * seconds + BURST + more
                    ok = 0.95 * RATE * seconds <= used <= most
                    failed += not ok
                    share = used / (RATE * seconds + BURST)
                    print(
                        f"{kind.__name__:10} {place} {cancellers} cancelled: {used} of "
                        f"{RATE * seconds + BURST:g} ({share:.1%}) {'ok' if ok else 'OUTSIDE'}",
                        flush=True,
                    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
