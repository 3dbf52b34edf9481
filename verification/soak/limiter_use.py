"""`python -m verification.soak.limiter_use`: the share of a limit that is used while callers are cancelled.

20 steady callers, and up to 5 that are cancelled after 5 ms again and again. Locally in virtual time; in a
fleet of two instances in real time, on a Redis server of its own. A fleet may be ahead of burst + rate * w by
the overshoot that docs/fleet.md states, in any window w: a lead that is gained once, not a rate. So each line
says how far ahead the worst window was, and what share of the rate was used after the first second, when
burst and lead are spent. Ends with 1 if that share is below 95 %, or a window is past its bound. The bound
holds while exchanges are on time, so a run in which the program stood still for longer than a lease is not
judged.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import sys
import time
from collections.abc import Awaitable, Callable

from tests.support.redis_servers import Server

import stormproof as sp
from stormproof._strategies.limiter.rules.leases import horizon_s, overshoot
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


async def times_used(
    parts: list[Part], cancellers: int, seconds: float, now: Callable[[], float]
) -> tuple[list[float], float]:
    """Return when each token was used within ``seconds``, and the longest time that the loop stood still.

    Each caller has its turn with one of ``parts``.
    """
    used: list[float] = []
    stall = 0.0
    start = now()
    end = start + seconds

    def count() -> None:
        if now() < end:
            used.append(now() - start)

    async def steady(call: Callable[[], Awaitable[None]]) -> None:
        while now() < end:
            with contextlib.suppress(sp.RateLimited, ConnectionError):
                await call()

    async def impatient(call: Callable[[], Awaitable[None]]) -> None:
        while now() < end:
            with contextlib.suppress(TimeoutError, sp.RateLimited, ConnectionError):
                await asyncio.wait_for(call(), PATIENCE_S)

    async def watch() -> None:
        nonlocal stall
        while (before := now()) < end:
            await asyncio.sleep(0.01)
            stall = max(stall, now() - before - 0.01)

    calls = [caller(part, count) for part in parts]
    await asyncio.gather(
        watch(),
        *(steady(calls[place % len(calls)]) for place in range(STEADY)),
        *(impatient(calls[place % len(calls)]) for place in range(cancellers)),
    )
    return used, stall


def local(kind: type[Part], cancellers: int, seconds: float) -> tuple[list[float], float]:
    """Return `times_used` in virtual time."""

    async def main(clock: sp.testing.VirtualClock) -> tuple[list[float], float]:
        part = sp.Limiter(RATE, BURST) if kind is sp.Limiter else sp.RateBudget(RATE, BURST, wait=True)
        return await times_used([part], cancellers, seconds, clock.now)

    return sp.testing.run(main)


def fleet(
    kind: type[Part], cancellers: int, seconds: float, url: str, timeout: float
) -> tuple[list[float], float]:
    """Return `times_used` of two instances in real time."""
    name = f"{kind.__name__}-{cancellers}"
    with RedisStore(url, "use", timeout=timeout) as one, RedisStore(url, "use", timeout=timeout) as two:
        parts: list[Part] = [
            sp.Limiter(RATE, BURST, store=store, name=name)
            if kind is sp.Limiter
            else sp.RateBudget(RATE, BURST, wait=True, store=store, name=name)
            for store in (one, two)
        ]
        return asyncio.run(times_used(parts, cancellers, seconds, time.monotonic))


def most_ahead(used: list[float]) -> float:
    """Return by how many tokens the worst window w is ahead of BURST + RATE * w."""
    least, ahead = math.inf, -math.inf
    for place, at in enumerate(used):
        least = min(least, place - RATE * at)
        ahead = max(ahead, place + 1 - RATE * at - least - BURST)
    return ahead


def main() -> int:
    """Print a line for each case; return 1 if one is outside its bounds."""
    parser = argparse.ArgumentParser(prog="python -m verification.soak.limiter_use", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--timeout", type=float, default=0.03, help="the store's; more on a busy machine")
    options = parser.parse_args()
    seconds: float = options.seconds
    failed = 0
    with Server() as server:
        for kind in (sp.Limiter, sp.RateBudget):
            for place in ("local", "fleet"):
                # Virtual time adds up in floats: a token due is there a little early.
                bound = overshoot(RATE, BURST, 2) if place == "fleet" else 1e-6 * RATE
                for cancellers in (0, 1, 2, 3, 5):
                    used, stall = (
                        local(kind, cancellers, seconds)
                        if place == "local"
                        else fleet(kind, cancellers, seconds, server.url, options.timeout)
                    )
                    ahead = most_ahead(used)
                    share = sum(at >= 1 for at in used) / (RATE * (seconds - 1))
                    ok = share >= 0.95 and ahead <= bound
                    late = stall > horizon_s(2)
                    failed += not ok and not late
                    verdict = "ok" if ok else "late" if late else "OUTSIDE"
                    print(
                        f"{kind.__name__:10} {place} {cancellers} cancelled: {share:.1%} of the rate, "
                        f"worst window {ahead:+.1f} (at most {bound:+.0f}), "
                        f"longest stall {stall * 1000:.0f} ms: {verdict}",
                        flush=True,
                    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
