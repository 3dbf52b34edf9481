"""Retry budgets: how many retries and hedges a set of callers may add to its own traffic.

The default is earned by success, so an outage earns nothing and retrying ends by itself.
A first attempt never waits for a budget. Successes are only counted (``Tally``); the sums are
made when something fails, by spreading the count evenly over the time since the last reading.
"""

from __future__ import annotations

import math

from ..._events.key_names import of_key
from ..._primitives.options import Options, label, number, seconds, shared_store, timepiece
from ..._runtime import clock as _clock
from ..._runtime import randomness
from ..._runtime.counters import Tally
from ..._runtime.locks import guard
from .rules import ROUNDING, Slices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, Self

    from ..._primitives.options import Seconds
    from ..._runtime.clock import Clock
    from ..._runtime.randomness import Rng
    from ..protocol import Store

    class FleetMember(Protocol):
        """The fleet's side of a budget with a store."""

        def start(self) -> None: ...
        def withdraw(self) -> float: ...
        def balance(self) -> float: ...
        def change(self, owner: Budget) -> None: ...


class Live:
    """What changes in a budget: the tokens, and the time of the last reading."""

    __slots__ = ("clock", "last", "skew", "tokens")

    def __init__(self, clock: Clock | None, tokens: float) -> None:
        self.clock = clock
        self.tokens = tokens
        self.skew = 0.0
        self.last = self.read()

    def read(self) -> float:
        return _clock.AMBIENT.now() if self.clock is None else self.clock.now()

    def tick(self) -> tuple[float, float]:
        """(now, seconds since the last reading). A clock set back goes on from where it was."""
        now = (_clock.AMBIENT if self.clock is None else self.clock).now() + self.skew
        elapsed = now - self.last
        if elapsed < 0:
            self.skew -= elapsed
            return self.last, 0.0
        self.last = now
        return now, elapsed


