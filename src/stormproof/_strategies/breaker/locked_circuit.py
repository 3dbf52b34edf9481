"""The circuit of a breaker under its lock: admission, settling, and changes of state.

The lock is held for a few lines at a time, never across user code.
"""

from __future__ import annotations

import math

from ..._classify.on_clause import unwrap_marker
from ..._context.attempts import attempt, running
from ..._events import bus, labels
from ..._primitives.errors import Cancelled, CircuitOpen, Permanent, RetryAfter
from ..stateful import Stateful
from .ticket import Ticket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Protocol, TypeVar

    from .rules.circuit import Circuit, Counts, Probe, WindowBucket

    T = TypeVar("T")
    Trip = Callable[[Counts], bool]

    class BreakerMember(Protocol):
        """The fleet's side of a breaker with a store."""

        def start(self) -> None: ...
        def kick(self) -> None: ...


class BreakerState:
    """Mutable state of a breaker."""

    __slots__ = ("bucket", "circuit", "last_failure", "manual", "observed", "running", "shut", "timer")

    def __init__(self, circuit: Circuit, timer: object) -> None:
        self.circuit = circuit
        #: Where the success path counts; None sends every call through `Breaker.admit`.
        self.bucket: WindowBucket | None = None
        #: From when to when every call is refused without a lock; None sends them through it.
        self.shut: tuple[float, float] | None = None
        self.last_failure: BaseException | None = None
        #: Where the success path reads the time.
        self.timer: Any = timer
        #: The last generation for which "would have opened" was emitted.
        self.observed = -1
        #: "open", "closed" or "observe" when set by hand.
        self.manual: str | None = None
        #: Calls in flight in the order they began, kept only to find the slow ones among them.
        self.running: dict[Ticket, None] = {}


