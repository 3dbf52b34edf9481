"""The retry budgets of other systems: Finagle's window, AWS's quota, gRPC's throttle, a plain rate.

For parity with them, and for those who know what they want. `Budget` says why none is the default.
"""

from __future__ import annotations

import math

from ..._primitives.options import Seconds, count, flag, label, number, seconds, shared_store
from ..limiter.limiter import Limiter
from ..limiter.rules.bucket import MOST_TOKENS, Bucket, Grant, Line
from ..limiter.rules.deferred import DeferredPayment
from ..limiter.waiting import LineOwner, Reservation, wake
from .allowance import OBSERVED, Allowance, BudgetState
from .rules import ROUNDING, Slices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from ..._runtime.clock import Clock
    from ..._runtime.randomness import Rng
    from ..protocol import Store


class WindowBudget(Allowance):
    """Finagle's and Linkerd's: retries in the window <= ``ratio`` * calls + ``floor`` * ``window``.

    Earned when a call starts, and by time (``floor`` per second), so it keeps paying through an
    outage. Offered for parity; see ``Budget`` for why it is not the default.
    """

    def __init__(
        self,
        ratio: float = 0.2,
        *,
        floor: float = 10.0,
        window: Seconds = 10.0,
        clock: Clock | None = None,
        rng: Rng | None = None,
        observe: bool = False,
    ) -> None:
        self.ratio = number("WindowBudget", "ratio", ratio, least=0)
        self.floor = number("WindowBudget", "floor", floor, least=0)
        self.window = seconds("WindowBudget", "window", window, above=0)
        self._open(clock, rng, observe)

    def _begin(self, clock: Clock | None) -> BudgetState:
        live = BudgetState(clock, 0.0)
        live.earned, live.spent = Slices(self.window, live.last), Slices(self.window, live.last)
        return live

    def _convert(self, wanted: Self) -> None:
        live = self._live
        live.earned = live.earned.resliced(wanted.window, live.last)
        live.spent = live.spent.resliced(wanted.window, live.last)

    @property
    def on_start(self) -> Callable[[], object] | None:
        return self._tally.tick

    @property
    def on_success(self) -> Callable[[], object] | None:
        return None

    @property
    def sustained(self) -> float:
        return self.ratio

    def _credit(self, live: BudgetState, fresh: int) -> None:
        now, elapsed = live.tick()
        live.earned.roll(now)
        live.spent.roll(now)
        if fresh:
            live.earned.add(fresh, elapsed)

    def _pay(self, timeout: bool) -> float:
        if self._balance_of(self._live) < 1.0 - ROUNDING:
            return 0.0
        self._live.spent.add(1.0)
        return 1.0

    def _balance_of(self, live: BudgetState) -> float:
        # Calls can leave the window before the retries they paid for.
        earned = self.ratio * live.earned.total + self.floor * self.window
        return max(0.0, earned - live.spent.total)


