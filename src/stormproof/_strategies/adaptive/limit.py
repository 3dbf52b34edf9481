"""The adaptive limit: how many calls at once, learnt from how they fare. The rules are in `rules.limits`."""

from __future__ import annotations

from ..._classify.classifier import transient
from ..._classify.on_clause import On, judge, unwrap_marker
from ..._events import bus
from ..._events.labels import label
from ..._primitives.errors import Throttled
from ..._primitives.options import Seconds, choice, count, number, seconds, validate_clock
from ..._runtime import randomness
from ..._runtime.call_template import Template
from ..._runtime.clock import current, timer_of
from ..._runtime.locks import guard
from ..protocol import CallWrapper
from ..stateful import Stateful
from .rules.limits import Aimd, Gradient2, Limit, Vegas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, Self

    from ..._runtime.clock import Clock
    from ..._runtime.randomness import Rng
    from ..protocol import Env, Fn

#: More calls at once than this no process has.
MOST_PLACES = 1_000_000

#: The rule of each kind, and its options besides those that all have.
_KINDS: dict[str, tuple[type[Limit], tuple[str, ...]]] = {
    "aimd": (Aimd, ("decrease", "timeout")),
    "vegas": (Vegas, ("smoothing", "probe")),
    "gradient2": (Gradient2, ("smoothing", "tolerance", "long_window", "queue")),
}


