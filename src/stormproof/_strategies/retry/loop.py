"""The retry loop: one rule (`Run`) and one flow that every driver follows.

The order of events: attempt, classify, attempts, wait, hint, time allowed, budget, sleep. `flow` is
the loop, `Run.next` the rule; neither sleeps, calls or reads a clock.
"""

from __future__ import annotations

import math

from ..._classify.exhaustion import Mark, exhausted_by, mark, response_mark, unmarked
from ..._classify.on_clause import unwrap_marker
from ..._classify.verdict import Verdict
from ..._context.attempts import Attempt, encloses
from ..._context.deadlines import ambient
from ..._events import bus, labels
from ..._events.labels import tried
from ..._primitives.attach_context import attach_context
from ..._primitives.errors import BudgetExhausted, Cancelled, DeadlineExceeded, Permanent, RetryAfter
from ..._primitives.options import seconds
from ..budget.other_systems import RateBudget
from .backoff import spread
from .generators import Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, Protocol

    from ..._context.attempts import Exchange, Flow, Outcome
    from ..._context.deadlines import Scope
    from ..._primitives.errors import StormproofError
    from ..limiter.rules.bucket import Grant
    from ..protocol import Env
    from .backoff import Backoff

    class RetryOptions(Protocol):
        """What the loop reads of a `Retry`."""

        attempts: int | None
        backoff: Backoff
        within: float | None
        max_hint: float
        late: Literal["stop", "clip"]
        retry_exhausted: bool
        # Functions, which checkers would take for methods of the class if their types said so.
        plan: Any
        judge: Any
        judge_result: Any


class Stop:
    """The end of a call: why, and what the caller gets to see besides."""

    __slots__ = ("of", "reason", "scope", "why")

    def __init__(self, reason: str, why: str, scope: str = "", of: Scope | None = None) -> None:
        self.reason = reason
        self.why = why
        self.scope = scope
        #: The scope whose time it is.
        self.of = of


def _over(scope: Scope) -> Stop:
    """Why a call stops whose scope has ended during the wait."""
    if scope.cancelled:
        return Stop("cancelled", f"scope {scope.name!r} was cancelled", scope.name)
    return Stop("deadline", f"no time left of {scope.name!r}", scope.name, scope)


def _cancelled(scope: Scope) -> Stop | None:
    """The end of a call whose scope somebody has cancelled, or ``None``."""
    ended = scope.ended()
    return _over(ended) if ended is not None and ended.cancelled else None


class Late(Stop):
    """The wait would end past the time allowed, of which ``left`` seconds remain."""

    __slots__ = ("left",)

    def __init__(self, reason: str, why: str, scope: str, left: float, of: Scope | None = None) -> None:
        super().__init__(reason, why, scope, of)
        self.left = left


