"""Random, valid policies over objects that several of them share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import stormproof as sp

from .callbacks import Callbacks
from .failures import Boom, Slow
from .probe_strategies import Course, Door, Gauge, Meter, Price, Room, Toll
from .world import World

FALLBACK = "fallback"


class Yard:
    """Objects that the policies of one world share, each with the gauge that watches it."""

    def __init__(self, world: World, callbacks: Callbacks, store: Any) -> None:
        rng = world.rng
        self.world = world
        self.callbacks = callbacks
        self.store = store
        self.bulkheads = [self._bulkhead(rng, n) for n in range(2)]
        self.limiters = [self._limiter(rng, n) for n in range(2)]
        self.breakers = [self._breaker(rng, n) for n in range(2)]
        self.budgets = [self._budget(rng, n) for n in range(3)]
        self.throttle = sp.Throttle(k=rng.choice([1, 2]), window=rng.choice([1, 10]))
        kind = rng.choice(["aimd", "vegas", "gradient2"])
        self.adaptive = sp.AdaptiveLimit(kind, initial=rng.randint(1, 4), max=8, rng=rng)
        self.keyed_rooms: list[sp.Keyed] = []

    def _shared(self, name: str) -> dict[str, Any]:
        """Sometimes it is a whole fleet's."""
        if self.store is not None and self.world.rng.random() < 0.5:
            return {"store": self.store, "name": name}
        return {}

    def _bulkhead(self, rng: Random, n: int) -> tuple[sp.Bulkhead, Room]:
        size, queue = rng.randint(1, 3), rng.choice([0, 1, 4])
        made = sp.Bulkhead(
            size,
            queue=queue,
            max_wait=rng.choice([0, None, 0.25]) if queue else 0,
            **self._shared(f"room{n}"),
        )
        return made, Room(self.world, f"bulkhead {n}", size, False)

    def _limiter(self, rng: Random, n: int) -> tuple[sp.Limiter, Toll]:
        shared = self._shared(f"toll{n}")
        rates = [1, 4, 20] if shared else [0, 1, 4, 20, float("inf")]
        made = sp.Limiter(rng.choice(rates), rng.choice([1, 2, 5]), **shared)
        return made, Toll(self.world, f"limiter {n}", made)

    def _breaker(self, rng: Random, n: int) -> tuple[sp.Breaker, Door]:
        made = sp.Breaker(
            failure_ratio=rng.choice([0.3, 0.5, 1]),
            min_calls=rng.choice([2, 5]),
            window=rng.choice([1, 10, None]),
            open_for=rng.choice([0.25, 1]),
            probes=rng.choice([1, 1, 2]),
            probe_timeout=rng.choice([0.5, 5, None]),
            consecutive=rng.choice([None, 2]),
            slow_call=rng.choice([None, None, 0.5]),
            exclude=rng.choice([(), Slow, (Slow, sp.AttemptTimeout)]),
            open_growth=rng.choice([1, 2]),
            ramp=rng.choice([0, 0, 0.5]),
            name=f"breaker{n}",
            rng=rng,
        )
        return made, Door(self.world, f"breaker {n}", made)

    def _budget(self, rng: Random, n: int) -> Any:
        kind = rng.randrange(6)
        if kind < 3:
            ratio, burst = rng.choice([0, 0.1, 0.5, 1]), rng.choice([0, 1, 3, 10])
            return sp.Budget(ratio, burst=burst, window=rng.choice([1, 10]), **self._shared(f"budget{n}"))
        if kind == 3:
            return sp.RateBudget(rng.choice([0, 1, 5]), rng.choice([1, 3]), wait=rng.random() < 0.5)
        if kind == 4:
            return rng.choice(
                [
                    sp.WindowBudget(0.5, floor=1, window=5),
                    sp.QuotaBudget(20),
                    sp.ThrottleBudget(4, token_ratio=0.5),
                ]
            )
        return None


