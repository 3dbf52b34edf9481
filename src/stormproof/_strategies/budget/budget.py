"""Retry budgets: how many retries and hedges a set of callers may add to its own traffic.

The default is earned by success, so an outage earns nothing and retrying ends by itself.
A first attempt never waits for a budget. Successes are only counted (``Tally``); the sums are
made when something fails, by spreading the count evenly over the time since the last reading.
Looking at a budget settles a copy of its state, so that a scrape changes no later answer.
"""

from __future__ import annotations

import math

from ..._events import bus
from ..._events.key_names import of_key
from ..._primitives.options import Options, flag, label, number, seconds, shared_store, validate_clock
from ..._runtime import clock as _clock
from ..._runtime import randomness
from ..._runtime.counters import Tally
from ..._runtime.locks import guard
from .rules import ROUNDING, Slices, settle

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
    """Mutable state of a budget: the tokens, the windows' sums, the time of the last reading."""

    __slots__ = (
        "clock",
        "earned",
        "gained",
        "last",
        "paid",
        "skew",
        "spent",
        "timer",
        "tokens",
        "would_refuse",
    )

    #: What the window earned, or the calls it saw; and the retries that it paid for.
    earned: Slices
    spent: Slices

    def __init__(self, clock: Clock | None, tokens: float) -> None:
        self.use(clock)
        self.tokens = tokens
        self.skew = 0.0
        self.last: float = self.timer.now()
        #: Successes counted and retries paid since it last held its burst: what an empty budget reports.
        self.gained = self.paid = 0
        #: Refusals that were let through, as it only observes.
        self.would_refuse = 0

    def use(self, clock: Clock | None) -> None:
        """Read the time from ``clock``; ``None`` is the ambient one."""
        self.clock = clock
        #: Where to read the time: ``timer.now()``.
        self.timer: Any = _clock.AMBIENT if clock is None else clock

    def tick(self) -> tuple[float, float]:
        """(now, seconds since the last reading). A clock set back goes on from where it was."""
        now = self.timer.now() + self.skew
        elapsed = now - self.last
        if elapsed < 0:
            self.skew -= elapsed
            return self.last, 0.0
        self.last = now
        return now, elapsed

    def copy(self) -> Live:
        """Return a copy that can be settled without changing this one."""
        twin = Live.__new__(Live)
        twin.clock, twin.timer = self.clock, self.timer
        twin.tokens, twin.skew, twin.last = self.tokens, self.skew, self.last
        twin.gained, twin.paid, twin.would_refuse = self.gained, self.paid, self.would_refuse
        for name in ("earned", "spent"):
            if (window := getattr(self, name, None)) is not None:
                setattr(twin, name, window.copy())
        return twin


#: What a retry "paid" that a budget let through although it would have refused it: nothing was taken, and
#: its success earns nothing.
OBSERVED = 5e-324


