"""New options for a breaker, budget, limiter or bulkhead in use, whose live state stays.

`retune(live, wanted)` makes ``live`` go by the options of ``wanted``, an object of the same class
that was made, and so checked, for the purpose. The object in use is changed rather than replaced:
calls in flight settle where they began, and whoever holds a reference still holds the right one.
"""

from __future__ import annotations

import math

from .._drivers.waiter import Waiter
from .._strategies.adaptive.limit import AdaptiveLimit
from .._strategies.adaptive.rate import AdaptiveRate
from .._strategies.adaptive.rules import limits as limit_rules
from .._strategies.breaker.breaker import Breaker
from .._strategies.budget.budget import Allowance, Budget
from .._strategies.budget.other_systems import QuotaBudget, RateBudget, ThrottleBudget, WindowBudget
from .._strategies.budget.rules import Slices
from .._strategies.bulkhead.bulkhead import Bulkhead
from .._strategies.hedge.hedge import Hedge
from .._strategies.limiter.limiter import Limiter
from .._strategies.limiter.pacer import Pacer
from .._strategies.throttle import Throttle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._strategies.breaker.rules.circuit import Circuit


def retune(live: Any, wanted: Any) -> bool:
    """Whether ``live`` goes by ``wanted``'s options now; if not, it has none of its state to keep."""
    if type(live) is not type(wanted) or type(live) not in _RULES or _elsewhere(live, wanted):
        return False
    if live is not wanted:
        _RULES[type(live)](live, wanted)
    return True


def _elsewhere(live: Any, wanted: Any) -> bool:
    """Whether ``wanted`` has its state in another place: in a store, in another one, under another name."""
    homes = [getattr(part, "store", None) for part in (live, wanted)]
    return homes[0] is not homes[1] or (homes[0] is not None and live.name != wanted.name)


def inherit(budget: Any, former: Any) -> None:
    """Start ``budget``, made just now, with the balance that ``former`` has, if that is less."""
    if type(budget) is Budget and type(former) is Budget:
        budget._live.tokens = min(budget._live.tokens, former.balance)


def _take_options(live: Any, wanted: Any, *derived: str) -> None:
    live._set(**{name: getattr(wanted, name) for name in (*wanted._fields, *derived)})
    if isinstance(live, Allowance):
        live._set(observe=wanted.observe)


# Budgets: what was counted under the old options is settled under them first.


def _budget(live: Budget, wanted: Budget) -> None:
    with live._lock:
        live._settle()
        live._live.earned = resliced(live._live.earned, wanted.window, live._live.last)
        _take_options(live, wanted)
        # Again, for the new limit on what is held.
        live._settle()
        if live._fleet is not None:
            live._fleet.change(live)


def _window_budget(live: WindowBudget, wanted: WindowBudget) -> None:
    with live._lock:
        live._settle()
        state = live._live
        state.earned = resliced(state.earned, wanted.window, state.last)
        state.spent = resliced(state.spent, wanted.window, state.last)
        _take_options(live, wanted)


def _quota_budget(live: QuotaBudget, wanted: QuotaBudget) -> None:
    with live._lock:
        live._settle()
        _take_options(live, wanted)
        live._settle()


def _throttle_budget(live: ThrottleBudget, wanted: ThrottleBudget) -> None:
    """The share of the tokens stays, as gRPC does it: what counts is on which side of the half it is."""
    with live._lock:
        live._settle()
        share = live._live.tokens / live._top
        _take_options(live, wanted)
        live._live.tokens = round(share * live._top)


def _rate_budget(live: RateBudget, wanted: RateBudget) -> None:
    with live._lock:
        live._settle()
        live._bucket.settle(live._live.last)
        _take_options(live, wanted)
        live._bucket.rate, live._bucket.burst = live.rate, live.burst
    if live._shared is not None:
        live._shared.set_rate(live.rate)
        live._shared.set_burst(live.burst)


