"""The circuit breaker: stop calling what fails, and ask carefully whether it is back.

The rules are in `rules.circuit`; here are the options, the lock, and the success path of a closed
circuit, which takes neither the lock nor a ticket.
"""

from __future__ import annotations

import math

from ..._classify.on_clause import judge, unwrap_marker
from ..._context.attempts import attempt, running
from ..._events import bus, labels
from ..._events.key_names import of_key
from ..._primitives.errors import Cancelled, CircuitOpen, Permanent, RetryAfter
from ..._primitives.options import (
    Options,
    choice,
    flag,
    hook,
    label,
    number,
    seconds,
    shared_store,
    validate_clock,
)
from ..._primitives.options import count as whole
from ..._runtime import clock as _clock
from ..._runtime import randomness
from ..._runtime.call_template import Template
from ..._runtime.locks import guard
from ..timeout import Timeout
from .rules.circuit import Circuit, default_trip
from .ticket import Ticket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Protocol

    from ..._classify.on_clause import On
    from ..._primitives.options import Seconds
    from ..._runtime.clock import Clock
    from ..protocol import Env, Store
    from .rules.circuit import Bucket, Counts, Probe

    class FleetMember(Protocol):
        """The fleet's side of a breaker with a store."""

        def start(self) -> None: ...
        def kick(self) -> None: ...

    Trip = Callable[[Counts], bool]


class Live:
    """What changes while a breaker lives; its options stay."""

    __slots__ = ("bucket", "circuit", "last_failure", "manual", "observed", "running", "shut", "timer")

    def __init__(self, circuit: Circuit, timer: Any) -> None:
        self.circuit = circuit
        #: Where the success path counts; None sends every call through `Breaker.admit`.
        self.bucket: Bucket | None = None
        #: From when to when every call is refused without a lock; None sends them through it.
        self.shut: tuple[float, float] | None = None
        self.last_failure: BaseException | None = None
        #: Where the success path reads the time.
        self.timer: Any = timer
        #: The generation of which it was told that it would have opened.
        self.observed = -1
        #: "open", "closed" or "observe" when set by hand.
        self.manual: str | None = None
        #: Calls in flight in the order they began, kept only to find the slow ones among them.
        self.running: dict[Ticket, None] = {}


