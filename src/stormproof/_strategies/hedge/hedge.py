"""Hedging: a second attempt while the first is still out, for calls that may be made twice.

`Race` is the rule: when to launch another, and what an outcome means. `_drivers.race` runs it with
asyncio tasks, trio tasks or threads.
"""

from __future__ import annotations

import math

from ..._classify.classifier import transient
from ..._classify.exhaustion import exhausted_by, is_bare, is_permanent
from ..._classify.on_clause import On, judge, unwrap_marker
from ..._classify.server_hints import is_digits
from ..._context.attempts import running
from ..._context.deadlines import remaining
from ..._drivers import race as _race
from ..._events import bus
from ..._primitives.errors import ADMISSION_REFUSALS
from ..._primitives.options import Seconds, count, flag, hook, seconds
from ..._runtime.call_template import SHARED_NAMES, Template
from ..._runtime.locks import guard
from ..._runtime.strands import MOMENT
from ..protocol import CallWrapper, Part
from ..stateful import Stateful
from .quantile import Sketch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from ..._runtime.clock import Clock
    from ..protocol import AnyBudget, Env, Fn, PolicySettings

    Vary = Callable[[int, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]

#: A hint longer than this launches nothing more, as `Retry` takes none longer by default.
_MAX_HINT_S = 60.0

#: A percentile of fewer latencies than this says nothing; until then nothing is hedged.
_ENOUGH = 20


class Hedge(CallWrapper, Stateful):
    """Launch another attempt when the first has not answered after ``after`` seconds, up to ``max``
    in all; the first success wins, the others are cancelled.

    ``after`` may be a measured percentile such as ``"p95"`` (of the attempts that were begun alone: one
    that loses counts with the time it had taken so far); 0 launches all at once. An attempt that fails in
    a way ``on`` matches launches the next one at once, or when the server's hint says; any other failure
    ends the call. A hint longer than 60 s, or than the time left, a pushback, and an extra attempt that a
    strategy further in refuses launch nothing more; the others go on. Every extra attempt pays ``budget``;
    ``None`` takes that of the policy's `Retry`, or a fresh one.
    ``idempotent=True`` declares that the call may be made twice; without it plain functions are refused,
    and a client hedges only where the request itself says so. From the second attempt of a retried call
    on nothing is hedged, so retries and hedges add up but never multiply. ``vary(number, args, kwargs)``
    may change the arguments of the extra attempts.
    """

    def __init__(
        self,
        after: Seconds | str = 0.05,
        *,
        max: int = 2,
        idempotent: bool = False,
        budget: AnyBudget | None = None,
        on: On = transient,
        vary: Vary | None = None,
    ) -> None:
        quantile = _percentile(after) if isinstance(after, str) else None
        self.after = after if isinstance(after, str) else seconds("Hedge", "after", after)
        self.max = count("Hedge", "max", max, least=2)
        self.idempotent = flag("Hedge", "idempotent", idempotent)
        self.budget = budget
        self.on = on
        self.vary = hook("Hedge", "vary", vary)
        self._quantile: float | None = quantile
        self._sketch = Sketch()
        self.judge = judge(on, "Hedge")
        if budget is not None and not callable(getattr(budget, "withdraw", None)):
            raise TypeError(f"Hedge: budget must be a budget or None, got {budget!r}")
        self._lock = guard(self)

    def budget_in(self, surroundings: Env | PolicySettings) -> AnyBudget | None:
        """The budget that its extra attempts pay: its own, or the one that the policy has for its hedges."""
        return surroundings.hedge_budget if self.budget is None else self.budget

    def use_clock(self, clock: Clock) -> None:
        if isinstance(self.budget, Part):
            self.budget.use_clock(clock)

    def reset(self) -> None:
        """Forget the latencies measured so far. For tests."""
        with self._lock:
            self._sketch = Sketch()

    def retune(self, wanted: Self) -> bool:
        with self._lock:
            self._take_options(wanted, "judge", "_quantile")
        return True

    def delay(self) -> float | None:
        """Seconds after which to launch another attempt; ``None`` while too little is known."""
        if self._quantile is None:
            return float(self.after)
        with self._lock:
            return self._sketch.quantile(self._quantile) if self._sketch.total >= _ENOUGH else None

    def measure(self, latency_s: float) -> None:
        """Record the latency of an attempt; of one that was cut off, the time until then."""
        if self._quantile is not None:
            with self._lock:
                self._sketch.record(latency_s)

    def wrap(self, call: Fn, env: Env, like: Fn, is_async: bool) -> Fn:
        if not self.idempotent and env.idempotent is None:
            raise ValueError(
                f"Hedge: idempotent must be True to hedge a plain function ({env.name or 'Policy.call'}): "
                "declare that it may be made twice, or leave Hedge out"
            )
        in_race = _race.in_tasks if is_async else _race.in_threads

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            attempt = running.get()
            is_first = attempt is None or attempt.number == 1
            if is_first and env.may_hedge(self.idempotent, args, kwargs):
                return in_race(Race(self, call, env, args, kwargs))
            return call(*args, **kwargs)

        return _HEDGED.build(like, is_async, {"begin": begin})


_HEDGED = Template("hedged", "{async_}def hedged({params}):\n    return {await_}_sp_begin({packed})\n")


def _percentile(text: str) -> float:
    digits = text[1:]
    plain = text.startswith("p") and is_digits(digits.replace(".", "", 1))
    if not plain or not 0 < float(digits) < 100:
        raise ValueError(f'Hedge: after must be seconds or a percentile such as "p95", got {text!r}')
    return float(digits) / 100


class Race:
    """One hedged call: the rule that every driver follows. Attempts have numbers, from 1 on.

    Latency is taken of attempts that were begun with no other out, and of those when they lose as well:
    of the others only the quick ones ever answer, so a percentile of all answers would be too short.
    """

    def __init__(
        self,
        hedge: Hedge,
        call: Callable[..., Any],
        env: Env,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._hedge = hedge
        self._budget = hedge.budget_in(env)
        #: The budget, if no Retry of the policy reports starts, failures and successes to it.
        self._reports = None if self._budget is env.retry_budget else self._budget
        self._call = call
        self._env = env
        self._args = args
        self._kwargs = kwargs
        self._first_error: BaseException | None = None
        self._spent: float | None = None
        #: When a server's hint lets the next attempt be launched, by the policy's clock.
        self._held_until = -math.inf
        #: The attempt that was begun with no other out; 0 when its latency is known or will never be.
        self._lone = 0
        self._lone_since = 0.0
        self._began: int = SHARED_NAMES[MOMENT]
        self.launched = 0
        self.out = 0

    @property
    def most(self) -> int:
        """Maximum number of attempts."""
        return self._hedge.max

    @property
    def closes(self) -> bool:
        """True if late responses are closed here; a client closes its own."""
        return self._env.exchange(self._args) is None

    def delay(self) -> float | None:
        """Return the wait for an outcome before launching another; ``None`` if no more are launched."""
        if self.launched >= self._hedge.max:
            return None
        held_s = self._held_until - self._env.now() if self._held_until > -math.inf else 0.0
        return held_s if held_s > 0.0 else self._hedge.delay() if self.out else 0.0

    def launch(self) -> Any:
        """(call, args, kwargs) of the next attempt, or ``None`` if there is none, or it cannot be paid."""
        hedge = self._hedge
        args, kwargs = self._args, self._kwargs
        if self.launched:
            if self.launched >= hedge.max or (self._budget is not None and not self._pay(self._budget)):
                self.launched = hedge.max
                return None
            bus.publish("Hedged", operation=self._env.operation(self._args), attempt=self.launched + 1)
            if hedge.vary is not None:
                own = self._env.arguments(args)
                varied, kwargs = hedge.vary(self.launched + 1, own, kwargs)
                args = (*args[: len(args) - len(own)], *varied)
        elif self._reports is not None:
            self._reports.started()
        self.launched += 1
        if not self.out:
            self._lone, self._lone_since = self.launched, self._env.now()
        self.out += 1
        return self._call, args, kwargs

    def _pay(self, budget: AnyBudget) -> bool:
        paid = budget.withdraw()
        self._spent = paid or None
        return paid > 0

    def succeeded(self, number: int) -> None:
        """Attempt ``number`` won."""
        if number == self._lone:
            self._measure()
        if self._reports is not None:
            self._reports.success(self._spent)

    def over(self) -> None:
        """End the race: the call has its outcome or was abandoned, and attempts in flight are cancelled."""
        # Another was launched, or was to be: this one was slower than the percentile, however it would end.
        if 0 < self._lone < self.launched:
            self._measure()

    def _measure(self) -> None:
        self._hedge.measure(self._env.now() - self._lone_since)
        self._lone = 0

    def failed(self, error: BaseException, number: int) -> str:
        """Return the step after attempt ``number``'s error: "stop", "launch" another, or "wait"."""
        self.out -= 1
        if number == self._lone:
            self._lone = 0
        failure, hint_s = unwrap_marker(error)
        visible = error if failure is None else failure
        verdict = None if failure is None else self._hedge.judge(failure)
        is_pushback = verdict is not None and verdict.kind == "pushback"
        is_fatal = verdict is not None and not verdict.retry and not is_pushback
        if is_fatal and isinstance(visible, ADMISSION_REFUSALS) and (self.out or self._first_error):
            # It reached nothing, so it decides nothing: the others do.
            self.launched = self._hedge.max
            return "wait"
        if self._first_error is None:
            self._first_error = visible
        is_fatal = is_fatal or self._is_exhausted(visible)
        if not isinstance(error, Exception) or is_permanent(error) or is_fatal:
            self._first_error = visible
            return "stop"
        if self._reports is not None:
            self._reports.failure(isinstance(error, TimeoutError))
        if hint_s is None and verdict is not None:
            hint_s = verdict.after
        if is_pushback:
            # The server wants no further request; it may still answer one that it has.
            self.launched = self._hedge.max
        elif hint_s is not None:
            self._hold(hint_s)
        return "launch" if self.launched < self._hedge.max else "wait"

    def _is_exhausted(self, error: BaseException) -> bool:
        """Return True if a layer further in has retried ``error`` already."""
        mark = None if is_bare(error) else exhausted_by(error)
        return mark is not None and mark.speaks_to(None, self._began)

    def _hold(self, hint_s: float) -> None:
        """Launch nothing for ``hint_s`` seconds; nothing more at all if that is too long to wait for."""
        left = remaining()
        if hint_s > _MAX_HINT_S or (left is not None and hint_s >= left):
            self.launched = self._hedge.max
        else:
            self._held_until = max(self._held_until, self._env.now() + hint_s)

    def is_lost(self, error: BaseException, number: int, launch: Callable[[], bool]) -> bool:
        """Take in attempt ``number``'s error and ``launch`` another if one is due; True if none is left."""
        step = self.failed(error, number)
        if step == "launch" and self._held_until > self._env.now():
            # The driver launches it after `delay`.
            return False
        return step == "stop" or ((step == "wait" or not launch()) and not self.out)

    def end(self) -> BaseException:
        """The error of a call whose attempts have all failed: the first one's, or the fatal one."""
        assert self._first_error is not None
        return self._first_error