class Allowance(Options):
    """Base of all budgets: a lock, a clock, a count of successes or starts."""

    __slots__ = ("__weakref__", "_live", "_lock", "_tally", "observe")
    _extras: tuple[str, ...] = ("clock",)

    observe: bool

    _live: Live
    _lock: Any
    _tally: Tally

    def _open(self, clock: Clock | None, rng: Rng | None, observe: bool) -> None:
        # Everything that holds state takes a clock and a source of randomness; budgets draw nothing.
        randomness.source(rng, type(self).__name__)
        owner = type(self).__name__
        self._set(_tally=Tally(), _live=self._begin(validate_clock(owner, clock)))
        self._set(observe=flag(owner, "observe", observe))
        guard(self)

    @property
    def clock(self) -> Clock | None:
        """The clock it uses; ``None`` is the ambient one."""
        return self._live.clock

    def use_clock(self, clock: Clock) -> None:
        """Use ``clock`` from now on, unless this budget was given one of its own."""
        live = self._live
        if live.clock is None:
            with self._lock:
                # The two clocks differ by a constant that is none of this budget's business.
                live.skew = live.last - clock.now()
                live.use(clock)

    def _settle(self) -> None:
        """Credit what was counted since the last time. The lock is held."""
        self._credit(self._live, self._tally.take())

    def _credit(self, live: Live, fresh: int) -> None:
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

    #: Whether `failure` does anything.
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
        return paid or self._refused()

    def _refused(self) -> float:
        """Return 0.0; while it only observes, count and emit the refusal and let the retry through."""
        if not self.observe:
            return 0.0
        with self._lock:
            self._live.would_refuse += 1
        bus.publish("WouldRefuse", operation=getattr(self, "name", None) or "budget", by="budget")
        return OBSERVED

    def fields(self) -> dict[str, Any]:
        return {**super().fields(), **({"observe": True} if self.observe else {})}

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
        """Tokens available now. Reading it changes nothing."""
        with self._lock:
            return self._held(self._look())

    def _look(self) -> Live:
        """Return a copy of the state, settled at this moment. The lock is held."""
        live = self._live.copy()
        self._credit(live, self._tally.peek())
        return live

    def _held(self, live: Live) -> float:
        return live.tokens

    def shortage(self) -> str:
        """Say in one line why nothing more is paid and which option to change."""
        return f"{self!r} has {self.balance:.3g} left"

    @property
    def sustained(self) -> float:
        """Retries per call that it pays for in the long run."""
        return math.inf

    def reset(self) -> None:
        """Begin anew: as full as when it was made, with nothing counted. For tests."""
        with self._lock:
            self._tally.take()
            # Another clock's time would be none of this one's.
            self._set(_live=self._begin(self._live.clock))

    def retune(self, wanted: Any) -> bool:
        """Take over the options of ``wanted``; what was counted under the old ones is settled under them."""
        with self._lock:
            self._settle()
            self._convert(wanted)
            self._take_options(wanted, "observe")
            # Again, for the new limit on what is held.
            self._settle()
        return True

    def _convert(self, wanted: Any) -> None:
        """Express the state in the units of ``wanted``. The lock is held."""

    def inherit(self, former: Allowance) -> None:
        """Start with the balance of ``former``, the budget that this one replaces, if that is less."""

    def _begin(self, clock: Clock | None) -> Live:
        """Return the state of a budget made now."""
        raise NotImplementedError

    def fresh(self) -> Self:
        """A new budget with these options and a state of its own."""
        return self.replace()

    def factory(self, clock: Clock) -> Callable[[], Self]:
        """Return a function that makes a budget with these options, which uses ``clock``, at each call.

        For a simulation, which makes hundreds of thousands in one thread: the options are validated once,
        all of them share one lock, and a store is left out.
        """
        options = {**self.fields(), "clock": clock}
        options.pop("store", None)
        model = type(self)(**options)
        kind: Any = type(model)
        values = [
            (vars(each)[name].__set__, getattr(model, name))
            for each in kind.__mro__
            for name in vars(each).get("__slots__", ())
            if name not in ("__weakref__", "_live", "_tally", "_bucket")
        ]
        set_live, set_tally = kind._live.__set__, kind._tally.__set__
        further = getattr(model, "__dict__", None)

        def make() -> Any:
            made = object.__new__(kind)
            for set_value, value in values:
                set_value(made, value)
            set_tally(made, Tally())
            set_live(made, made._begin(clock))
            if further is not None:
                # A class of the user's own without slots.
                vars(made).update(further)
            return made

        return make

    def __eq__(self, other: object) -> bool:
        # Two budgets with the same options are not the same budget: each holds its own tokens.
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with the balance of this moment."""
        observed = {"would_refuse": self._live.would_refuse} if self.observe else {}
        return {**super().describe(), "balance": self.balance, **observed}


class Budget(Allowance):
    """Earned by success: ``+ratio`` per successful call; a retry or hedge costs 1.

    Starts with ``burst`` and holds at most ``burst`` + what the last ``window`` seconds earned: all
    that is earned counts until that bound is reached. Time alone refills nothing. ``ratio=0`` leaves
    ``burst`` retries for good, ``burst=0`` none before the first success.

    With ``observe`` it counts and emits what it would have refused (`WouldRefuse`), and refuses nothing.
    With a ``store`` it is the budget of all processes that use one of the same ``name``: earned
    anywhere, spent anywhere. Paying stays a local decision.
    """

    __slots__ = ("_fleet", "burst", "name", "ratio", "store", "window")
    _fields = ("ratio", "burst", "window")
    _extras = ("clock", "store", "name")

    ratio: float
    burst: float
    window: float
    store: Store | None
    name: str | None
    _fleet: FleetMember | None

    def __init__(
        self,
        ratio: float = 0.1,
        burst: float = 3,
        window: Seconds = 10.0,
        *,
        clock: Clock | None = None,
        rng: Rng | None = None,
        store: Store | None = None,
        name: str | None = None,
        observe: bool = False,
    ) -> None:
        self._set(
            ratio=number("Budget", "ratio", ratio, least=0),
            burst=number("Budget", "burst", burst, least=0),
            window=seconds("Budget", "window", window, above=0),
        )
        self._open(clock, rng, observe)
        self._set(store=shared_store("Budget", store), name=label("Budget", name))
        self._set(_fleet=None)
        if store is not None:
            self._join(store)

    def _begin(self, clock: Clock | None) -> Live:
        live = Live(clock, self.burst)
        live.earned = Slices(self.window, live.last)
        return live

    def retune(self, wanted: Any) -> bool:
        with self._lock:
            super().retune(wanted)
            if self._fleet is not None:
                self._fleet.change(self)
        return True

    def _convert(self, wanted: Any) -> None:
        self._live.earned = self._live.earned.resliced(wanted.window, self._live.last)

    def inherit(self, former: Allowance) -> None:
        if type(former) is type(self):
            self._live.tokens = min(self._live.tokens, former.balance)

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

    def _credit(self, live: Live, fresh: int) -> None:
        now, elapsed = live.tick()
        self._credit_at(live, fresh, now, elapsed)

    def _credit_at(self, live: Live, fresh: int, now: float, elapsed: float) -> None:
        tokens = settle(live.tokens, live.earned, fresh * self.ratio, elapsed, now, self.burst)
        live.tokens = tokens
        if tokens >= self.burst:
            live.gained = live.paid = 0
        else:
            live.gained += fresh

    def withdraw(self, timeout: bool = False) -> float:
        return Budget.pay(self, "timeout" if timeout else "transient", None)

    def pay(self, kind: str, max_wait: float | None) -> float:
        live, tally = self._live, self._tally
        with self._lock:
            if self._fleet is not None:
                paid = self._fleet.withdraw()
            else:
                # `Tally.take` and `Live.tick`, written out: this is on the way of every retry.
                count, now, last = tally.tick(), live.timer.now() + live.skew, live.last
                fresh = count - tally.seen
                tally.seen = count + 1
                if now < last:
                    self._credit(live, fresh)
                else:
                    live.last = now
                    if fresh or now >= live.earned.end:
                        self._credit_at(live, fresh, now, now - last)
                left = live.tokens - 1.0
                if left >= -ROUNDING:
                    live.tokens = left if left > 0.0 else 0.0
                    live.paid += 1
                    return 1.0
                paid = 0.0
        return paid or self._refused()

    @property
    def balance(self) -> float:
        """Tokens available now; with a store, those of the fleet as far as this process knows.

        Reading it changes nothing.
        """
        if self._fleet is None:
            return super().balance
        with self._lock:
            return self._fleet.balance()

    def shortage(self) -> str:
        if self._fleet is not None:
            return f"budget {self.name!r} of the fleet is spent: ratio={self.ratio:g}, burst={self.burst:g}"
        with self._lock:
            live = self._look()
        earned = f"{_counted(live.gained, 'success', 'es')} earned {live.gained * self.ratio:.3g}"
        spent = f"{_counted(live.paid, 'retry', 'ies')} spent {live.paid}"
        more = f"burst={math.floor(self.burst) + max(1, live.paid)}"
        if live.gained:
            # With this ratio the same successes would have paid for one retry more.
            ratio = (live.paid + 1 - self.burst) / live.gained
            more += f" or ratio={math.ceil(ratio * 100) / 100:g}" if ratio > self.ratio else ""
        return f"budget empty: burst {self.burst:g}, {earned}, {spent}; to allow more, set {more}"


def _counted(number: int, word: str, plural: str) -> str:
    if number == 1:
        return f"1 {word}"
    return f"{number} {word.removesuffix('y') if plural == 'ies' else word}{plural}"