class LockedCircuit(Stateful):
    """A circuit, its lock, and the options that admission and settling read."""

    slow_call: float | None
    trip: Trip | None
    ramp: float
    count: Literal["attempts", "calls"]
    on_state_change: Callable[[str, str, str], object] | None
    observe: bool
    _fleet: BreakerMember | None
    _live: BreakerState
    _trip: Trip
    _judge: Callable[[BaseException], Any]
    _exclude: Callable[[BaseException], Any] | None
    _draw: Callable[[], float]

    @property
    def is_manual(self) -> bool:
        """True if the state was set by hand."""
        return self._live.manual is not None

    def change(self, work: Callable[[Any, float], T], now: float | None = None) -> T:
        """Return ``work(circuit, now)``, called under the lock; publish and emit the change of state."""
        with self._lock:
            circuit = self._live.circuit
            before = circuit.state
            result = work(circuit, self._now() if now is None else now)
            after = circuit.state
            self._publish_bucket()
        self._emit_change(before, after)
        return result

    # `admit`, `settle` and `_ended` are on the path of calls: they write `change` out, without its two calls.

    def admit(self) -> Ticket:
        """Return a ticket for one call, to be settled by its methods, or raise `CircuitOpen`."""
        now = self._now()
        live = self._live
        shut = live.shut
        if shut is not None and shut[0] <= now <= shut[1]:
            if not self.observe:
                raise self._refusal(shut[1] - now)
            return self._pretend()
        with self._lock:
            circuit = live.circuit
            before = circuit.state
            slow = self._count_slow(live, now)
            ticket = self._place(live, now)
            wait = circuit.wait_for(now)
            state, generation = circuit.state, circuit.generation
            counts = self._counts_if(slow)
            self._publish_bucket()
        self._emit_change(before, state)
        self._judge_counts(counts, generation, now)
        if ticket is None:
            if self._fleet is not None and state == "half_open":
                self._fleet.kick()
            if not self.observe:
                raise self._refusal(None if live.manual == "open" else wait, state)
            return self._pretend()
        return ticket

    def open_bucket(self, now: float) -> WindowBucket | None:
        """Return where a closed breaker counts a call that begins at ``now``; None: it takes a ticket."""
        bucket = self._live.bucket
        return None if bucket is None or now > bucket.end else bucket

    def _place(self, live: BreakerState, now: float) -> Ticket | None:
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
            # Never set by hand: that closes the circuit first, and then nothing opens it.
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

    def _count_slow(self, live: BreakerState, now: float) -> bool:
        """Count the calls in flight that have become slow: True if there were any."""
        any_slow = False
        while live.running:
            ticket = next(iter(live.running))
            if now - ticket.began < (self.slow_call or math.inf):
                break
            del live.running[ticket]
            assert ticket.bucket is not None
            ticket.slow = True
            any_slow = live.circuit.slow(ticket.bucket, now) or any_slow
        return any_slow

    def _counts_if(self, due: bool) -> Counts | None:
        """Return the counts to judge the circuit by, or None if it need not be judged.

        The built-in rule runs here, under the lock, and copies the counts only if the circuit is to open.
        """
        window = self._live.circuit.window
        if not due or window is None:
            return None
        if self.trip is None:
            if self.slow_call is not None:
                # A slow call is the reason, and others have succeeded after it.
                window.take_in()
            if not self._trip(window.sums):
                return None
        return window.counts()

    def settle(self, ticket: Ticket, outcome: str, error: BaseException | None) -> None:
        """Count how the call of ``ticket`` ended."""
        now, live = self._now(), self._live
        with self._lock:
            circuit = live.circuit
            before = circuit.state
            due = self._count_slow(live, now)
            live.running.pop(ticket, None)
            if ticket.probe is not None:
                changed = circuit.settle_probe(ticket.probe, outcome, now)
            else:
                assert ticket.bucket is not None
                changed = circuit.settle(ticket.bucket, outcome, ticket.slow, now)
                due = changed or due
            if outcome == "failure" and changed:
                live.last_failure = error
            counts = self._counts_if(due)
            after, generation = circuit.state, circuit.generation
            self._publish_bucket()
        self._emit_change(before, after)
        self._judge_counts(counts, generation, now)
        if self._fleet is not None and (outcome == "failure" or ticket.probe is not None):
            self._fleet.kick()

    def _ended(self, bucket: WindowBucket, error: BaseException) -> None:
        """Settle a call without a ticket that raised ``error``, as its ticket would."""
        outcome, live = self.outcome_of(error), self._live
        if outcome == "success":
            bucket.succeeded()
            return
        now = live.timer.now()
        # Few failures of a closed circuit change its bucket.
        with self._lock:
            circuit = live.circuit
            before = circuit.state
            changed = circuit.settle(bucket, outcome, False, now)
            if changed:
                live.last_failure = error
            counts = self._counts_if(changed)
            after, generation = circuit.state, circuit.generation
            if circuit.current is not live.bucket:
                self._publish_bucket()
        if before != after:
            self._emit_change(before, after)
        if counts is not None:
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
        self.change(lambda circuit, now: circuit.trip(generation, now), now)

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

    def shut_for(self) -> float | None:
        """Return the seconds for which every call is certain to be refused from now on; None if it is not."""
        live = self._live
        if live.shut is None or self.observe:
            return math.inf if live.manual == "open" and not self.observe else None
        now = self._now()
        return live.shut[1] - now if live.shut[0] <= now <= live.shut[1] else None

    def _refusal(self, retry_after: float | None, state: str = "open") -> CircuitOpen:
        if bus.watchers:
            bus.publish("Refused", operation=self.name or "breaker", by="breaker")
        return self.refusal(retry_after, state)

    def refusal(self, retry_after: float | None, state: str = "open") -> CircuitOpen:
        """Return the error of a call that is refused in ``state``; without ``retry_after``, by hand."""
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
        """Return how ``error`` counts: "failure", "excluded", or "success" when ``on`` does not match it."""
        failure: BaseException | None = error
        if isinstance(error, (Permanent, RetryAfter)):
            failure = unwrap_marker(error)[0] or error
        if not isinstance(failure, Exception) or isinstance(failure, Cancelled):
            return "excluded"
        if self._exclude is not None and self._exclude(failure).retry:
            return "excluded"
        return "failure" if self._judge(failure).retry else "success"


#: Text of a refusal, by state; "closed" is a breaker that lets a growing share of the calls through.
_REFUSING = {
    "half_open": "is probing, and every place is taken",
    "closed": "has just closed and admits a share",
}
