"""Adaptive throttling: refuse calls that the backend would refuse anyway.

`Ledger` is the rule: what was asked and what was accepted in the window, and the probability that
follows. `Throttle` adds a clock, a lock and the success path, which takes neither while nothing in
the window has failed.
"""

from __future__ import annotations

from .._classify.classifier import transient
from .._classify.on_clause import On, judge, unwrap_marker
from .._events import bus
from .._events.labels import label
from .._primitives.errors import AttemptTimeout, StormproofError, Throttled
from .._primitives.options import Seconds, count, flag, number, seconds, validate_clock
from .._runtime.call_template import Template
from .._runtime.clock import timer_of
from .._runtime.counters import Tally
from .._runtime.locks import guard
from .budget.rules import Slices
from .protocol import CallWrapper
from .stateful import Stateful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from .._runtime.clock import Clock
    from .protocol import Env, Fn


class Ledger:
    """Outcomes of the calls of the last ``window`` seconds: accepted, or not (failed or shed).

    A call counts when it ends, so that those in flight at a cold start do not count as lost.
    """

    __slots__ = ("_accepted", "_last", "_lost", "_skew", "_window_s", "accept", "hot", "tally")

    def __init__(self, window_s: float, now: float) -> None:
        #: Ticked for every accepted call, from any thread, without a lock.
        self.tally = Tally()
        self.accept = self.tally.tick
        self._begin(window_s, now)

    def _begin(self, window_s: float, now: float) -> None:
        self._window_s = window_s
        self._last = now
        self._skew = 0.0
        self._accepted = Slices(window_s, now)
        self._lost = Slices(window_s, now)
        #: True if any call in the window was lost; otherwise no call is refused.
        self.hot = False

    def clear(self, now: float) -> None:
        """Forget all that was counted."""
        self.tally.take()
        self._begin(self._window_s, now)

    def move(self, now: float) -> None:
        """Go on by another clock, which says ``now`` at this moment."""
        self._skew = self._last - now

    def settle(self, now: float) -> None:
        """Move the window to ``now``, and add the calls accepted since, spread evenly over that time."""
        fresh = float(self.tally.take())
        now = self._own_time(now)
        self._advance(self._accepted, self._lost, now, fresh)
        self._last = now
        self.hot = self._lost.total > 0

    def sums_at(self, now: float) -> tuple[float, float]:
        """Return `sums` as they would be if settled at ``now``; the counts stay as they are.

        A clock set back is noted, so that time passes even for a ledger that is only read.
        """
        now = self._own_time(now)
        accepted, lost = self._accepted.copy(), self._lost.copy()
        self._advance(accepted, lost, now, float(self.tally.peek()))
        return accepted.total + lost.total, accepted.total

    def _own_time(self, now: float) -> float:
        """Return ``now`` on a clock that never goes back: one set back continues from where it was."""
        if now + self._skew < self._last:
            self._skew = self._last - now
        return max(self._last, now + self._skew)

    def _advance(self, accepted: Slices, lost: Slices, now: float, fresh: float) -> None:
        elapsed = now - self._last
        accepted.roll(now)
        lost.roll(now)
        if fresh:
            if elapsed > self._window_s:
                fresh *= self._window_s / elapsed
                elapsed = self._window_s
            accepted.add(fresh, elapsed)

    def resize(self, window_s: float, now: float) -> None:
        """Change the window's length and keep its counts."""
        self.settle(now)
        self._accepted = self._accepted.resliced(window_s, self._last)
        self._lost = self._lost.resliced(window_s, self._last)
        self._window_s = window_s
        self.hot = self._lost.total > 0

    def lose(self) -> None:
        """One call failed, or was shed."""
        self._lost.add(1.0)
        self.hot = True

    def sums(self) -> tuple[float, float]:
        """(requests, accepts) of the window, as last settled."""
        accepts = self._accepted.total
        return accepts + self._lost.total, accepts


def rejection(requests: float, accepts: float, k: float) -> float:
    """The probability of refusing: max(0, (requests - k * accepts) / (requests + 1))."""
    return max(0.0, (requests - k * accepts) / (requests + 1))