class Run:
    """One call's way through its attempts: the pure rule, told the time and the random draws."""

    __slots__ = (
        "_last",
        "_own_frames",
        "_skew",
        "budget",
        "env",
        "exchange",
        "first",
        "grant",
        "number",
        "operation",
        "owner",
        "place",
        "prev",
        "refused",
        "retry",
        "shown",
        "spent",
    )

    def __init__(
        self,
        retry: RetryOptions,
        budget: Any,
        env: Env,
        operation: str,
        owner: object,
        own_frames: int = 0,
        exchange: Exchange | None = None,
    ) -> None:
        self.retry = retry
        self.budget = budget
        self.env = env
        self.operation = operation
        self.owner = owner
        self._own_frames = own_frames
        #: The request of a client, which has a word in what may be sent again.
        self.exchange = exchange
        self._skew = 0.0
        self._last = -math.inf
        self.number = 0
        #: Where in the schedule the next wait stands.
        self.place = 0
        self.first: float | None = None
        self.prev: float | None = None
        self.spent: float | None = None
        #: The token of a `RateBudget` that the wait is for.
        self.grant: Grant | None = None
        #: The error of the last attempt as its caller would see it, without our marks around it.
        self.shown: BaseException | None = None
        #: The result of the last attempt, if that is what was not good enough.
        self.refused: Any = None

    def now(self) -> float:
        """The time. A clock set back goes on from where it was."""
        now = self.env.timer.now() + self._skew
        if now < self._last:
            self._skew += self._last - now
            now = self._last
        self._last = now
        return now

    def begin(self, last_error: Exception | None) -> Attempt:
        """The next attempt."""
        if self.number == 0 and self.budget is not None:
            self.budget.started()
        self.number += 1
        if self.exchange is not None:
            self.exchange.turn(self.number, last_error)
        return Attempt(self.operation, self.number, last_error, self.owner, self.exchange)

    def judge(self, value: Any, error: Exception | None) -> Verdict | None:
        """What the outcome means: ``None`` for success."""
        self.refused = None
        if error is not None:
            return self._judge_error(error)
        self.shown = None
        if self.retry.judge_result is not None:
            result = value.item if isinstance(value, Opened) else value
            verdict: Verdict = self.retry.judge_result(result)
            if verdict.retry:
                self.refused = result
                return verdict
        return None

    def _judge_error(self, error: Exception) -> Verdict:
        if not isinstance(error, (Permanent, RetryAfter)):
            self.shown = error
            told = None if self.exchange is None else self._judge_response(error, self.exchange)
            found: Verdict = self.retry.judge(error) if told is None else told
            return found
        asked, _ = unwrap_marker(error)
        self.shown = error if asked is None else asked
        if isinstance(error, Permanent):
            return Verdict.FATAL
        verdict = Verdict.RETRY if asked is None else self.retry.judge(asked)
        after = max(error.seconds, verdict.after or 0.0)
        return Verdict(verdict.retry, after, verdict.kind, verdict.reason)

    def _judge_response(self, error: Exception, exchange: Exchange) -> Verdict | None:
        """What ``on_result`` says about the response that ``error`` stands for: only that it is refused."""
        if self.retry.judge_result is None:
            return None
        response = exchange.response_of(error)
        if response is None:
            return None
        verdict: Verdict = self.retry.judge_result(response)
        return verdict if verdict.retry else None

    def next(self, error: Exception | None, verdict: Verdict, now: float) -> float | Stop:
        """How long to wait before the next attempt, or why there is none."""
        retry = self.retry
        if self.first is None:
            self.first = now
        if isinstance(error, Permanent):
            return Stop("permanent", "marked permanent")
        shown = self.shown
        if (shown is None or not unmarked(shown)) and not retry.retry_exhausted:
            # A layer further in may have given up on it.
            layer = response_mark(self.refused) if shown is None else exhausted_by(shown)
            if layer is not None and layer.owner != self.owner:
                return Stop("exhausted", f"already retried by {layer.layer}")
        if self.budget is not None and (verdict.retry or verdict.kind == "pushback"):
            self.budget.failure(verdict.kind == "timeout")
        if not verdict.retry:
            return Stop("fatal", "not worth retrying")
        if self.exchange is not None and (why := self.exchange.veto(shown)) is not None:
            return Stop("unrepeatable", f"not sent again: {why}")
        if retry.attempts is not None and self.number >= retry.attempts:
            return Stop("attempts", "attempts used up")
        scope = ambient()
        if scope is not None and (gone := _cancelled(scope)) is not None:
            return gone
        wait = self._wait(verdict)
        if verdict.after is not None and verdict.after > retry.max_hint:
            return Stop("hint", f"the server asked for {verdict.after:g} s, more than {retry.max_hint:g} s")
        late = self._late(wait, now, scope)
        return late if late is not None else self._pay(wait, verdict, now)

    def _wait(self, verdict: Verdict) -> float:
        draw, retry = self.env.draw, self.retry
        if retry.plan is not None:
            # A schedule with a mind of its own about hints, or about kinds of failure.
            wait, self.prev, self.place = retry.plan(self.place, self.prev, verdict, draw)
            return seconds("backoff", "plan", wait, infinite=True)
        own = retry.backoff.delay(self.place, self.prev, draw())
        if type(own) is not float or not 0.0 <= own < math.inf:
            # A schedule of the user's own; drivers tell waits by their type.
            own = seconds("backoff", "delay", own)
        self.prev = own
        self.place += 1
        return own if verdict.after is None else spread(own, verdict.after, draw)

    def _late(self, wait: float, now: float, scope: Scope | None) -> Late | None:
        """Why a wait of ``wait`` seconds would end too late, if it would."""
        assert self.first is not None
        within = self.retry.within
        left = math.inf if within is None else within - (now - self.first)
        if scope is not None:
            remaining = scope.remaining()
            if remaining is not None and remaining <= left:
                if wait < remaining:
                    return None
                tightest = scope.tightest()
                why = f"a wait of {wait:.3g} s is more than the {remaining:.3g} s left of {tightest.name!r}"
                return Late("deadline", why, tightest.name, remaining, tightest)
        if wait > left:
            why = f"a wait of {wait:.3g} s would end past the {within:g} s allowed for retrying"
            return Late("within", why, "within", left)
        return None

    def _pay(self, wait: float, verdict: Verdict, now: float) -> float | Stop:
        budget, kind = self.budget, verdict.kind
        if budget is None:
            return wait
        if isinstance(budget, RateBudget) and budget.wait:
            self.grant, delay = budget.reserve(self._time_left(now))
            paid = 0.0 if self.grant is None else 1.0
            wait = max(wait, delay)
        elif kind == "throttle" and getattr(budget, "throttle_cost", None) is not None:
            paid = budget.withdraw(throttle=True)  # pyright: ignore[reportCallIssue]
        else:
            paid = budget.withdraw(kind == "timeout")
        if not paid:
            return Stop("budget", "retry budget exhausted")
        self.spent = paid
        return wait

    def _time_left(self, now: float) -> float | None:
        """Seconds left for waiting, in the deadline and ``within``; ``None`` without a limit."""
        assert self.first is not None
        scope = ambient()
        limits = [] if self.retry.within is None else [self.retry.within - (now - self.first)]
        if scope is not None and (remaining := scope.remaining()) is not None:
            limits.append(remaining)
        return min(limits, default=None)

    def _elapsed(self) -> float:
        """Seconds since the first failure; without one the clock is not read."""
        return 0.0 if self.first is None else self.now() - self.first

    def call_off(self) -> None:
        """The wait was interrupted: what it was waiting for is free again."""
        grant, self.grant = self.grant, None
        if grant is not None:
            self.budget.give_back(grant)

    def succeed(self) -> None:
        """Settle a success."""
        _forget()
        if self.budget is not None:
            self.budget.success(self.spent)
        if bus.heard("Succeeded"):
            bus.publish("Succeeded", operation=self.operation, attempts=self.number, elapsed=self._elapsed())

    def give_up(
        self,
        stop: Stop,
        value: Any,
        error: Exception | None,
        verdict: Verdict,
        event: str = "GaveUp",
    ) -> Outcome:
        """The end of a failed call: the outcome its caller gets, noted, marked and told."""
        _forget()
        elapsed = self.tell(event, stop)
        shown = self.shown
        if shown is None:
            if self.exchange is not None and stop.reason not in ("exhausted", "unrepeatable"):
                self._mark(value, stop)
            return value, None
        if stop.reason != "exhausted" and (self.number > 1 or stop.reason not in ("fatal", "permanent")):
            note(shown, f"{tried(self.number, elapsed)}; stopped: {stop.why}")
        if stop.reason in ("fatal", "permanent", "exhausted", "unrepeatable"):
            return None, _as_raised(shown, error)
        if stop.reason in ("attempts", "hint"):
            self._mark(shown, stop)
            if stop.reason == "hint":
                _set_retry_after(shown, verdict.after)
            return None, _as_raised(shown, error)
        return None, self._refuse(stop, shown, verdict, elapsed)

    def tell(self, event: str, stop: Stop) -> float:
        """Tell that the call has failed; gives the seconds since its first failure."""
        elapsed = self._elapsed()
        bus.publish(
            event,
            operation=self.operation,
            attempts=self.number,
            elapsed=elapsed,
            error=labels.error_name(self.shown),
            reason=stop.reason,
        )
        return elapsed

    def _mark(self, outcome: Any, stop: Stop) -> None:
        # A layer ignores its own mark, left on an error object that is raised again and again. Not so
        # when the very same layer is at work further out: then the mark must stop it.
        owner = object() if encloses(self.owner, self._own_frames) else self.owner
        mark(outcome, Mark(self.operation, owner, self.number, stop.why))

    def _refuse(self, stop: Stop, shown: BaseException, verdict: Verdict, elapsed: float) -> StormproofError:
        message = f"{self.operation}: gave up after {tried(self.number, elapsed)}: {stop.why}"
        refusal: StormproofError
        if stop.reason == "budget":
            refusal = BudgetExhausted(message)
        elif stop.reason == "cancelled":
            refusal = Cancelled(message)
        elif stop.of is not None:
            refusal = stop.of.late(message)
        else:
            refusal = DeadlineExceeded(message, stop.scope)
        refusal.retry_after = verdict.after
        refusal.__cause__ = shown
        return refusal


