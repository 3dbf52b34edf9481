"""Client processes: each has the policy under test with its own state, on the run's clock.

What the policy keeps in a store is one for all processes; so is everything when the scenario says
``fleet``. Nothing here touches a real store.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..._primitives.options import Options
from ..._strategies.budget.allowance import Allowance
from ..._strategies.hedge.hedge import Hedge
from ..._strategies.keyed import Keyed
from ..._strategies.limiter.limiter import Limiter
from ..._strategies.limiter.pacer import Pacer
from ..._strategies.limiter.rate_limit import RateLimit
from ..._strategies.protocol import Part
from ..._strategies.retry.retry import Retry
from ..._strategies.stateful import Stateful
from ..._strategies.timeout import Timeout

if TYPE_CHECKING:
    from ..model.backend import Backend

_accepts: dict[type, frozenset[str]] = {}


class RunClock:
    """Clock of a run. Only timers of the lab's event loop follow it."""

    __slots__ = ("time",)
    drives_timers = True

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def asked(self, seconds: float) -> None:
        """Ignore a wait: a run does not record them."""

    def sleep(self, seconds: float) -> None:
        raise RuntimeError("nothing blocks in a simulation: time passes between events")


class SimulatedFleetBudget:
    """A budget kept in a store that may be out of reach: then ``local``, this process's share of it."""

    __slots__ = ("_backend", "_local", "_own_mode", "shared")

    def __init__(self, shared: Any, local: object, backend: Backend, own_mode: str) -> None:
        self.shared = shared
        self._local = local
        self._backend = backend
        #: What the store itself says is to be done while it is away.
        self._own_mode = own_mode

    def _now(self) -> Any:
        return self._local if self._backend.now_holds.store else self.shared

    def started(self) -> None:
        self._now().started()

    def success(self, spent: float | None = None) -> None:
        self._now().success(spent)

    def failure(self, timeout: bool = False) -> None:
        self._now().failure(timeout)

    def withdraw(self, timeout: bool = False) -> float:
        mode = self._backend.now_holds.store
        mode = self._own_mode if mode == "own" else mode
        if mode in ("open", "closed"):
            return 1.0 if mode == "open" else 0.0
        return float(self._now().withdraw(timeout))

    @property
    def clock(self) -> Any:
        return self.shared.clock

    @property
    def balance(self) -> float:
        return float(self._now().balance)


class Copier:
    """Makes the parts of one process after another from the policy under test."""

    def __init__(
        self, clock: RunClock, draw: Callable[[], float], fleet: bool, clients: int, backend: Backend | None
    ) -> None:
        self._clock = clock
        self._draw = draw
        self._fleet = fleet
        self._clients = clients
        #: Set where the scenario loses the store.
        self._backend = backend
        #: How each part is made, by the identity of the original.
        self._plans: dict[int, dict[str, Any]] = {}
        #: The parts that all processes share, by the identity of the original.
        self._shared: dict[int, Any] = {}

    def strategies(self, row: tuple[Any, ...]) -> list[Any]:
        """A process's own copy of ``row``; a budget that several of them pay stays one."""
        copies: dict[int, Any] = {}
        return [self.strategy(part, copies) for part in row]

    def strategy(self, part: object, copies: dict[int, Any]) -> Any:
        """This process's copy of one strategy; ``copies`` holds those it has already."""
        if isinstance(part, Retry):
            return part.replace(budget=self.budget(part.budget, copies)) if part.budget is not None else part
        if isinstance(part, Hedge):
            own = None if part.budget is None else self.budget(part.budget, copies)
            return Hedge(**{**part.fields(), "budget": own})
        if isinstance(part, RateLimit):
            return part.replace(limiter=self._part(part.limiter, copies))
        return self._part(part, copies)

    def budget_factory(self, original: object) -> Callable[[], Any]:
        """Return what makes the budget of one process after another, in place of ``original``."""
        shared = self._fleet or getattr(original, "store", None) is not None
        if original is None:
            return lambda: None
        if isinstance(original, Allowance) and not shared:
            return original.factory(self._clock)
        return lambda: self.budget(original, {})

    def budget(self, original: object, copies: dict[int, Any]) -> Any:
        """The budget of this process in place of ``original``."""
        budget = self._part(original, copies)
        stored = getattr(original, "store", None) is not None or self._fleet
        if self._backend is None or not stored or not isinstance(original, Allowance):
            return budget
        # The share of one process: what was saved up is divided, what is earned is earned by each.
        burst = original.fields().get("burst")
        changes = {} if burst is None else {"burst": type(burst)(burst / self._clients)}
        make: Any = type(original)
        local = make(**{**original.fields(), **changes}, clock=self._clock)
        mode = getattr(getattr(original, "store", None), "on_failure", "local")
        return SimulatedFleetBudget(budget, local, self._backend, mode)

    def _part(self, original: object, copies: dict[int, Any]) -> Any:
        template = original.template if isinstance(original, Keyed) else original
        shared = self._fleet or getattr(template, "store", None) is not None
        known = self._shared if shared else copies
        key = id(original)
        if key not in known:
            known[key] = self._rebuilt(original)
        return known[key]

    def _rebuilt(self, part: object) -> Any:
        if isinstance(part, Keyed):
            template = self._rebuilt(part.template) if isinstance(part.template, Options) else part.template
            copy = Keyed(template, part.key, part.limit)
            copy.use_clock(self._clock)
            return copy
        if isinstance(part, (Limiter, Pacer)):
            return type(part)(part.rate, part.burst, clock=self._clock)
        if isinstance(part, Stateful):
            plan = self._plans.get(id(part))
            if plan is None:
                plan = self._plans[id(part)] = {**part.fields(), **self._surroundings(type(part))}
            return type(part)(**plan)
        # Without state, or of the user's own.
        return part.fresh() if isinstance(part, Part) else part

    def _surroundings(self, kind: type) -> dict[str, Any]:
        """The clock and the randomness of the run, as far as ``kind`` takes them."""
        if kind not in _accepts:
            _accepts[kind] = frozenset(inspect.signature(kind).parameters)
        given = {"clock": self._clock, "rng": self._draw, "store": None}
        return {name: value for name, value in given.items() if name in _accepts[kind]}


def limited(row: tuple[Any, ...], timeout: float | None) -> tuple[Any, ...]:
    """``row`` with the scenario's timeout for an attempt, if it has none of its own."""
    if timeout is None or any(isinstance(part, Timeout) for part in row):
        return row
    return (*row, Timeout(timeout))