class Throttle(CallWrapper, Stateful):
    """Refuse a call with probability max(0, (requests - ``k`` * accepts) / (requests + 1)).

    Both are counted over ``window`` seconds; requests include those refused here. A call is accepted
    unless it fails in a way that ``on`` matches; what is cancelled, or refused by another strategy
    inside, does not count at all. ``k`` = 2 lets twice as much through as the backend accepts; it is
    at least 1, since less would refuse healthy traffic. ``min_calls``: with fewer requests in the
    window nothing is refused (0: from the first failure on). ``max_rejection`` caps the probability,
    so that a share of the calls always finds out whether the backend is back (1: no cap). With ``observe``
    nothing is refused: `WouldRefuse` is emitted for what would have been, and its outcome does not count.
    """

    def __init__(
        self,
        k: float = 2.0,
        *,
        window: Seconds = 120,
        on: On = transient,
        min_calls: int = 0,
        max_rejection: float = 1.0,
        name: str | None = None,
        observe: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.k = number("Throttle", "k", k, least=1)
        self.window = seconds("Throttle", "window", window, above=0)
        self.on = on
        self.min_calls = count("Throttle", "min_calls", min_calls, least=0)
        self.max_rejection = number("Throttle", "max_rejection", max_rejection, above=0, most=1)
        self.name = label("Throttle", name)
        self.observe = flag("Throttle", "observe", observe)
        self._timer = timer_of(validate_clock("Throttle", clock))
        self._judge = judge(on, "Throttle", names_refusals=True)
        self._ledger = Ledger(self.window, self._now())
        self._lock = guard(self)

    def use_clock(self, clock: Clock) -> None:
        if self.clock is None:
            with self._lock:
                self._ledger.move(clock.now())
                self._timer = clock

    @property
    def rejection(self) -> float:
        """The probability with which the next call is refused. Reading it changes nothing."""
        with self._lock:
            return self._probability(*self._ledger.sums_at(self._now()))

    def _probability(self, requests: float, accepts: float) -> float:
        if requests < self.min_calls:
            return 0.0
        return min(self.max_rejection, rejection(requests, accepts, self.k))

    def admit(self, draw: Callable[[], float]) -> bool:
        """Raise `Throttled` if this call is one of those to be refused, as a decorated function does.

        Return True if it only observes and would have refused the call: its outcome does not count.
        """
        return self._ledger.hot and self._admit(draw)

    def accept(self) -> None:
        """Count a call that succeeded."""
        self._ledger.accept()

    def _admit(self, draw: Callable[[], float]) -> bool:
        """Count and raise `Throttled` if this call is one of those to be refused.

        Where this throttle only observes, return True for such a call: its outcome does not count.
        """
        with self._lock:
            self._ledger.settle(self._now())
            share = self._probability(*self._ledger.sums())
        # Drawn without the lock: the source of randomness may be the user's code.
        if share > 0 and draw() < share:
            with self._lock:
                self._ledger.lose()
            event = "WouldRefuse" if self.observe else "Refused"
            bus.publish(event, operation=self.name or "throttle", by="throttle")
            if self.observe:
                return True
            raise Throttled(
                f"{self.name or 'throttle'} refuses {share:.1%} of the calls: too many of them fail"
            )
        return False

    def settle(self, error: Exception) -> None:
        """Count a call that raised ``error``."""
        failure = unwrap_marker(error)[0] or error
        if self._judge(failure).retry:
            with self._lock:
                # Settled first: calls accepted before this failure count for the time before it.
                self._ledger.settle(self._now())
                self._ledger.lose()
        elif not isinstance(failure, StormproofError) or isinstance(failure, AttemptTimeout):
            self._ledger.accept()

    def reset(self) -> None:
        """Begin anew, with nothing counted. For tests."""
        with self._lock:
            self._ledger.clear(self._now())

    def retune(self, wanted: Self) -> bool:
        with self._lock:
            self._ledger.resize(wanted.window, self._now())
            self._take_options(wanted, "_judge")
        return True

    # As a strategy.

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        names = {
            "accept": self._ledger.accept,
            "admit": lambda: self._admit(env.draw),
            "call": call,
            "ended": self.settle,
            "ledger": self._ledger,
        }
        return _SPARED.build(like, is_async, names)

    # Looking at it.

    def describe(self) -> dict[str, Any]:
        """Return the options as plain data, with the counts and the present probability."""
        with self._lock:
            requests, accepts = self._ledger.sums_at(self._now())
        share = self._probability(requests, accepts)
        live = {"requests": requests, "accepts": accepts, "rejection": share}
        return {**super().describe(), **live}


#: While nothing in the window was lost: one look and one tick.
_SPARED = Template(
    "spared",
    """\
{async_}def spared({params}):
    if _sp_ledger.hot and _sp_admit():
        return {await_}_sp_call({args})
    try:
        _sp_result = {await_}_sp_call({args})
    except Exception as _sp_error:
        _sp_ended(_sp_error)
        raise
    _sp_accept()
    return _sp_result
""",
)
