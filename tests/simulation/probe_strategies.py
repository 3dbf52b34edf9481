"""Strategies of no effect that look on from their place in a stack, and what they have seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import stormproof as sp

from .world import World


class Call:
    """One call of a user's: what became of it."""

    def __init__(self, number: int, stage: Any, is_async: bool, now_s: float) -> None:
        self.number = number
        self.stage = stage
        self.is_async = is_async
        self.key = number % 2
        self.began_s = now_s
        self.ended_s: float | None = None
        #: The ambient limit, besides the policy's own.
        self.limit_s: float | None = None
        self.off = False
        #: True once its task or its scope has been cancelled.
        self.task_cancelled = self.scope_cancelled = False
        self.task: Any = None
        self.answers: list[Any] = []
        self.invoked_s: list[float] = []
        self.last_end_s = now_s
        self.running = 0
        self.value: Any = None
        self.error: BaseException | None = None
        self.ends = 0

    def __repr__(self) -> str:
        return f"call {self.number} of {self.stage.name} ({'async' if self.is_async else 'sync'})"


class Meter:
    """Reports to ``gauge`` each call that passes and how it ended."""

    def __init__(self, gauge: Gauge) -> None:
        self.gauge = gauge

    def __repr__(self) -> str:
        return f"Meter({self.gauge.name!r})"

    def sync(self, call: Callable[..., Any], env: Any, like: Any) -> Callable[..., Any]:
        def metered(*args: Any, **kwargs: Any) -> Any:
            seen = self.gauge.enter(env.arguments(args)[0])
            try:
                result = call(*args, **kwargs)
            except BaseException as error:
                self.gauge.leave(seen, error)
                raise
            self.gauge.leave(seen, None)
            return result

        return metered

    def aio(self, call: Callable[..., Any], env: Any, like: Any) -> Callable[..., Any]:
        async def metered(*args: Any, **kwargs: Any) -> Any:
            seen = self.gauge.enter(env.arguments(args)[0])
            try:
                result = await call(*args, **kwargs)
            except BaseException as error:
                self.gauge.leave(seen, error)
                raise
            self.gauge.leave(seen, None)
            return result

        return metered


class Gauge:
    """Counts of calls that passed, came back by themselves, and are inside."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.inside = self.entered = self.returned = self.failed = 0

    def enter(self, call: Call) -> Any:
        self.inside += 1
        self.entered += 1
        return call

    def leave(self, seen: Any, error: BaseException | None) -> None:
        self.inside -= 1
        if error is None:
            self.returned += 1
        elif isinstance(error, Exception):
            self.failed += 1

    def fault(self, text: str) -> None:
        self.world.faults.append(f"{self.name}: {text}")


class Room(Gauge):
    """Inside a bulkhead of ``size``, or one a key."""

    def __init__(self, world: World, name: str, size: int, keyed: bool) -> None:
        super().__init__(world, name)
        self.size = size
        self.keyed = keyed
        self.by_key = {0: 0, 1: 0}

    def enter(self, call: Call) -> Any:
        key = call.key if self.keyed else 0
        self.by_key[key] += 1
        if self.by_key[key] > self.size:
            self.fault(f"{self.by_key[key]} calls inside at once, {self.size} are allowed")
        super().enter(call)
        return key

    def leave(self, seen: Any, error: BaseException | None) -> None:
        self.by_key[seen] -= 1
        super().leave(seen, error)


class Toll(Gauge):
    """Behind a rate limit: when how much was admitted."""

    def __init__(self, world: World, name: str, limiter: sp.Limiter) -> None:
        super().__init__(world, name)
        self.limiter = limiter
        self.admitted: list[tuple[float, int]] = []

    def passed(self, cost: int) -> None:
        self.admitted.append((self.world.now_s, cost))

    def judge(self, slack_s: float, jumps: int) -> None:
        """In every window [t, t + w]: admitted <= burst + rate w + 1."""
        rate, burst = self.limiter.rate, self.limiter.burst
        if rate == float("inf"):
            return
        for first, (since, _) in enumerate(self.admitted):
            total = 0
            for until, cost in self.admitted[first:]:
                total += cost
                # After a jump a new line begins, while those of the old one are still served.
                most = (burst + rate * (until - since + slack_s)) * (1 + jumps) + 1
                if total > most + 1e-6:
                    self.fault(f"admitted {total} in {until - since:g} s, {most:g} are allowed")
                    return


class Price(Gauge):
    """Behind a rate limit, for one of its policies: pays ``cost`` at the toll."""

    def __init__(self, toll: Toll, cost: int) -> None:
        super().__init__(toll.world, toll.name)
        self._toll = toll
        self._cost = cost

    def enter(self, call: Call) -> Any:
        self._toll.passed(self._cost)
        return super().enter(call)


class Door(Gauge):
    """Behind a breaker: how many are let in while it is half open."""

    def __init__(self, world: World, name: str, breaker: sp.Breaker) -> None:
        super().__init__(world, name)
        self.breaker = breaker
        self.admitted: dict[int, int] = {}
        self.exact = True

    def enter(self, call: Call) -> Any:
        super().enter(call)
        circuit = self.breaker._live.circuit
        if circuit.state != "half_open":
            return None
        generation = circuit.generation
        self.admitted[generation] = self.admitted.get(generation, 0) + 1
        lost = circuit._half.excluded
        if self.exact and self.admitted[generation] - lost > self.breaker.probes:
            self.fault(f"{self.admitted[generation]} probes let in, {self.breaker.probes} are allowed")
        return None


class Course(Gauge):
    """Inside a hedge: how many of one race are out, and how many there were."""

    def __init__(self, world: World, name: str, most: int) -> None:
        super().__init__(world, name)
        self.most = most
        self.races: dict[tuple[int, int], list[int]] = {}

    def enter(self, call: Call) -> Any:
        attempt = sp.attempt()
        race = self.races.setdefault((call.number, 0 if attempt is None else attempt.number), [0, 0])
        race[0] += 1
        race[1] += 1
        if race[1] > self.most:
            self.fault(f"{race[1]} attempts of one race, {self.most} are allowed")
        super().enter(call)
        return race

    def leave(self, seen: Any, error: BaseException | None) -> None:
        seen[0] -= 1
        super().leave(seen, error)