class Breaker(Options):
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

    _fields = tuple(
        "failure_ratio min_calls window open_for probes probe_timeout consecutive slow_call slow_ratio trip"
        " on exclude bucket name open_growth open_max ramp quorum count on_state_change observe".split()
    )
    _extras = ("clock", "store")
    __slots__ = (
        *_fields,
        *_extras,
        *("__weakref__", "_draw", "_exclude", "_fleet", "_judge", "_live", "_lock", "_trip"),
    )

    failure_ratio: float
    min_calls: int
    window: float | None
    open_for: float
    probes: int
    probe_timeout: float | None
    consecutive: int | None
    slow_call: float | None
    slow_ratio: float
    trip: Trip | None
    on: On
    exclude: Any
    bucket: float | None
    name: str | None
    open_growth: float
    open_max: float
    ramp: float
    clock: Clock | None
    store: Store | None
    quorum: int
    count: Literal["attempts", "calls"]
    on_state_change: Callable[[str, str, str], object] | None
    observe: bool
    _fleet: FleetMember | None
    _live: Live
    _lock: Any
    _trip: Trip
    _judge: Callable[[BaseException], Any]
    _exclude: Callable[[BaseException], Any] | None
    _draw: Callable[[], float]

    def __init__(
        self,
        failure_ratio: float = 0.5,
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
        *,
        clock: Clock | None = None,
        rng: Any = None,
        store: Store | None = None,
    ) -> None:
        def positive(field: str, value: Seconds | None) -> float | None:
            return None if value is None else seconds("Breaker", field, value, above=0)

        self._set(
            failure_ratio=number("Breaker", "failure_ratio", failure_ratio, above=0, most=1),
            min_calls=whole("Breaker", "min_calls", min_calls),
            window=positive("window", window),
            open_for=seconds("Breaker", "open_for", open_for, above=0),
            probes=whole("Breaker", "probes", probes),
            probe_timeout=positive("probe_timeout", probe_timeout),
            consecutive=None if consecutive is None else whole("Breaker", "consecutive", consecutive),
            slow_call=positive("slow_call", slow_call),
            slow_ratio=number("Breaker", "slow_ratio", slow_ratio, above=0, most=1),
            trip=hook("Breaker", "trip", trip),
            on=on,
            exclude=exclude,
            bucket=positive("bucket", bucket),
            name=label("Breaker", name),
            open_growth=number("Breaker", "open_growth", open_growth, least=1),
            open_max=seconds("Breaker", "open_max", open_max, above=0),
            ramp=seconds("Breaker", "ramp", ramp),
            clock=validate_clock("Breaker", clock),
            store=shared_store("Breaker", store),
            quorum=whole("Breaker", "quorum", quorum),
            count=choice("Breaker", "count", count, ("attempts", "calls")),
            on_state_change=hook("Breaker", "on_state_change", on_state_change),
            observe=flag("Breaker", "observe", observe),
            _fleet=None,
        )
        if self.bucket is not None and (self.window is None or self.bucket > self.window):
            raise ValueError(f"Breaker: bucket must be <= window ({self.window}), got {bucket!r}")
        self._set(
            _judge=judge(on, "Breaker", names_refusals=True),
            _exclude=None if exclude == () else judge(exclude, "Breaker", names_refusals=True),
            _trip=trip
            or default_trip(
                self.failure_ratio,
                self.min_calls,
                self.consecutive,
                None if slow_call is None else self.slow_ratio,
            ),
            _draw=randomness.source(rng, "Breaker"),
            _live=Live(self._circuit(), _clock.AMBIENT if clock is None else clock),
        )
        guard(self)
        self._publish_bucket()
        if store is not None:
            self._join(store)

    def _join(self, store: Store) -> None:
        from ..._primitives.options import shared_name

        for field in ("window", "probe_timeout"):
            if getattr(self, field) is None:
                # A fleet must not remember for ever, nor wait for ever for a process that is gone.
                raise ValueError(
                    f"Breaker: {field} must be a number of seconds when there is a store, got None"
                )
        fleet: FleetMember = store.join("breaker", self, shared_name("Breaker", self.name))
        self._set(_fleet=fleet)
        fleet.start()

    def fields(self) -> dict[str, Any]:
        shared = {} if self.store is None else {"store": self.store}
        return {**super().fields(), **shared}

    def _circuit(self) -> Circuit:
        def open_for(reopenings: int) -> float:
            try:
                grown = self.open_for * self.open_growth**reopenings
            except OverflowError:
                # Beyond what a float holds, as 2.0 ** 1100 is: past any open_max.
                grown = self.open_max
            return max(self.open_for, min(grown, self.open_max))

        if self.store is None:
            kind = Circuit
        else:
            from .rules.fleet_circuit import FleetCircuit as kind  # noqa: N813 - one of two kinds
        return kind(self._now(), self.window, self.bucket, open_for, self.probes, self.probe_timeout)

    def _now(self) -> float:
        return _clock.AMBIENT.now() if self.clock is None else self.clock.now()

    def use_clock(self, clock: Clock) -> None:
        """Use ``clock`` from now on, unless this breaker was given one of its own."""
        if self.clock is None:
            with self._lock:
                self._live.circuit.move(clock.now() - self._now())
                self._set(clock=clock)
                self._live.timer = clock
                self._publish_bucket()

    def retune(self, wanted: Any) -> bool:
        with self._lock:
            now = self._now()
            circuit = self._live.circuit
            circuit.roll(now)
            self._take_options(wanted, "_exclude", "_judge", "_trip")
            circuit.retune(now, self.window, self.bucket, self.probes, self.probe_timeout)
            self._publish_bucket()
        return True

    # Admission and settling: the lock is held for these few lines only, never across user code.

    def admit(self) -> Ticket:
        """A ticket for one call, to be settled with success(), failure() or cancel(); or `CircuitOpen`."""
        now = self._now()
        live = self._live
        shut = live.shut
        if shut is not None and shut[0] <= now <= shut[1]:
            if not self.observe:
                raise self._refusal(shut[1] - now)
            return self._pretend()
        with self._lock:
            before = live.circuit.state
            slow = self._count_slow(live, now)
            ticket = self._place(live, now)
            wait = live.circuit.wait_for(now)
            after, generation = live.circuit.state, live.circuit.generation
            counts = self._counts_if(slow)
            self._publish_bucket()
        self._emit_change(before, after)
        self._judge_counts(counts, generation, now)
        if ticket is None:
            if self._fleet is not None and after == "half_open":
                self._fleet.kick()
            if not self.observe:
                raise self._refusal(None if live.manual == "open" else wait, after)
            return self._pretend()
        return ticket

    def open_bucket(self, now: float) -> Bucket | None:
        """Return where a closed breaker counts a call that begins at ``now``; None: it takes a ticket."""
        bucket = self._live.bucket
        return None if bucket is None or now > bucket.end else bucket

    def _place(self, live: Live, now: float) -> Ticket | None:
        if live.manual == "open":
            return None
        bucket = live.circuit.roll(now)
        probe: Probe | None = None
        if bucket is not None:
            share = (now - live.circuit.closed_at) / self.ramp if self.ramp else 1.0
            if share < 1 and live.manual is None and self._draw() >= share:
                return None
            bucket.started()
        else:
            # Never by hand: what is decided by hand closes the circuit first, and nothing opens it then.
            probe = live.circuit.admit_probe(now) if live.circuit.state == "half_open" else None
            if probe is None:
                return None
        ticket = Ticket(self, bucket, probe, now, self._is_repeated())
        if self.slow_call is not None and bucket is not None:
            live.running[ticket] = None
        return ticket

    def _is_repeated(self) -> bool:
        """Return True if the call at hand is a later attempt of one that has been counted."""
        if self.count == "attempts" or running.get() is None:
            return False
        current = attempt()
        return current is not None and current.number > 1

    def _count_slow(self, live: Live, now: float) -> bool:
        """Count the calls in flight that have become slow: True if there were any."""
        found = False
        while live.running:
            ticket = next(iter(live.running))
            if now - ticket.began < (self.slow_call or math.inf):
                break
            del live.running[ticket]
            assert ticket.bucket is not None
            ticket.slow = True
            found = live.circuit.slow(ticket.bucket, now) or found
        return found

    def _counts_if(self, asked: bool) -> Counts | None:
        """What to judge the circuit by, if it is to be judged.

        The built-in rule is asked here, under the lock, and makes no copy unless it says that it is to open.
        """
        window = self._live.circuit.window
        if not asked or window is None:
            return None
        if self.trip is None:
            if self.slow_call is not None:
                # It was a slow call that asked, after which others have succeeded.
                window.take_in()
            if not self._trip(window.sums):
                return None
        return window.counts()

    def settle(self, ticket: Ticket, outcome: str, error: BaseException | None) -> None:
        now = self._now()
        with self._lock:
            live = self._live
            circuit = live.circuit
            before = circuit.state
            asked = self._count_slow(live, now)
            live.running.pop(ticket, None)
            if ticket.probe is not None:
                counted = circuit.settle_probe(ticket.probe, outcome, now)
            else:
                assert ticket.bucket is not None
                counted = circuit.settle(ticket.bucket, outcome, ticket.slow, now)
                asked = counted or asked
            if outcome == "failure" and counted:
                live.last_failure = error
            counts = self._counts_if(asked)
            after, generation = circuit.state, circuit.generation
            self._publish_bucket()
        self._emit_change(before, after)
        self._judge_counts(counts, generation, now)
        if self._fleet is not None and (outcome == "failure" or ticket.probe is not None):
            self._fleet.kick()

    def _ended(self, bucket: Bucket, error: BaseException) -> None:
        """A call without a ticket has raised ``error``: settle it as its ticket would."""
        outcome, live = self.outcome_of(error), self._live
        if outcome == "success":
            bucket.succeeded()
            return
        now = live.timer.now()
        with self._lock:
            circuit = live.circuit
            before = circuit.state
            counted = circuit.settle(bucket, outcome, False, now)
            if counted:
                live.last_failure = error
            counts = self._counts_if(counted)
            after, generation = circuit.state, circuit.generation
            if circuit.current is not live.bucket:
                self._publish_bucket()
        self._emit_change(before, after)
        self._judge_counts(counts, generation, now)
        if self._fleet is not None and outcome == "failure":
            self._fleet.kick()

    def _judge_counts(self, counts: Counts | None, generation: int, now: float) -> None:
        """Open if the rule says so, and nothing has changed since the counts were made."""
        if counts is None or self._live.manual == "closed" or not self._trip(counts):
            return
        if self._live.manual == "observe":
            if self._live.observed != generation:
                self._live.observed = generation
                self._emit_change("closed", "open", observed=True)
            return
        with self._lock:
            opened = self._live.circuit.trip(generation, now)
            self._publish_bucket()
        if opened:
            self._emit_change("closed", "open")

    def _publish_bucket(self) -> None:
        """Let the success path count by itself, where nothing else is to be done for a call."""
        live = self._live
        plain = self.slow_call is None and live.manual in (None, "observe")
        ramping = self.ramp and self._now() - live.circuit.closed_at < self.ramp
        live.bucket = live.circuit.current if plain and not ramping and self.count == "attempts" else None
        open_alone = live.circuit.state == "open" and plain and self._fleet is None
        live.shut = (live.circuit.until - live.circuit.open_s, live.circuit.until) if open_alone else None

    def _emit_change(self, before: str, after: str, observed: bool = False) -> None:
        if before != after:
            bus.publish(
                "BreakerChanged",
                operation=self.name or "breaker",
                before=before,
                after=after,
                observed=observed,
                error=labels.error_name(self._live.last_failure),
            )
            if self.on_state_change is not None and not observed:
                try:
                    self.on_state_change(self.name or "breaker", before, after)
                except Exception as fault:
                    bus.report(fault)

    def shut_for(self) -> float:
        """Return the seconds for which every call is certain to be refused from now on; 0.0 if none is."""
        live = self._live
        if live.shut is None or self.observe:
            return math.inf if live.manual == "open" and not self.observe else 0.0
        now = self._now()
        return live.shut[1] - now if live.shut[0] <= now <= live.shut[1] else 0.0

    def _refusal(self, retry_after: float | None, state: str = "open") -> CircuitOpen:
        if bus.watchers:
            bus.publish("Refused", operation=self.name or "breaker", by="breaker")
        last = self._live.last_failure
        if retry_after is None:
            when, state = "held open by hand", "open"
        else:
            when = f"try again in {retry_after:.3g} s"
        name = "breaker" if self.name is None else labels.clean(self.name)
        how = _REFUSING.get(state, "is open")
        refusal = CircuitOpen(f"{name} {how}: {when}", retry_after, last, state)
        refusal.__cause__ = last
        return refusal

    def _pretend(self) -> Ticket:
        """Return a ticket that counts for nothing: this breaker observes, and would have refused the call."""
        bus.publish("WouldRefuse", operation=self.name or "breaker", by="breaker")
        return Ticket(None, None, None, 0.0)

    def outcome_of(self, error: BaseException) -> str:
        """How ``error`` counts: "failure", "excluded", or "success" when ``on`` does not match it."""
        asked: BaseException | None = error
        if isinstance(error, (Permanent, RetryAfter)):
            asked = unwrap_marker(error)[0] or error
        if not isinstance(asked, Exception) or isinstance(asked, Cancelled):
            return "excluded"
        if self._exclude is not None and self._exclude(asked).retry:
            return "excluded"
        return "failure" if self._judge(asked).retry else "success"

    # As a strategy.

    def sync(self, call: Callable[..., Any], env: Env, like: Any) -> Callable[..., Any]:
        return self._compile(call, like, False)

    def aio(self, call: Callable[..., Any], env: Env, like: Any) -> Callable[..., Any]:
        return self._compile(call, like, True)

    def _compile(self, call: Callable[..., Any], like: Any, is_async: bool) -> Callable[..., Any]:
        names = {"admit": self.admit, "call": call, "ended": self._ended, "live": self._live}
        return _GUARDED.build(like, is_async, names)

    def warnings_for(self, inside: list[Any]) -> list[str]:
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
        with self._lock:
            before = self._live.circuit.state
            self._live.circuit.roll(self._now())
            after = self._live.circuit.state
            self._publish_bucket()
        self._emit_change(before, after)
        return after

    @property
    def is_open(self) -> bool:
        """True from when it opens until a call finds its time over. Looking changes nothing."""
        return self._live.circuit.state == "open"

    @property
    def counts(self) -> Counts:
        """What was counted in this state and window."""
        with self._lock:
            self._live.circuit.roll(self._now())
            self._publish_bucket()
            return self._live.circuit.counts()

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
        """Count and tell when it would have opened, but never refuse, until `reset`."""
        self._by_hand("observe")

    def reset(self) -> None:
        """Back to its own judgement: closed, with everything forgotten."""
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

    def fresh(self) -> Breaker:
        """A new breaker with these options, closed; with a store, the one of the key that it is made for."""
        return self.replace() if self.store is None else self.replace(name=of_key(self.name))

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with state and counts of this moment."""
        return {**super().describe(), "state": self.state, "counts": self.counts.as_dict()}

    def __eq__(self, other: object) -> bool:
        # Two breakers with the same options are two breakers: each has its own state.
        return self is other

    def __hash__(self) -> int:
        return id(self)


#: How a breaker that refuses says why; closed is one that lets a growing share of the calls through.
_REFUSING = {
    "half_open": "is probing, and every place is taken",
    "closed": "has just closed and admits a share",
}

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