class AdaptiveLimit(CallWrapper, Stateful):
    """As many calls at once as the backend copes with; the rest are refused with `Throttled`.

    ``kind`` is how it learns: "aimd" from drops alone, "vegas" from the shortest latency seen,
    "gradient2" from the average one; drops count in all three. It begins at ``initial`` and stays
    within [``min``, ``max``]. A failure that ``on`` matches is a drop; any other failure, and what is
    cancelled, teaches nothing. The other options belong to one kind or two (`rules.limits` has the
    formulas) and ``None`` is that kind's own: ``decrease`` 0.9 and ``timeout`` (a longer call is a
    drop; None: no call is) for aimd; ``smoothing`` 1.0 and ``probe`` 30 for vegas; ``smoothing`` 0.2,
    ``tolerance`` 1.5, ``long_window`` 600 and ``queue`` 4 for gradient2.
    """

    def __init__(
        self,
        kind: Literal["aimd", "vegas", "gradient2"] = "gradient2",
        *,
        initial: int = 20,
        min: int = 1,
        max: int = 200,
        on: On = transient,
        decrease: float | None = None,
        timeout: Seconds | None = None,
        smoothing: float | None = None,
        probe: int | None = None,
        tolerance: float | None = None,
        long_window: int | None = None,
        queue: int | None = None,
        name: str | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        owner = "AdaptiveLimit"
        self.kind = choice(owner, "kind", kind, tuple(_KINDS))
        self.initial = count(owner, "initial", initial, most=MOST_PLACES)
        self.min = count(owner, "min", min, most=MOST_PLACES)
        self.max = count(owner, "max", max, most=MOST_PLACES)
        self.on = on
        self.decrease = None if decrease is None else number(owner, "decrease", decrease, least=0.5, below=1)
        self.timeout = None if timeout is None else seconds(owner, "timeout", timeout, above=0)
        self.smoothing = None if smoothing is None else number(owner, "smoothing", smoothing, above=0, most=1)
        self.probe = None if probe is None else count(owner, "probe", probe, most=MOST_PLACES)
        self.tolerance = None if tolerance is None else number(owner, "tolerance", tolerance, least=1)
        self.long_window = None if long_window is None else count(owner, "long_window", long_window)
        self.queue = None if queue is None else count(owner, "queue", queue, least=0)
        self.name = label(owner, name)
        self._timer = timer_of(validate_clock(owner, clock))
        self.rng = rng
        self._judge = judge(on, owner, names_refusals=True)
        if not self.min <= self.initial <= self.max:
            raise ValueError(
                f"{owner}: initial must be within min ({self.min}) and max ({self.max}), got {initial!r}"
            )
        self._rule: Limit = self._make_rule()
        self._inflight: int = 0
        self._lock = guard(self)

    def _make_rule(self) -> Limit:
        rule, own = _KINDS[self.kind]
        given: dict[str, Any] = {}
        for field in ("decrease", "timeout", "smoothing", "probe", "tolerance", "long_window", "queue"):
            if (value := getattr(self, field)) is None:
                continue
            if field not in own:
                raise ValueError(
                    f"AdaptiveLimit: {field} must be None for kind={self.kind!r}, which has "
                    f"{' and '.join(own)}, got {value!r}"
                )
            given["timeout_s" if field == "timeout" else field] = value
        if rule is Vegas:
            given["draw"] = randomness.source(self.rng)
        return rule(self.initial, self.min, self.max, **given)

    def use_clock(self, clock: Clock) -> None:
        if self.clock is None:
            self._timer = clock

    # Admission and settling: the lock is held for these few lines only, never across user code.

    def admit(self) -> LimitTicket:
        """A ticket for one call, to be settled with success(), dropped() or cancel(); or `Throttled`."""
        clock = self.clock or current()
        began = clock.now()
        with self._lock:
            limit = int(self._rule.limit)
            inflight = self._inflight + 1
            if inflight <= limit:
                self._inflight = inflight
                return LimitTicket(self, inflight, clock, began)
        bus.publish("Refused", operation=self.name or "adaptive limit", by="adaptive_limit")
        raise Throttled(
            f"{self.name or 'adaptive limit'}: {limit} calls at once are what the backend copes with"
        )

    def settle(self, ticket: LimitTicket, dropped: bool | None) -> None:
        now = ticket.clock.now()
        rtt = now - ticket.began
        with self._lock:
            self._inflight -= 1
            # With a clock that was set back in the middle of a call, nothing was measured.
            if dropped or (dropped is not None and rtt >= 0):
                self._rule.update(rtt, ticket.inflight, dropped, now)

    def outcome_of(self, error: BaseException) -> bool | None:
        """Return True if a call that raised ``error`` was dropped, None if the error teaches nothing."""
        failure = unwrap_marker(error)[0] or error
        return True if isinstance(failure, Exception) and self._judge(failure).retry else None

    def reset(self) -> None:
        """Begin anew at ``initial``; calls in flight keep their places. For tests."""
        with self._lock:
            self._rule = self._make_rule()

    def retune(self, wanted: Self) -> bool:
        """Take over the options of ``wanted``; keep what was learnt if the kind is the same."""
        with self._lock:
            rule = wanted.rule
            rule.learn_from(self._rule)
            self._take_options(wanted, "_judge")
            self._rule = rule
        return True

    # As a strategy.

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        return _LIMITED.build(like, is_async, {"admit": self.admit, "call": call})

    # Looking at it.

    @property
    def rule(self) -> Limit:
        """The rule that learns the limit."""
        return self._rule

    @property
    def limit(self) -> int:
        """Number of calls allowed at once now."""
        return int(self._rule.limit)

    @property
    def in_use(self) -> int:
        """Number of calls in flight."""
        return self._inflight

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with the limit and the use of this moment."""
        return {**super().describe(), "limit": self.limit, "in_use": self.in_use}


_LIMITED = Template(
    "limited",
    """\
{async_}def limited({params}):
    with _sp_admit():
        return {await_}_sp_call({args})
""",
)


class LimitTicket:
    """One admitted call. The first of success(), dropped() and cancel() counts; the rest do nothing.

    As a context manager it settles itself by how the block ends.
    """

    __slots__ = ("_owner", "began", "clock", "inflight")

    def __init__(self, owner: AdaptiveLimit, inflight: int, clock: Clock, began: float) -> None:
        self._owner: AdaptiveLimit | None = owner
        self.inflight = inflight
        self.clock = clock
        self.began = began

    def _end(self, dropped: bool | None) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.settle(self, dropped)

    def success(self) -> None:
        """The call was answered: its latency counts."""
        self._end(False)

    def dropped(self) -> None:
        """The backend did not cope: the limit shrinks."""
        self._end(True)

    def cancel(self) -> None:
        """The call teaches nothing: its place is free again."""
        self._end(None)

    def __enter__(self) -> LimitTicket:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        dropped: bool | None = False if error is None else None
        try:
            if error is not None and self._owner is not None:
                dropped = self._owner.outcome_of(error)
        finally:
            self._end(dropped)