class Stage:
    """One policy, and what an outsider may expect of it."""

    def __init__(self, yard: Yard, number: int) -> None:
        self.name = f"p{number}"
        self.attempts: Gauge | None = None
        self.calls = Gauge(yard.world, f"{self.name} paid")
        self.budget: Any = None
        self.retry: sp.Retry | None = None
        self.hook: Any = None
        self.hedge: sp.Hedge | None = None
        self.limit_s: float | None = None
        self.timeout = self.fallback = self.threads = self.has_deadline = False
        self.refusals: set[type[BaseException]] = set()
        row = self._row(yard, yard.world.rng)
        if not isinstance(row[0] if row else None, sp.Deadline):
            # Its time begins only when the call gets there.
            self.limit_s = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sp.PolicyWarning)
            self.policy = sp.Policy(*row, name=self.name, rng=yard.world.rng)

    @property
    def most(self) -> float:
        """Return how often one call may call the function."""
        tries = float("inf") if self.retry is not None and self.retry.attempts is None else 1.0
        if self.retry is not None and self.retry.attempts is not None:
            tries = float(self.retry.attempts)
        if self.hedge is None:
            return tries
        return tries * self.hedge.max if self.hedge_outside else tries + self.hedge.max - 1

    def _row(self, yard: Yard, rng: Random) -> list[Any]:
        chance = rng.random
        self.hedge_outside = False
        outer: list[list[Any]] = []
        core: list[list[Any]] = []
        inner: list[list[Any]] = []
        if chance() < 0.5:
            outer.append([self._deadline(rng)])
        if chance() < 0.2:
            outer.append([self._fallback(yard, rng)])
        if chance() < 0.85:
            core.append(self._retry(yard, rng))
        if chance() < 0.35:
            self._hedge(yard, rng, core)
        if core:
            # What earns and pays, seen from outside.
            core.insert(0, [Meter(self.calls)])
        for likely, make in (
            (0.5, self._breaker),
            (0.4, self._rate_limit),
            (0.5, self._bulkhead),
            (0.15, self._throttle),
            (0.15, self._adaptive),
            (0.15, self._chaos),
            (0.4, self._timeout),
        ):
            if chance() < likely:
                made = make(yard, rng)
                # Most stand inside the loop, some around it; any order is allowed.
                (inner if chance() < 0.85 else outer).append(made)
        if chance() < 0.3:
            rng.shuffle(inner)
        if chance() < 0.1:
            rng.shuffle(outer)
        return [strategy for part in (*outer, *core, *inner) for strategy in part]

    def _deadline(self, rng: Random) -> sp.Deadline:
        self.has_deadline = True
        self.limit_s = rng.choice([0, 0.1, 0.5, 0.5, 2, 2, 10])
        return sp.Deadline(self.limit_s)

    def _fallback(self, yard: Yard, rng: Random) -> sp.Fallback:
        self.fallback = True
        answer: Any = FALLBACK if rng.random() < 0.5 else yard.callbacks.fallback(FALLBACK)
        return sp.Fallback(answer, on=rng.choice([Exception, Boom, sp.StormproofError]))

    def _retry(self, yard: Yard, rng: Random) -> list[Any]:
        self.attempts = Gauge(yard.world, f"{self.name} attempts")
        self.budget = rng.choice(yard.budgets)
        attempts = rng.choice([1, 2, 3, 5, None])
        if rng.random() < 0.3:
            self.hook = yard.callbacks.on()
        self.retry = sp.Retry(
            on=self.hook or rng.choice([Boom, (Boom, Slow), sp.transient]),
            attempts=attempts,
            backoff=rng.choice(
                [
                    sp.Constant(0),
                    sp.Constant(0.05),
                    sp.Exponential(0.05, cap=0.4),
                    sp.Exponential(0.1, cap=1, jitter="none"),
                    sp.Decorrelated(0.05, cap=0.5),
                ]
            ),
            within=rng.choice([0.5, 3, 3]) if attempts is None else rng.choice([None, 0.3, 30]),
            budget=self.budget,
            late=rng.choice(["stop", "stop", "clip"]),
            max_hint=rng.choice([0.1, 60]),
            before_attempt=yard.callbacks.before() if rng.random() < 0.15 else None,
        )
        return [self.retry, Meter(self.attempts)]

    def _hedge(self, yard: Yard, rng: Random, core: list[list[Any]]) -> None:
        self.threads = True
        self.refusals.add(sp.BulkheadFull)
        most, after = rng.choice([2, 3]), rng.choice([0, 0.05, 0.1, 0.1, "p50"])
        self.hedge_outside = bool(core) and self.budget is not None and rng.random() < 0.2
        self.hedge = sp.Hedge(
            after,
            max=most,
            idempotent=True,
            budget=self.budget if self.hedge_outside else None,
            on=(Boom, Slow),
        )
        course = [self.hedge, Meter(Course(yard.world, f"{self.name} hedge", most))]
        core.insert(0, course) if self.hedge_outside else core.append(course)

    def _breaker(self, yard: Yard, rng: Random) -> list[Any]:
        self.refusals.add(sp.CircuitOpen)
        if rng.random() < 0.2:
            template = sp.Breaker(consecutive=2, open_for=0.5, probe_timeout=1)
            return [sp.keyed(template, key=lambda call: call.key)]
        breaker, door = rng.choice(yard.breakers)
        return [breaker, Meter(door)]

    def _rate_limit(self, yard: Yard, rng: Random) -> list[Any]:
        self.refusals.add(sp.RateLimited)
        limiter, toll = rng.choice(yard.limiters)
        cost = 1 if rng.random() < 0.7 else rng.randint(0, 2)
        limit = sp.RateLimit(limiter, max_wait=rng.choice([0, 0.3, None]), cost=None if cost == 1 else cost)
        return [limit, Meter(Price(toll, cost))]

    def _bulkhead(self, yard: Yard, rng: Random) -> list[Any]:
        self.refusals.add(sp.BulkheadFull)
        if rng.random() < 0.2:
            keyed = sp.keyed(sp.Bulkhead(1, queue=2, max_wait=None), key=lambda call: call.key)
            yard.keyed_rooms.append(keyed)
            return [keyed, Meter(Room(yard.world, f"keyed bulkhead of {self.name}", 1, True))]
        bulkhead, room = rng.choice(yard.bulkheads)
        return [bulkhead, Meter(room)]

    def _throttle(self, yard: Yard, rng: Random) -> list[Any]:
        self.refusals.add(sp.Throttled)
        return [yard.throttle]

    def _adaptive(self, yard: Yard, rng: Random) -> list[Any]:
        self.refusals.add(sp.Throttled)
        return [yard.adaptive]

    def _chaos(self, yard: Yard, rng: Random) -> list[Any]:
        made: list[Callable[[], sp.Chaos]] = [
            lambda: sp.Chaos(fault=Boom, rate=0.5),
            lambda: sp.Chaos(latency=0.1, rate=0.5),
            lambda: sp.Chaos(fault=Slow, latency=0.05, rate=0.3),
        ]
        return [rng.choice(made)()]

    def _timeout(self, yard: Yard, rng: Random) -> list[Any]:
        self.timeout = True
        threads = rng.random() < 0.4
        if threads:
            self.threads = True
            self.refusals.add(sp.BulkheadFull)
        return [sp.Timeout(rng.choice([0.05, 0.1, 0.5, 2]), thread=threads)]