class QuotaBudget(Allowance):
    """AWS's standard quota: ``capacity`` tokens; a retry costs ``retry_cost``, after a timeout
    ``timeout_cost``, after throttling ``throttle_cost`` (``None``: as any retry).

    A success after a retry gives back what its last retry cost; a first-try success adds
    ``success_credit``.
    """

    def __init__(
        self,
        capacity: float = 500,
        *,
        retry_cost: float = 5,
        timeout_cost: float = 10,
        success_credit: float = 1,
        throttle_cost: float | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        observe: bool = False,
    ) -> None:
        self.capacity = number("QuotaBudget", "capacity", capacity, above=0)
        self.retry_cost = number("QuotaBudget", "retry_cost", retry_cost, above=0)
        self.timeout_cost = number("QuotaBudget", "timeout_cost", timeout_cost, above=0)
        self.success_credit = number("QuotaBudget", "success_credit", success_credit, least=0)
        self.throttle_cost = (
            None if throttle_cost is None else number("QuotaBudget", "throttle_cost", throttle_cost, above=0)
        )
        self._open(clock, rng, observe)

    def _begin(self, clock: Clock | None) -> BudgetState:
        return BudgetState(clock, self.capacity)

    def success(self, spent: float | None = None) -> None:
        if spent is None:
            self._tally.tick()
        if spent is None or spent == OBSERVED:
            return
        with self._lock:
            self._settle()
            self._live.tokens = min(self.capacity, self._live.tokens + spent)

    def withdraw(self, timeout: bool = False, throttle: bool = False) -> float:
        """Pay for one retry: what was paid, or 0.0 when refused. ``throttle``: after a throttling answer."""
        with self._lock:
            self._settle()
            if throttle and self.throttle_cost is not None:
                paid = self._take(self.throttle_cost)
            else:
                paid = self._take(self.timeout_cost if timeout else self.retry_cost)
        return paid or (self._refused() if self.observe else 0.0)

    def pay(self, kind: str, max_wait: float = math.inf) -> float:
        return self.withdraw(kind == "timeout", kind == "throttle")

    @property
    def sustained(self) -> float:
        return self.success_credit / self.retry_cost

    def _take(self, cost: float) -> float:
        if self._live.tokens < cost:
            return 0.0
        self._live.tokens -= cost
        return cost

    def _credit(self, live: BudgetState, fresh: int) -> None:
        # Credits only ever add up to the capacity, so their order among themselves does not matter.
        live.tokens = min(self.capacity, live.tokens + fresh * self.success_credit)


class ThrottleBudget(Allowance):
    """gRPC's: tokens in [0, ``max_tokens``]; -1 per retryable failure, +``token_ratio`` per success.

    Retries are refused while tokens <= ``max_tokens`` / 2. The failure pays, not the retry.
    ``token_ratio`` counts to three decimals.
    """

    def __init__(
        self,
        max_tokens: float = 10,
        *,
        token_ratio: float = 0.1,
        clock: Clock | None = None,
        rng: Rng | None = None,
        observe: bool = False,
    ) -> None:
        self.max_tokens = number("ThrottleBudget", "max_tokens", max_tokens, above=0, most=1000)
        self.token_ratio = number("ThrottleBudget", "token_ratio", token_ratio, least=0.001)
        # Held as thousandths, which are whole numbers.
        self._open(clock, rng, observe)

    def _begin(self, clock: Clock | None) -> BudgetState:
        return BudgetState(clock, self.top)

    def _convert(self, wanted: Self) -> None:
        # The share stays, as gRPC does it: what counts is on which side of the half the tokens are.
        self._live.tokens = round(self._live.tokens / self.top * wanted.top)

    @property
    def sustained(self) -> float:
        return self.token_ratio

    @property
    def top(self) -> int:
        return round(self.max_tokens * 1000)

    def failure(self, timeout: bool = False) -> None:
        with self._lock:
            self._settle()
            self._live.tokens = max(0, self._live.tokens - 1000)

    def _credit(self, live: BudgetState, fresh: int) -> None:
        # The small addend keeps 1.001 * 1000 from truncating to 1000.
        credit = int(self.token_ratio * 1000 + ROUNDING)
        live.tokens = min(self.top, live.tokens + fresh * credit)

    def _pay(self, timeout: bool) -> float:
        return 1.0 if self._live.tokens * 2 > self.top else 0.0

    def _balance_of(self, live: BudgetState) -> float:
        return live.tokens / 1000


