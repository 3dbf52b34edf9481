"""Base of the budgets: their state, their lock, and the contract that `Retry` and `Hedge` rely on.

Successes are only counted (``Tally``); the sums are made when something fails, by spreading the count
evenly over the time since the last reading. Looking at a budget settles a copy of its state, so that a
scrape changes no later answer.
"""

from __future__ import annotations

import math

from ..._events import bus
from ..._primitives.options import flag, validate_clock
from ..._runtime import randomness
from ..._runtime.clock import timer_of
from ..._runtime.counters import Tally
from ..._runtime.locks import guard
from ..stateful import Stateful
from .rules import Slices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from ..._runtime.clock import Clock
    from ..._runtime.randomness import Rng
    from ..limiter.rules.bucket import Bucket


_put = object.__setattr__


class BudgetState:
    """Mutable state of a budget: the tokens, the windows' sums, the time of the last reading."""

    __slots__ = (
        "bucket",
        "clock",
        "earned",
        "gained",
        "last",
        "paid",
        "quick_until",
        "skew",
        "spent",
        "timer",
        "tokens",
        "would_refuse",
    )

    #: What the window earned, or the calls it saw; and the retries that it paid for.
    earned: Slices
    spent: Slices
    #: The tokens of a kind that refills with time.
    bucket: Bucket

    def __init__(self, clock: Clock | None, tokens: float) -> None:
        self.use(clock)
        self.tokens = tokens
        self.skew = 0.0
        self.last: float = self.timer.now()
        #: Successes counted and retries paid since it last held its burst: what an empty budget reports.
        self.gained = self.paid = 0
        #: Until when a `Budget` that earned nothing may pay without its lock; -inf while it is held for more.
        self.quick_until = -math.inf
        #: Refusals that were let through, as it only observes.
        self.would_refuse = 0

    def use(self, clock: Clock | None) -> None:
        """Read the time from ``clock``; ``None`` is the ambient one."""
        self.clock = clock
        #: Where to read the time: ``timer.now()``.
        self.timer = timer_of(clock)

    def tick(self) -> tuple[float, float]:
        """(now, seconds since the last reading). A clock set back goes on from where it was."""
        now = self.timer.now() + self.skew
        elapsed = now - self.last
        if elapsed < 0:
            self.skew -= elapsed
            return self.last, 0.0
        self.last = now
        return now, elapsed

    def copy(self) -> BudgetState:
        """Return a copy that can be settled without changing this one."""
        twin = BudgetState.__new__(BudgetState)
        for name in self.__slots__:
            if (value := getattr(self, name, Ellipsis)) is not Ellipsis:
                # Reading a bucket changes nothing, so that the copy shares it.
                setattr(twin, name, value.copy() if type(value) is Slices else value)
        return twin


#: What a retry "paid" that a budget let through although it would have refused it: nothing was taken, and
#: its success earns nothing.
OBSERVED = 5e-324


