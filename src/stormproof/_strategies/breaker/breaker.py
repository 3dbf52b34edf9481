"""Circuit breaker: stop calls that fail, and probe carefully whether they succeed again.

The rules are in `rules.circuit`, admission and settling in `locked_circuit`; here are the options, the
controls, and the success path of a closed circuit, which takes neither the lock nor a ticket.
"""

from __future__ import annotations

from ..._classify.on_clause import On, judge
from ..._primitives import options
from ..._primitives.options import Seconds, number, seconds, sync_hook
from ..._primitives.options import count as whole
from ..._runtime import randomness
from ..._runtime.call_template import Template
from ..._runtime.clock import timer_of
from ..._runtime.locks import guard
from ..protocol import CallWrapper
from ..timeout import Timeout
from .locked_circuit import BreakerState, LockedCircuit
from .rules.circuit import Circuit, Counts, default_trip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Self

    from ..._runtime.clock import Clock
    from ..._runtime.randomness import Rng
    from ..protocol import Env, Fn, Store
    from .locked_circuit import BreakerMember, Trip


class Breaker(CallWrapper, LockedCircuit):
    """Closed -> open when, in ``window`` seconds, at least ``min_calls`` calls ended and
    ``failure_ratio`` of them failed; or ``consecutive`` failed in a row; or ``slow_ratio`` took longer
    than ``slow_call`` seconds (calls still running count); or ``trip(counts)`` says so, which replaces
    these rules. Open for ``open_for`` seconds, times ``open_growth`` for each reopening, at most
    ``open_max``. Then half-open: ``probes`` calls are let through, each with its place leased for
    ``probe_timeout`` seconds (``None``: for ever); that many successes close it, a failure opens it.
    For ``ramp`` seconds after closing, a growing share of the calls is admitted.

    Every ``Exception`` counts as a failure unless ``on`` says otherwise; what ``exclude`` matches,
    and what is cancelled, does not count at all. ``window=None`` never forgets. ``bucket`` is the
    window's granularity; ``bucket=window`` makes it one fixed window. Outside `Retry` it counts
    calls, inside it counts attempts; ``count="calls"`` counts only the first attempt of each call there, too.
    ``on_state_change(name, old, new)`` is called after each change, with no lock held; what it raises goes to
    `sys.unraisablehook`. With ``observe`` it refuses nothing: it emits `WouldRefuse` for what it would have
    refused, and does not count how that ends.

    With a ``store`` it is also the breaker of all processes that use one of the same ``name``: calls
    and failures are added up, and it opens for all when they say so and at least ``quorum`` processes
    saw failures (all of them, where there are fewer), or that many have opened on their own account. Then
    ``probes`` are leased to single processes. What one process alone finds wanting it still refuses alone.
    """

    def __init__(
        self,
        failure_ratio: float = 0.5,
        *,
        min_calls: int = 20,
        window: Seconds | None = 60,
        open_for: Seconds = 30,
        probes: int = 1,
        probe_timeout: Seconds | None = 30,
        consecutive: int | None = None,
        slow_call: Seconds | None = None,
        slow_ratio: float = 1.0,
        trip: Trip | None = None,
        on: On = Exception,
        exclude: On | tuple[()] = (),
        bucket: Seconds | None = None,
        name: str | None = None,
        open_growth: float = 1.0,
        open_max: Seconds = 300,
        ramp: Seconds = 0,
        quorum: int = 2,
        count: Literal["attempts", "calls"] = "attempts",
        on_state_change: Callable[[str, str, str], object] | None = None,
        observe: bool = False,
        clock: Clock | None = None,
        rng: Rng | None = None,
        store: Store | None = None,
    ) -> None:
        def positive(field: str, value: Seconds | None) -> float | None:
            return None if value is None else seconds("Breaker", field, value, above=0)

        self.failure_ratio = number("Breaker", "failure_ratio", failure_ratio, above=0, most=1)
        self.min_calls = whole("Breaker", "min_calls", min_calls)
        self.window: float | None = positive("window", window)
        self.open_for = seconds("Breaker", "open_for", open_for, above=0)
        self.probes = whole("Breaker", "probes", probes)
        self.probe_timeout: float | None = positive("probe_timeout", probe_timeout)
        self.consecutive = None if consecutive is None else whole("Breaker", "consecutive", consecutive)
        self.slow_call = positive("slow_call", slow_call)
        self.slow_ratio = number("Breaker", "slow_ratio", slow_ratio, above=0, most=1)
        self.trip = sync_hook("Breaker", "trip", trip)
        self.on = on
        self.exclude = exclude
        self.bucket: float | None = positive("bucket", bucket)
        self.name = options.label("Breaker", name)
        self.open_growth = number("Breaker", "open_growth", open_growth, least=1)
        self.open_max = seconds("Breaker", "open_max", open_max, above=0)
        self.ramp = seconds("Breaker", "ramp", ramp)
        self._timer = timer_of(options.validate_clock("Breaker", clock))
        self.store = options.shared_store("Breaker", store)
        self.quorum = whole("Breaker", "quorum", quorum)
        self.count = options.choice("Breaker", "count", count, ("attempts", "calls"))
        self.on_state_change = sync_hook("Breaker", "on_state_change", on_state_change)
        self.observe = options.flag("Breaker", "observe", observe)
        self._fleet = None
        if self.bucket is not None and (self.window is None or self.bucket > self.window):
            raise ValueError(f"Breaker: bucket must be <= window ({self.window}), got {bucket!r}")
        self._judge = judge(on, "Breaker", names_refusals=True)
        self._exclude = (
            None if exclude == () else judge(exclude, "Breaker", names_refusals=True, field="exclude")
        )
        self._trip = trip or default_trip(
            self.failure_ratio,
            self.min_calls,
            self.consecutive,
            None if slow_call is None else self.slow_ratio,
        )
        self._draw = randomness.source(rng, "Breaker")
        self._live = BreakerState(self._circuit(), self._timer)
        self._lock = guard(self)
        self._publish_bucket()
        if store is not None:
            self._join(store)

    def _join(self, store: Store) -> None:
        for field in ("window", "probe_timeout"):
            if getattr(self, field) is None:
                # State in a store must expire: a fleet must not wait for ever for a process that has ended.
                raise ValueError(
                    f"Breaker: {field} must be a number of seconds when there is a store, got None"
                )
        fleet: BreakerMember = store.join("breaker", self, options.shared_name("Breaker", self.name))
        self._fleet = fleet
        fleet.start()

    def _circuit(self) -> Circuit:
        def open_for(reopenings: int) -> float:
            try:
                duration = self.open_for * self.open_growth**reopenings
            except OverflowError:
                # Too large for a float, as 2.0 ** 1100 is: longer than any open_max.
                duration = self.open_max
            return max(self.open_for, min(duration, self.open_max))

        kind: type[Circuit] = Circuit
        if self.store is not None:
            from .rules.fleet_circuit import FleetCircuit

            kind = FleetCircuit
        return kind(self._now(), self.window, self.bucket, open_for, self.probes, self.probe_timeout)

    def use_clock(self, clock: Clock) -> None:
        if self.clock is None:

            def move(circuit: Circuit, now: float) -> None:
                circuit.move(clock.now() - now)
                self._timer = self._live.timer = clock

            self.change(move)

    def retune(self, wanted: Self) -> bool:
        def take_options(circuit: Circuit, now: float) -> None:
            circuit.roll(now)
            self._take_options(wanted, "_exclude", "_judge", "_trip")
            circuit.retune(now, self.window, self.bucket, self.probes, self.probe_timeout)

        self.change(take_options)
        return True

    # As a strategy.

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        names = {"admit": self.admit, "call": call, "ended": self._ended, "live": self._live}
        return _GUARDED.build(like, is_async, names)

    def warnings_for(self, inside: list[object]) -> list[str]:
        """A warning for each `Timeout` inside that is as long as the window."""
        return [
            f"Breaker(window={self.window:g}) does not count a call that the Timeout({timeout.seconds:g}) "
            "inside it ends: it counts at the time it began, which is out of the window by then"
            for timeout in inside
            if isinstance(timeout, Timeout) and self.window is not None and timeout.seconds >= self.window
        ]

    # Looking at it, and deciding by hand.

    @property
    def state(self) -> str:
        """ "closed", "open" or "half_open", as of now."""
        if self._live.manual in ("open", "closed"):
            return str(self._live.manual)

        def roll(circuit: Circuit, now: float) -> str:
            circuit.roll(now)
            return circuit.state

        return self.change(roll)

    @property
    def is_open(self) -> bool:
        """True from when it opens until the first call after `open_for`. Reading it changes nothing."""
        return self._live.circuit.state == "open"

    @property
    def counts(self) -> Counts:
        """Counters of this state and window. A fixed window that is over begins anew with a look, too."""

        def roll(circuit: Circuit, now: float) -> Counts:
            circuit.roll(now)
            return circuit.counts()

        return self.change(roll)

    @property
    def last_failure(self) -> BaseException | None:
        """The failure counted last."""
        return self._live.last_failure

    def force_open(self) -> None:
        """Refuse every call until `reset`."""
        self._by_hand("open")

    def force_closed(self) -> None:
        """Admit every call until `reset`, whatever fails."""
        self._by_hand("closed")

    def observe_only(self) -> None:
        """Count and emit when it would have opened, but never refuse, until `reset`."""
        self._by_hand("observe")

    def reset(self) -> None:
        """Return to the rules: closed, with all counters at zero."""
        self._by_hand(None)

    def _by_hand(self, manual: str | None) -> None:
        before = self.state
        with self._lock:
            live = self._live
            live.manual = manual
            live.circuit.close(self._now())
            live.running.clear()
            live.last_failure = None
            self._publish_bucket()
        self._emit_change(before, self.state)

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with state and counts of this moment."""
        return {**super().describe(), "state": self.state, "counts": self.counts.as_dict()}


#: While closed, and strictly within the current bucket: two ticks, one look at the clock, no lock.
_GUARDED = Template(
    "guarded",
    """\
{async_}def guarded({params}):
    _sp_bucket = _sp_live.bucket
    if _sp_bucket is None or _sp_live.timer.now() > _sp_bucket.end:
        with _sp_admit():
            return {await_}_sp_call({args})
    _sp_bucket.started()
    try:
        _sp_result = {await_}_sp_call({args})
    except BaseException as _sp_error:
        _sp_ended(_sp_bucket, _sp_error)
        raise
    _sp_bucket.succeeded()
    return _sp_result
""",
)