class RateBudget(Allowance, LineOwner):
    """Retries per second: a token bucket of ``burst`` that refills at ``rate`` per second.

    ``wait=False`` refuses when it is empty; ``wait=True`` lets the retry wait for its token,
    within the deadline. It refills with time, so it keeps paying through an outage. With a ``store``
    it is the rate of all processes that use one of the same ``name``, as a `Limiter`'s is.
    """

    def __init__(
        self,
        rate: float = 100,
        burst: int = 200,
        *,
        wait: bool = False,
        clock: Clock | None = None,
        rng: Rng | None = None,
        store: Store | None = None,
        name: str | None = None,
        observe: bool = False,
    ) -> None:
        self.rate = number("RateBudget", "rate", rate, least=0, infinite=True)
        self.burst = count("RateBudget", "burst", burst, least=0, most=MOST_TOKENS)
        self.wait = flag("RateBudget", "wait", wait)
        self._open(clock, rng, observe)
        self.store = shared_store("RateBudget", store)
        self.name = label("RateBudget", name)
        shared = None if store is None else _shared_limiter(self, clock, store, name)
        #: What pays in its place when there is a store.
        self._shared: Limiter | None = shared

    def _begin(self, clock: Clock | None) -> BudgetState:
        live = BudgetState(clock, 0.0)
        live.bucket = Bucket(self.rate, self.burst, live.last)
        return live

    def retune(self, wanted: Self) -> bool:
        super().retune(wanted)
        if self._shared is not None:
            self._shared.set_rate(self.rate)
            self._shared.set_burst(self.burst)
        return True

    def _convert(self, wanted: Self) -> None:
        bucket = self._live.bucket
        bucket.settle(self._live.last)
        bucket.rate, bucket.burst = wanted.rate, wanted.burst

    def use_clock(self, clock: Clock) -> None:
        super().use_clock(clock)
        if self._shared is not None:
            self._shared.use_clock(clock)

    @property
    def on_success(self) -> Callable[[], object] | None:
        return None

    def _credit(self, live: BudgetState, fresh: int) -> None:
        live.tick()

    def _pay(self, timeout: bool) -> float:
        if self._shared is not None:
            return 1.0 if self._shared.allow() else 0.0
        return 1.0 if self._live.bucket.reserve(1, self._live.last, 0.0).ok else 0.0

    def pay(self, kind: str, max_wait: float = math.inf) -> float:
        if not self.wait:
            return self.withdraw()
        turn = self.reserve(None if max_wait == math.inf else max_wait)
        return DeferredPayment(1.0, turn) if turn.ok else 0.0

    def reserve(self, max_wait_s: float | None) -> Reservation:
        """A token for one retry that may wait in line for it."""
        if self.observe:
            # It never waits, and takes only what is there.
            self.withdraw()
            return Reservation(self, Grant(True, 0, self._live.last, self.rate, 0.0))
        if self._shared is not None:
            return self._shared.enqueue(1, max_wait_s)
        with self._lock:
            now, _ = self._live.tick()
            # Those whose turn has come may sleep on, for the rest of their own wait.
            wake(self._live.bucket.advance(now))
            return Reservation(self, self._live.bucket.reserve(1, now, max_wait_s, queue=True))

    # As the owner of a line.

    def clock_time(self) -> float:
        with self._lock:
            return self._live.tick()[0]

    def cancel_grant(self, grant: Grant) -> None:
        with self._lock:
            self._live.bucket.cancel(grant, self.clock_time())

    def line_step(self, grant: Grant, work: Callable[[Line, float], list[Grant]]) -> None:
        with self._lock:
            woken = work(grant.line or self._live.bucket, self.clock_time())
        wake(woken)

    def _balance_of(self, live: BudgetState) -> float:
        if self._shared is not None:
            return max(0.0, self._shared.tokens())
        return max(0.0, live.bucket.tokens(live.last))


def _shared_limiter(budget: RateBudget, clock: Clock | None, store: Store, name: str | None) -> Limiter:
    """Return the fleet's limiter behind ``budget``; a `Limiter` of the same name is not related to it."""
    from ..._primitives.options import shared_name

    own = shared_name("RateBudget", name) + "/rate-budget"
    return Limiter(budget.rate, budget.burst, clock=clock, store=store, name=own)