def flow(run: Run, error: Exception | None = None) -> Flow:
    """The loop: yields attempts to make and seconds to sleep, returns the (value, error) of the call.

    With ``error`` the first attempt has been made, and failed, already.
    """
    value: Any = None
    if error is None:
        value, error = yield run.begin(None)
    else:
        run.number = 1
    while True:
        try:
            verdict = run.judge(value, error)
            if verdict is None:
                run.succeed()
                return value, None
            step = run.next(error, verdict, run.now())
        except Exception as fault:
            # A rule of the user's failed; what it was asked about must not be lost over it.
            attach_context(fault, error)
            raise
        if isinstance(step, Stop):
            if isinstance(step, Late) and run.retry.late == "clip":
                scope = ambient()
                if scope is not None:
                    scope.last_error = run.shown
                try:
                    yield max(0.0, step.left)
                except BaseException:
                    # As a rule the scope's own end, which comes with that of the wait.
                    run.tell("GaveUp", step)
                    raise
                step = step if scope is None else _cancelled(scope) or step
            return run.give_up(step, value, error, verdict)
        if bus.watchers:
            bus.publish(
                "Retrying",
                operation=run.operation,
                attempt=run.number,
                wait=step,
                error=labels.error_name(run.shown),
                hint=verdict.after,
            )
        scope = ambient()
        if scope is not None:
            scope.last_error = run.shown
        try:
            yield step
        except BaseException:
            run.call_off()
            raise
        if scope is not None and (ended := scope.ended()) is not None:
            run.call_off()
            return run.give_up(_over(ended), value, error, verdict, "Interrupted")
        value, error = yield run.begin(error)


def _forget() -> None:
    """The call is over: what failed in it has no part in what the scope may still raise."""
    scope = ambient()
    if scope is not None:
        scope.last_error = None


_NOTE = "stormproof: "


def note(error: BaseException, text: str) -> None:
    """Say on the exception what was tried; a note of ours from an earlier call is replaced."""
    try:
        notes = getattr(error, "__notes__", None)
        if notes:
            notes[:] = [line for line in notes if not line.startswith(_NOTE)]
        error.add_note(_NOTE + text)
    except Exception:
        # Some exceptions refuse attributes; they are left as they are.
        pass


def _as_raised(shown: BaseException, raised: BaseException | None) -> BaseException:
    """``shown``, with the traceback of the mark that carried it when it was never raised itself."""
    if shown.__traceback__ is None and raised is not None:
        return shown.with_traceback(raised.__traceback__)
    return shown


def _set_retry_after(error: BaseException, after: float | None) -> None:
    try:
        error.retry_after = after  # type: ignore[attr-defined]
    except Exception:
        pass