class Allowance(Stateful):
    """Base of all budgets: a lock, a clock, a count of successes or starts."""

    #: What a budget is called is of interest where several processes share it.
    _surroundings = ("clock", "rng", "store", "name")

    _live: BudgetState
    _tally: Tally

    def _open(self, clock: Clock | None, rng: Rng | None, observe: bool) -> None:
        # Everything that holds state takes a clock and a source of randomness; budgets draw nothing.
        randomness.source(rng, type(self).__name__)
        owner = type(self).__name__
        self.restart(Tally(), validate_clock(owner, clock))
        self.observe = flag(owner, "observe", observe)
        self._lock = guard(self)

    @property
    def clock(self) -> Clock | None:
        """The clock it uses; ``None`` is the ambient one."""
        return self._live.clock

    def use_clock(self, clock: Clock) -> None:
        live = self._live
        if live.clock is None:
            with self._lock:
                live.quick_until = -math.inf
                # The two clocks differ by a constant that is none of this budget's business.
                live.skew = live.last - clock.now()
                live.use(clock)

    def _settle(self) -> None:
        """Credit what was counted since the last time. The lock is held."""
        self._credit(self._live, self._tally.take())

    def _credit(self, live: BudgetState, fresh: int) -> None:
        """Settle ``live`` at this moment, with ``fresh`` events counted since it was last settled."""
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
        if spent != OBSERVED and (tick := self.on_success) is not None:
            tick()

    #: True if `failure` does anything.
    counts_failures = False

    def failure(self, timeout: bool = False) -> None:
        """A retryable failure happened, whether or not a retry follows."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "failure" in cls.__dict__:
            cls.counts_failures = True
        if "withdraw" in cls.__dict__ and "pay" not in cls.__dict__:
            # What it withdraws is what its retries pay.
            cls.pay = Allowance.pay  # type: ignore[method-assign]

    def withdraw(self, timeout: bool = False) -> float:
        """Pay for one retry or hedge: what was paid, or 0.0 when refused."""
        with self._lock:
            self._settle()
            paid = self._pay(timeout)
        return paid or (self._refused() if self.observe else 0.0)

    def _refused(self) -> float:
        """Count and emit a refusal that is only observed, and let the retry through."""
        with self._lock:
            self._live.would_refuse += 1
        bus.publish("WouldRefuse", operation=self.name or "budget", by="budget")
        return OBSERVED

    def pay(self, kind: str, max_wait: float = math.inf) -> float:
        """Pay for a retry after a failure of ``kind`` (a verdict's): what was paid, or 0.0 when refused.

        A `DeferredPayment` is a payment for a token that comes later, within ``max_wait`` seconds.
        """
        return self.withdraw(kind == "timeout")

    def _pay(self, timeout: bool) -> float:
        raise NotImplementedError

    @property
    def balance(self) -> float:
        """Tokens available now. Reading it changes nothing."""
        with self._lock:
            return self._balance_of(self._look())

    def _look(self) -> BudgetState:
        """Return a copy of the state, settled at this moment. The lock is held."""
        live = self._live.copy()
        self._credit(live, self._tally.peek())
        return live

    def _balance_of(self, live: BudgetState) -> float:
        return live.tokens

    def shortage(self) -> str:
        """Say in one line why nothing was paid the last time, and which option to change."""
        return f"retry budget exhausted: {self!r} has {self.balance:.3g} left"

    @property
    def sustained(self) -> float:
        """Retries per call that it pays for in the long run."""
        return math.inf

    def reset(self) -> None:
        """Begin anew: as full as when it was made, with nothing counted. For tests."""
        with self._lock:
            # The compiled functions that count for it keep their tally. Another clock's time would be
            # none of this one's.
            self._tally.take()
            self.restart(self._tally, self._live.clock)

    def restart(self, tally: Tally, clock: Clock | None) -> None:
        """Begin on ``clock``, and count with ``tally``."""
        _put(self, "_tally", tally)
        _put(self, "_live", self._begin(clock))

    def retune(self, wanted: Self) -> bool:
        """Take over the options of ``wanted``; what was counted under the old ones is settled under them."""
        with self._lock:
            self._settle()
            self._convert(wanted)
            self._take_options(wanted)
            # Again, for the new limit on what is held.
            self._settle()
        return True

    def _convert(self, wanted: Self) -> None:
        """Express the state in the units of ``wanted``. The lock is held."""

    def inherit(self, former: Allowance) -> None:
        """Start with the balance of ``former``, the budget that this one replaces, if that is less."""

    def _begin(self, clock: Clock | None) -> BudgetState:
        """Return the state of a budget made now."""
        raise NotImplementedError

    def factory(self, clock: Clock) -> Callable[[], Self]:
        """Return a function that makes a budget with these options, which uses ``clock``, at each call.

        For a simulation, which makes hundreds of thousands in one thread: the options are validated once,
        all of them share one lock, and a store is left out.
        """
        options = {**self.fields(), "clock": clock}
        options.pop("store", None)
        model = type(self)(**options)
        kind = type(model)
        shared = [
            (name, value)
            for name, value in vars(model).items()
            if name not in ("_live", "_tally") and getattr(kind, name, ...) is not value
        ]

        def make() -> Any:
            budget = object.__new__(kind)
            for name, value in shared:
                _put(budget, name, value)
            budget.restart(Tally(), clock)
            return budget

        return make

    # One object in place of many budgets of the same options: for a simulation, in one thread.

    def new_state(self) -> BudgetState:
        """Return the state of another budget, made now."""
        return self._begin(self._live.clock)

    def assume(self, state: BudgetState, events: int) -> None:
        """Take over ``state``, and the number of events counted since it was last settled."""
        # A run does this for every failure, and `object.__setattr__` takes three times as long.
        self.__dict__["_live"] = state
        self._tally.seen = self._tally.left() + events

    def pending(self) -> int:
        """Return the number of events counted since it was last settled."""
        return self._tally.peek()

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with the balance of this moment."""
        observed = {"would_refuse": self._live.would_refuse} if self.observe else {}
        return {**super().describe(), "balance": self.balance, **observed}
