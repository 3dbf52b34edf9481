"""Retry budgets: how many retries and hedges a set of callers may add to its own traffic.

The default is earned by success, so an outage earns nothing and retrying ends by itself.
A first attempt never waits for a budget.
"""

from __future__ import annotations

import math

from ..._primitives.options import Seconds, label, number, seconds, shared_store
from ..._runtime.locks import has_gil
from .allowance import OBSERVED, Allowance, BudgetState
from .rules import ROUNDING, Slices, settle, shortage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, Self

    from ..._runtime.clock import Clock
    from ..._runtime.counters import Tally
    from ..._runtime.randomness import Rng
    from ..protocol import Store

    class BudgetMember(Protocol):
        """The fleet's side of a budget with a store."""

        def start(self) -> None: ...
        def withdraw(self) -> float: ...
        def balance(self) -> float: ...
        def change(self, owner: Budget) -> None: ...


#: Whether a few steps without a call are one to other threads.
_HAS_GIL = has_gil()


class Budget(Allowance):
    """Earned by success: ``+ratio`` per successful call; a retry or hedge costs 1.

    Starts with ``burst`` and holds at most ``burst`` + what the last ``window`` seconds earned: all
    that is earned counts until that bound is reached. Time alone refills nothing. ``ratio=0`` leaves
    ``burst`` retries for good, ``burst=0`` none before the first success.

    With ``observe`` it counts and emits what it would have refused (`WouldRefuse`), and refuses nothing.
    With a ``store`` it is the budget of all processes that use one of the same ``name``: earned
    anywhere, spent anywhere. Paying stays a local decision.
    """

    def __init__(
        self,
        ratio: float = 0.1,
        *,
        burst: float = 3,
        window: Seconds = 10.0,
        clock: Clock | None = None,
        rng: Rng | None = None,
        store: Store | None = None,
        name: str | None = None,
        observe: bool = False,
    ) -> None:
        self.ratio = number("Budget", "ratio", ratio, least=0)
        self.burst = number("Budget", "burst", burst, least=0)
        self.window = seconds("Budget", "window", window, above=0)
        self._open(clock, rng, observe)
        self.store = shared_store("Budget", store)
        self.name = label("Budget", name)
        self._fleet: BudgetMember | None = None
        if store is not None:
            self._join(store)

    def _begin(self, clock: Clock | None) -> BudgetState:
        live = BudgetState(clock, self.burst)
        live.earned = Slices(self.window, live.last)
        return live

    def retune(self, wanted: Self) -> bool:
        with self._lock:
            self._live.quick_until = -math.inf
            super().retune(wanted)
            if self._fleet is not None:
                self._fleet.change(self)
        return True

    def _convert(self, wanted: Self) -> None:
        self._live.earned = self._live.earned.resliced(wanted.window, self._live.last)

    def inherit(self, former: Allowance) -> None:
        if type(former) is type(self):
            self._live.tokens = min(self._live.tokens, former.balance)

    def _join(self, store: Store) -> None:
        from ..._primitives.options import shared_name
        from ..limiter.rules.leases import MOST_SHARED

        number("Budget", "burst", self.burst, most=MOST_SHARED)
        fleet: BudgetMember = store.join("budget", self, shared_name("Budget", self.name))
        self._fleet = fleet
        fleet.start()

    @property
    def sustained(self) -> float:
        return self.ratio

    def _credit(self, live: BudgetState, fresh: int) -> None:
        now, elapsed = live.tick()
        self._credit_at(live, fresh, now, elapsed)

    def _credit_at(self, live: BudgetState, fresh: int, now: float, elapsed: float) -> None:
        tokens = settle(live.tokens, live.earned, fresh * self.ratio, elapsed, now, self.burst)
        live.tokens = tokens
        if tokens >= self.burst:
            # What stands above the burst was earned within the window.
            live.gained, live.paid = round((tokens - self.burst) / self.ratio) if self.ratio else 0, 0
        else:
            live.gained += fresh

    def success(self, spent: float | None = None) -> None:
        if spent != OBSERVED:
            self._tally.tick()

    def withdraw(self, timeout: bool = False) -> float:
        return Budget.pay(self, "timeout" if timeout else "transient")

    def pay(self, kind: str, max_wait: float = math.inf) -> float:
        live, tally = self._live, self._tally
        if tally.left() == tally.seen:
            now = live.timer.now() + live.skew
            # Nothing was earned meanwhile. Without a call or a loop from here to the last store, no other
            # thread comes between, and none is at work on the state while this holds.
            if live.last <= now < live.quick_until:
                live.last = now
                if (rest := live.tokens - 1.0) >= 0.0:
                    live.tokens = rest
                    live.paid += 1
                    return 1.0
                if rest < -ROUNDING:
                    return self._refused() if self.observe else 0.0
        with self._lock:
            if self._fleet is not None:
                paid = self._fleet.withdraw()
            else:
                live.quick_until = -math.inf
                # `Tally.take` and `BudgetState.tick`, written out: this is on the way of most retries.
                left, now, last = tally.left(), live.timer.now() + live.skew, live.last
                fresh, tally.seen = tally.seen - left, left
                if now < last:
                    self._credit(live, fresh)
                else:
                    live.last = now
                    if fresh or now >= live.earned.end:
                        self._credit_at(live, fresh, now, now - last)
                rest, paid = live.tokens - 1.0, 0.0
                if rest >= -ROUNDING:
                    live.tokens = rest if rest > 0.0 else 0.0
                    live.paid += 1
                    paid = 1.0
                if _HAS_GIL:
                    live.quick_until = live.earned.end
        return paid or (self._refused() if self.observe else 0.0)

    @property
    def balance(self) -> float:
        """Tokens available now; with a store, those of the fleet as far as this process knows.

        Reading it changes nothing.
        """
        if self._fleet is None:
            return super().balance
        with self._lock:
            return self._fleet.balance()

    # For its member of a fleet, which holds the lock.

    def share(self, instances: int, tokens: float | None) -> Budget:
        """Return the budget of one process without its store, which counts the same successes.

        It starts with ``tokens``, at most its burst; ``None`` is its burst.
        """
        share = Budget(self.ratio, burst=self.burst / instances, window=self.window, clock=self.clock)
        share.take_over(self._tally, share.burst if tokens is None else tokens)
        return share

    def take_over(self, successes: Tally, tokens: float) -> None:
        """Count ``successes``, and hold ``tokens``."""
        self._tally = successes
        self._live.tokens = min(self.burst, max(0.0, tokens))

    def pay_for(self, retries: float) -> None:
        """Take the price of ``retries`` that were made under other options."""
        self._live.tokens -= retries

    def take_successes(self) -> int:
        """Return the number of successes since the last time."""
        return self._tally.take()

    def read_clock(self) -> float:
        """Return the time of the budget's clock, and remember it as `last_reading`."""
        return self._live.tick()[0]

    @property
    def settled_tokens(self) -> float:
        """Tokens as last settled."""
        return self._live.tokens

    @property
    def last_reading(self) -> float:
        """The time at which the clock was last read."""
        return self._live.last

    def shortage(self) -> str:
        if self._fleet is not None:
            # What the others earned and spent is not known here.
            return (
                f"retry budget exhausted: budget {self.name!r} of the fleet is spent: burst {self.burst:g}, "
                f"{self.ratio:g} earned per success; to allow more, set burst={max(1.0, 2 * self.burst):g}"
            )
        live = self._live
        return shortage(self.ratio, self.burst, live.gained, live.paid)
