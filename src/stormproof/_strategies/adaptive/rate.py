"""The adaptive rate: AWS's adaptive mode. After the first throttling answer, calls wait for tokens.

The rules are in `rules.cubic`; here are the options, the lock, and the waiting.
"""

from __future__ import annotations

import math

from ..._classify.classifier import transient
from ..._classify.on_clause import On, judge, unwrap_marker
from ..._context.deadlines import ambient, check
from ..._drivers import aio as _aio
from ..._drivers import sync as _sync
from ..._events import bus
from ..._events.labels import label
from ..._primitives.errors import AttemptTimeout, DeadlineExceeded, RateLimited, StormproofError
from ..._primitives.options import Seconds, number, seconds, validate_clock
from ..._runtime.call_template import Template
from ..._runtime.clock import timer_of
from ..._runtime.locks import guard
from ..protocol import CallWrapper
from ..stateful import Stateful
from .rules.cubic import Cubic, Tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from ..._runtime.clock import Clock
    from ..protocol import Env, Fn

#: A call that waits looks this often whether the rate has changed.
_LOOK_S = 1.0


class AdaptiveRate(CallWrapper, Stateful):
    """Send at the rate that the server bears, as learnt from its throttling answers.

    Off until the first one: a failure that ``on`` calls a throttle (``Verdict.kind == "throttle"``, as
    `transient` does for 429 and its like). From then on each call, or inside `Retry` each attempt,
    waits for a token first: ``max_wait`` seconds at most (``None``: as long as the deadline allows; 0:
    not at all), else `RateLimited`. Every other answer lets the rate grow; what is cancelled or
    refused by another strategy inside says nothing. ``beta``, ``scale``, ``smoothing`` and
    ``min_rate`` are AWS's; see `Cubic` for the formula.
    """

    def __init__(
        self,
        on: On = transient,
        *,
        max_wait: Seconds | None = None,
        beta: float = 0.7,
        scale: float = 0.4,
        smoothing: float = 0.8,
        min_rate: float = 0.5,
        name: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.on = on
        self.max_wait = None if max_wait is None else seconds("AdaptiveRate", "max_wait", max_wait)
        self.beta = number("AdaptiveRate", "beta", beta, above=0, below=1)
        self.scale = number("AdaptiveRate", "scale", scale, above=0)
        self.smoothing = number("AdaptiveRate", "smoothing", smoothing, above=0, most=1)
        self.min_rate = number("AdaptiveRate", "min_rate", min_rate, above=0)
        self.name = label("AdaptiveRate", name)
        self._timer = timer_of(validate_clock("AdaptiveRate", clock))
        self._judge = judge(on, "AdaptiveRate", names_refusals=True)
        self._lock = guard(self)
        self._start()

    def _start(self) -> None:
        now = self._timer.now()
        self._cubic = Cubic(now, self.beta, self.scale, self.smoothing, self.min_rate)
        self._tokens = Tokens(self.min_rate, now)
        self._last: float = now
        self._skew: float = 0.0

    def _now(self) -> float:
        """Return the time; the caller holds the lock. A clock set back continues from where it was."""
        now = self._timer.now() + self._skew
        if now < self._last:
            self._skew += self._last - now
            now = self._last
        self._last = now
        return now

    def use_clock(self, clock: Clock) -> None:
        if self.clock is None:
            with self._lock:
                self._timer = clock
                self._start()

    def reset(self) -> None:
        """Begin anew: no limit until the server throttles. For tests."""
        with self._lock:
            self._start()

    def retune(self, wanted: Self) -> bool:
        with self._lock:
            self._take_options(wanted, "_judge")
            self._cubic.retune(self.beta, self.scale, self.smoothing, self.min_rate)
        return True

    # Waiting and learning: the lock is held for these few lines only, never across user code or a wait.

    def _take(self) -> tuple[float, float]:
        """Take a token: return the sum of tokens at which it is due, and until when to wait for it."""
        with self._lock:
            due = self._tokens.take(self._now())
        return due, math.inf if self.max_wait is None else self._last + self.max_wait

    def _give_back(self) -> None:
        with self._lock:
            self._tokens.give_back()

    def _step(self, due: float, until: float, operation: str) -> float:
        """Seconds to sleep before looking again, 0 to go ahead; raises when it would take too long."""
        check()
        with self._lock:
            now = self._now()
            wait = self._tokens.wait(due, now)
        if not wait:
            return 0.0
        scope = ambient()
        left = None if scope is None else scope.remaining()
        if wait > until - now:
            bus.publish("Refused", operation=operation, by="adaptive_rate")
            raise RateLimited(
                f"{operation}: over the rate that the server bears, try again in {wait:.3g} s", wait
            )
        if scope is not None and left is not None and wait > left:
            late = f"{operation}: the wait for the rate would end past the deadline, {left:.3g} s away"
            raise DeadlineExceeded(late, scope.tightest().name)
        return min(wait, _LOOK_S)

    def _learn(self, error: Exception | None) -> None:
        throttled = False
        if error is not None:
            failure = unwrap_marker(error)[0] or error
            verdict = self._judge(failure)
            throttled = verdict.kind == "throttle"
            refused = isinstance(failure, StormproofError) and not isinstance(failure, AttemptTimeout)
            if refused and not verdict.retry:
                return
        with self._lock:
            now = self._now()
            rate = self._cubic.settle(throttled, now)
            self._tokens.change(rate, self._cubic.fill, now)

    # As a strategy.

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        sleep = _aio.sleep if is_async else _sync.sleep
        names = {
            "call": call,
            "give_back": self._give_back,
            "learn": self._learn,
            "operation": lambda args, kwargs: env.operation(args),
            "pacer": self,
            "sleep": lambda wait: sleep(wait, self.clock),
            "step": self._step,
            "take": self._take,
        }
        return _PACED.build(like, is_async, names)

    # Looking at it.

    @property
    def rate(self) -> float | None:
        """Calls per second that go out now; ``None`` while the server has never throttled."""
        return self._cubic.fill if self._cubic.enabled else None

    def describe(self) -> dict[str, Any]:
        """The options as plain data, with the rate of this moment and the one measured."""
        return {**super().describe(), "rate": self.rate, "measured": self._cubic.measured}


_PACED = Template(
    "paced",
    """\
{async_}def paced({params}):
    if _sp_pacer.rate is not None:
        _sp_due, _sp_until = _sp_take()
        try:
            while _sp_wait := _sp_step(_sp_due, _sp_until, _sp_operation({packed})):
                {await_}_sp_sleep(_sp_wait)
        except BaseException:
            _sp_give_back()
            raise
    try:
        _sp_result = {await_}_sp_call({args})
    except Exception as _sp_error:
        _sp_learn(_sp_error)
        raise
    _sp_learn(None)
    return _sp_result
""",
)
