"""Six rate limiters, each in two shapes: evenly spaced, and with a burst of a whole second."""

from __future__ import annotations

import asyncio


class Limiter:
    """``rate`` per second; ``burst`` at once, or what comes nearest to it."""

    def __init__(self, rate: int, burst: int) -> None:
        raise NotImplementedError

    def allow(self) -> bool:
        """Take one if it is there, without waiting."""
        raise NotImplementedError

    async def wait(self) -> None:
        """Take one, waiting for it."""
        raise NotImplementedError

    def block(self) -> None:
        """Take one, waiting for it in this thread."""
        asyncio.run(self.wait())

    def too_many(self) -> bool:
        """Ask for more than the burst can ever hold, ready to wait; whether it was given."""
        raise NotImplementedError


class Stormproof(Limiter):
    def __init__(self, rate: int, burst: int) -> None:
        import stormproof as sp

        self.limiter = sp.Limiter(rate, burst)

    def allow(self) -> bool:
        return self.limiter.allow()

    async def wait(self) -> None:
        await self.limiter.wait_async()

    def block(self) -> None:
        self.limiter.wait()

    def too_many(self) -> bool:
        self.limiter.wait(self.limiter.burst + 1)
        return True


class Limits(Limiter):
    """Counts per whole seconds, with no waiting and no burst: the moving window, its exact strategy."""

    def __init__(self, rate: int, burst: int) -> None:
        import limits

        self.limiter = limits.strategies.MovingWindowRateLimiter(limits.storage.MemoryStorage())
        self.item = limits.RateLimitItemPerSecond(rate)

    def allow(self) -> bool:
        return self.limiter.hit(self.item, "probe")


class Pyrate(Limiter):
    def __init__(self, rate: int, burst: int) -> None:
        import pyrate_limiter as p

        if burst == rate:
            self.limiter = p.Limiter(p.Rate(rate, p.Duration.SECOND))
        else:
            self.limiter = p.limiter_factory.create_token_bucket_limiter(rate, p.Duration.SECOND, burst=burst)
        self.burst = burst

    def allow(self) -> bool:
        return bool(self.limiter.try_acquire("probe", blocking=False))

    async def wait(self) -> None:
        await self.limiter.try_acquire_async("probe")

    def block(self) -> None:
        self.limiter.try_acquire("probe")

    def too_many(self) -> bool:
        return bool(self.limiter.try_acquire("probe", weight=self.burst + 1, timeout=2))


class Throttled(Limiter):
    """GCRA, the algorithm among its five that spaces calls evenly; its default is `TOKEN_BUCKET`."""

    using = "gcra"

    def __init__(self, rate: int, burst: int) -> None:
        import throttled
        import throttled.asyncio

        quota = f"{rate}/s burst {burst}"
        self.limiter = throttled.Throttled(
            key="probe", using=self.using, quota=quota, store=throttled.MemoryStore()
        )
        self.waiting = throttled.asyncio.Throttled(
            key="probe", using=self.using, quota=quota, timeout=5, store=throttled.asyncio.MemoryStore()
        )
        self.burst = burst

    def allow(self) -> bool:
        return not self.limiter.limit().limited

    async def wait(self) -> None:
        await self.waiting.limit()

    def block(self) -> None:
        self.limiter.limit(timeout=5)

    def too_many(self) -> bool:
        return not self.limiter.limit(cost=self.burst + 1, timeout=2).limited


class ThrottledDefault(Throttled):
    using = "token_bucket"


class Aiolimiter(Limiter):
    """Its documentation's way to evenly spaced calls: a rate of 1 per fraction of a second."""

    def __init__(self, rate: int, burst: int) -> None:
        import aiolimiter

        self.limiter = aiolimiter.AsyncLimiter(burst, burst / rate)
        self.loop = asyncio.new_event_loop()

    def allow(self) -> bool:
        return self.loop.run_until_complete(self._allow())

    async def _allow(self) -> bool:
        if not self.limiter.has_capacity():
            return False
        await self.limiter.acquire()
        return True

    async def wait(self) -> None:
        await self.limiter.acquire()

    def too_many(self) -> bool:
        self.loop.run_until_complete(self.limiter.acquire(self.limiter.max_rate + 1))
        return True


class Nopanic(Limiter):
    """One object that waits; under a deadline with no time left it refuses instead, as its text says."""

    def __init__(self, rate: int, burst: int) -> None:
        import nopanic

        self.limiter = nopanic.rate_limit(rate, per=1.0, burst=burst)
        self.refusal = nopanic.RateLimited
        self.at_once = nopanic.compose(nopanic.deadline(1e-9), self.limiter)

    def allow(self) -> bool:
        try:
            self.at_once.call(lambda: None)
        except self.refusal:
            return False
        return True

    async def wait(self) -> None:
        async with self.limiter.guard():
            pass

    def block(self) -> None:
        with self.limiter.guard():
            pass


LIMITERS: dict[str, type[Limiter]] = {
    "stormproof": Stormproof,
    "limits": Limits,
    "pyrate-limiter": Pyrate,
    "throttled-py": Throttled,
    "aiolimiter": Aiolimiter,
    "nopanic": Nopanic,
}