class Allowance(Options):
    """What every budget kind shares: a lock, a clock, a count of successes or starts."""

    __slots__ = ("__weakref__", "_live", "_lock", "_tally")
    _extras: tuple[str, ...] = ("clock",)

    _live: Live
    _lock: Any
    _tally: Tally

    def _open(self, clock: Clock | None, rng: Rng | None, tokens: float = 0.0) -> None:
        # Everything that holds state takes a clock and a source of randomness; budgets draw nothing.
        randomness.source(rng, type(self).__name__)
        self._set(_tally=Tally(), _live=Live(timepiece(type(self).__name__, clock), tokens))
        guard(self)

    @property
    def clock(self) -> Clock | None:
        """The clock it goes by; ``None`` is the ambient one."""
        return self._live.clock

    def keep_time(self, clock: Clock) -> None:
        """Go by ``clock`` from now on, unless this budget was given one of its own."""
        live = self._live
        if live.clock is None:
            with self._lock:
                # The two clocks differ by a constant that is none of this budget's business.
                live.skew, live.clock = live.last - clock.now(), clock

    def _settle(self) -> None:
        raise NotImplementedError

    # What the compiled success path calls instead of `started` and `success`: one C call, or nothing.

    @property
    def on_start(self) -> Callable[[], object] | None:
        """Called when a first attempt begins; ``None`` where this kind does not count starts."""
        return None

    @property
    def on_success(self) -> Callable[[], object] | None:
        """Called when a first attempt succeeds; ``None`` where this kind does not count successes."""
        return self._tally.tick

    # The public contract.

    def started(self) -> None:
        """A first attempt begins."""
        if (tick := self.on_start) is not None:
            tick()

    def success(self, spent: float | None = None) -> None:
        """A call succeeded. ``spent`` is what its last retry paid, ``None`` on a first try."""
        if (tick := self.on_success) is not None:
            tick()

    def failure(self, timeout: bool = False) -> None:
        """A retryable failure happened, whether or not a retry follows."""

    def withdraw(self, timeout: bool = False) -> float:
        """Pay for one retry or hedge: what was paid, or 0.0 when refused."""
        with self._lock:
            self._settle()
            return self._pay(timeout)

    def pay(self, kind: str, max_wait: float | None) -> float:
        """Pay for a retry after a failure of ``kind`` (a verdict's): what was paid, or 0.0 when refused.

        A `rules.DeferredPayment` is a payment for a token that comes later, within
        ``max_wait`` seconds (``None``: at any time).
        """
        return self.withdraw(kind == "timeout")

    def _pay(self, timeout: bool) -> float:
        raise NotImplementedError

    @property
    def balance(self) -> float:
        """What is held now, settled."""
        with self._lock:
            self._settle()
            return self._held()

    def _held(self) -> float:
        return self._live.tokens

    @property
    def sustained(self) -> float:
        """Retries per call that it pays for in the long run."""
        return math.inf

    def fresh(self) -> Self:
        """A new budget with these options and a state of its own."""
        return self.replace()

    def __eq__(self, other: object) -> bool:
        # Two budgets with the same options are not the same budget: each holds its own tokens.
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with the balance of this moment."""
        return {**super().describe(), "balance": self.balance}


class Budget(Allowance):
    """Earned by success: ``+ratio`` per successful call; a retry or hedge costs 1.

    Starts with ``burst`` and holds at most ``burst`` + what the last ``window`` seconds earned.
    Time alone refills nothing. ``ratio=0`` leaves ``burst`` retries for good, ``burst=0`` none
    before the first success.

    With a ``store`` it is the budget of all processes that use one of the same ``name``: earned
    anywhere, spent anywhere. Paying stays a local decision.
    """

    __slots__ = ("_earned", "_fleet", "burst", "name", "ratio", "store", "window")
    _fields = ("ratio", "burst", "window")
    _extras = ("clock", "store", "name")

    ratio: float
    burst: float
    window: float
    store: Store | None
    name: str | None
    _earned: Slices
    _fleet: FleetMember | None

    def __init__(
        self,
        ratio: float = 0.1,
        burst: float = 10,
        window: Seconds = 10.0,
        *,
        clock: Clock | None = None,
        rng: Rng | None = None,
        store: Store | None = None,
        name: str | None = None,
    ) -> None:
        self._set(
            ratio=number("Budget", "ratio", ratio, least=0),
            burst=number("Budget", "burst", burst, least=0),
            window=seconds("Budget", "window", window, above=0),
        )
        self._open(clock, rng, self.burst)
        self._set(store=shared_store("Budget", store), name=label("Budget", name))
        self._set(_earned=Slices(self.window, self._live.last), _fleet=None)
        if store is not None:
            self._join(store)

    def _join(self, store: Store) -> None:
        from ..._primitives.options import shared_name
        from ..limiter.rules.leases import MOST_SHARED

        number("Budget", "burst", self.burst, most=MOST_SHARED)
        fleet: FleetMember = store.join("budget", self, shared_name("Budget", self.name))
        self._set(_fleet=fleet)
        fleet.start()

    def fresh(self) -> Self:
        if self.store is None:
            return super().fresh()
        return type(self)(**{**self.settings(), "name": of_key(self.name)})

    def fields(self) -> dict[str, Any]:
        shared = {} if self.store is None else {"store": self.store, "name": self.name}
        return {**super().fields(), **shared}

    @property
    def sustained(self) -> float:
        return self.ratio

    def _settle(self) -> None:
        fresh = self._tally.take()
        live, earned = self._live, self._earned
        now, elapsed = live.tick()
        if now >= earned.end:
            earned.roll(now)
        if fresh:
            amount = fresh * self.ratio
            if elapsed > self.window:
                amount *= self.window / elapsed
                elapsed = self.window
            earned.add(amount, elapsed)
            live.tokens += amount
        held = self.burst + earned.total
        if live.tokens > held:
            live.tokens = held

    def withdraw(self, timeout: bool = False) -> float:
        live = self._live
        with self._lock:
            if self._fleet is not None:
                return self._fleet.withdraw()
            self._settle()
            left = live.tokens - 1.0
            if left < -ROUNDING:
                return 0.0
            live.tokens = left if left > 0.0 else 0.0
            return 1.0

    @property
    def balance(self) -> float:
        """What is held now, settled; with a store, what the fleet holds as far as this process knows."""
        if self._fleet is None:
            return super().balance
        with self._lock:
            return self._fleet.balance()