def resliced(old: Slices, window_s: float, now: float) -> Slices:
    """What ``old`` has counted, in slices of another window; what that window no longer reaches is gone."""
    old.roll(now)
    new = Slices(window_s, now)
    if new._width == old._width:
        return old
    count = len(old._sums)
    for back in range(count):
        amount = old._sums[(old._at - back) % count]
        # The slice that is being filled ends now; the others are taken to lie in their middle.
        when = now if back == 0 else (old._at - back + 0.5) * old._width
        age = new._at - int(when // new._width)
        if amount and age < count:
            new._sums[(new._at - age) % count] += amount
    new.total = sum(new._sums)
    return new


# Limiters settle by themselves when they change.


def _limiter(live: Limiter | Pacer, wanted: Limiter | Pacer) -> None:
    live.set_rate(wanted.rate)
    live.set_burst(wanted.burst)


# The breaker.


def _breaker(live: Breaker, wanted: Breaker) -> None:
    with live._lock:
        now = live._now()
        circuit = live._live.circuit
        circuit.roll(now)
        _take_options(live, wanted, "_exclude", "_judge", "_trip")
        circuit._probes = live.probes
        circuit._probe_timeout = math.inf if live.probe_timeout is None else live.probe_timeout
        _retime(circuit, live, now)
        if circuit.state == "open":
            # A shorter rest begins to count at once; a longer one at the next opening.
            circuit.until = min(circuit.until, now + circuit._open_for(circuit.reopenings))
        live._publish_bucket()


def _retime(circuit: Circuit, breaker: Breaker, now: float) -> None:
    """Another window: the buckets so far stay in it for as long as it reaches back to them."""
    changed = (circuit._window_s, circuit._bucket_s) != (breaker.window, breaker.bucket)
    circuit._window_s, circuit._bucket_s = breaker.window, breaker.bucket
    window = circuit.window
    if window is None or not changed:
        return
    fresh = type(window)(breaker.window, breaker.bucket, now)
    window._size, window._width = fresh._size, fresh._width
    window.current.end = min(window.current.end, fresh.current.end)
    if math.isinf(fresh.current.end):
        window.current.end = math.inf
    oldest = window.current.end - window._size * window._width
    window._rows = [row for row in window._rows if row is window.current or row.end > oldest]


# The bulkhead.


class _Gone(Waiter):
    """A place that no longer exists: stands first in the queue until a call gives its place back for it."""

    __slots__ = ()

    def grant(self) -> None:
        self.granted = True


def _bulkhead(live: Bulkhead, wanted: Bulkhead) -> None:
    if live._fleet is not None:
        # How many of the places are this process's own is for the store to say.
        _take_options(live, wanted)
        return live._fleet.change(live)
    with live._lock:
        more = wanted.limit - live.limit
        _take_options(live, wanted)
        live._set(_places=live.limit)
        for _ in range(more):
            live._permits.append(None)
        for _ in range(-more):
            try:
                live._permits.pop()
            except IndexError:
                live._waiting.appendleft(_Gone())
    live._dispatch()


# What learns goes on from what it has learnt.


def _adaptive_limit(live: AdaptiveLimit, wanted: AdaptiveLimit) -> None:
    with live._lock:
        old, rule = live._rule, wanted._rule
        if type(old) is type(rule):
            for name in _LEARNT[type(old)]:
                setattr(rule, name, getattr(old, name))
        _take_options(live, wanted)
        rule.limit = min(float(wanted.max), max(float(wanted.min), old.limit))
        live._set(_rule=rule, _judge=wanted._judge)


_LEARNT: dict[type, tuple[str, ...]] = {
    limit_rules.Aimd: (),
    limit_rules.Vegas: ("_calls", "_rtt0", "_spread"),
    limit_rules.Gradient2: ("_count", "_long"),
}


def _adaptive_rate(live: AdaptiveRate, wanted: AdaptiveRate) -> None:
    with live._lock:
        _take_options(live, wanted, "_judge")
        cubic, fresh = live._cubic, wanted._cubic
        for name in ("_beta", "_min", "_scale", "_smoothing"):
            setattr(cubic, name, getattr(fresh, name))


def _throttle(live: Throttle, wanted: Throttle) -> None:
    with live._lock:
        ledger = live._ledger
        ledger.settle(live._now())
        ledger._accepted = resliced(ledger._accepted, wanted.window, ledger._last)
        ledger._lost = resliced(ledger._lost, wanted.window, ledger._last)
        ledger._window_s = wanted.window
        ledger.hot = ledger._lost.total > 0
        _take_options(live, wanted, "_judge")


def _hedge(live: Hedge, wanted: Hedge) -> None:
    with live._lock:
        _take_options(live, wanted, "_judge", "_quantile")


_RULES: dict[type, Callable[[Any, Any], None]] = {
    AdaptiveLimit: _adaptive_limit,
    AdaptiveRate: _adaptive_rate,
    Breaker: _breaker,
    Budget: _budget,
    Bulkhead: _bulkhead,
    Hedge: _hedge,
    Limiter: _limiter,
    Pacer: _limiter,
    QuotaBudget: _quota_budget,
    RateBudget: _rate_budget,
    Throttle: _throttle,
    ThrottleBudget: _throttle_budget,
    WindowBudget: _window_budget,
}
