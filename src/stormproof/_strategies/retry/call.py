"""One call under a `Retry`: what its attempts mean, and what its caller gets in the end.

`Course` (in `rules.decision`) decides; here are the steps of the loop around that decision, in the order in
which `aio_loop` and `sync_loop` take them: `begin`, `after`, `wake`, `give_up`. Nothing here sleeps or
calls; blocks, queues and reconnecting take the same steps at their own pace.
"""

from __future__ import annotations

import math

from ..._classify.exhaustion import Mark, bare_types, exhausted_by, is_bare, mark, response_mark
from ..._classify.on_clause import judge_marked, unwrap_marker
from ..._classify.verdict import Verdict
from ..._context.attempts import Attempt, encloses
from ..._context.deadlines import ambient
from ..._events import bus, labels
from ..._events.labels import tried
from ..._primitives.attach_context import attach_context
from ..._primitives.errors import BudgetExhausted, Cancelled, DeadlineExceeded, Permanent, RetryAfter
from .generators import Opened
from .rules.decision import ENDINGS, PERMANENT, Course, Stop, cancelled, scope_ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..._context.attempts import Exchange, Outcome
    from ..._primitives.errors import StormproofError
    from ..protocol import Env


class RetriedCall(Course):
    """One call: its attempts so far, judged, decided about, and reported."""

    __slots__ = (
        "_last",
        "_own_frames",
        "_skew",
        "env",
        "judge_error",
        "operation",
        "owner",
        "refused",
        "verdict",
    )

    retry: Any
    exchange: Exchange | None

    def __init__(
        self,
        retry: Any,
        budget: Any,
        env: Env,
        operation: str,
        owner: object,
        own_frames: int = 0,
        exchange: Exchange | None = None,
    ) -> None:
        super().__init__(retry, budget, exchange)
        self.env = env
        self.judge_error: Callable[[BaseException], Verdict] = retry.judge
        self.operation = operation
        self.owner = owner
        self._own_frames = own_frames
        self._skew = 0.0
        self._last = -math.inf
        #: What the last attempt means, and its result, if that is what was not good enough.
        self.verdict = Verdict.RETRY
        self.refused: Any = None

    def now(self) -> float:
        """The time. A clock set back goes on from where it was."""
        now: float = self.env.timer.now() + self._skew
        if now < self._last:
            self._skew += self._last - now
            now = self._last
        self._last = now
        return now

    # The steps of the loop.

    def begin(self, last_error: Exception | None) -> Attempt:
        """Return the next attempt, to be made now."""
        self.number += 1
        if self.number == 1 and self.budget is not None:
            self.budget.started()
        if self.exchange is not None:
            self.exchange.turn(self.number, last_error)
        return Attempt(self.operation, self.number, last_error, self.owner, self.exchange)

    def after(self, value: Any, error: Exception | None, announce: bool = True) -> float | Stop | None:
        """Settle an attempt: ``None`` for a success, else the seconds to wait, or why to stop.

        A wait is announced, by an event and to the enclosing scope, unless ``announce`` is False.
        """
        try:
            if (
                bare_types.get(type(error))
                and error.__cause__ is None  # type: ignore[union-attr]
                and not error.__dict__
                and self.exchange is None
            ):
                # There is nothing to read in it: only its type counts.
                self.visible_error = error
                verdict: Verdict | None = self.judge_error(error)  # type: ignore[arg-type]
                stop = None
            else:
                verdict = self.judge(value, error)
                stop = None if verdict is None else self._final(error)
            if verdict is None:
                self.succeed()
                return None
            self.verdict = verdict
            scope, now = ambient(), self.env.timer.now() + self._skew
            if now < self._last:
                now = self.now()
            self._last = now
            if stop is None:
                step = self.next(verdict, now, self.env.draw, scope)
            else:
                step = stop
                if self.first_failure_at is None:
                    self.first_failure_at = now
        except Exception as fault:
            # A rule of the user's failed; what it was asked about must not be lost over it.
            attach_context(fault, error)
            raise
        if announce and type(step) is float:
            if bus.watchers:
                self.emit_retrying(step)
            if scope is not None:
                scope.last_error = self.visible_error
        return step

    def _final(self, error: Exception | None) -> Stop | None:
        """Why the outcome is final whatever the verdict: a mark of the call's, or of a layer further in."""
        if isinstance(error, Permanent):
            return PERMANENT
        if self.retry.retry_exhausted:
            return None
        visible = self.visible_error
        if visible is None:
            layer = response_mark(self.refused)
        else:
            layer = None if is_bare(visible) else exhausted_by(visible)
        if layer is None or layer.owner == self.owner:
            return None
        return Stop("exhausted", f"already retried by {layer.layer}")

    def last_wait(self, stop: Stop) -> float | None:
        """Return the seconds to sleep before the call ends: those left, with ``late="clip"``, or ``None``."""
        if stop.left is None or self.retry.late != "clip":
            return None
        scope = ambient()
        if scope is not None:
            scope.last_error = self.visible_error
        return max(0.0, stop.left)

    def emit_retrying(self, wait: float) -> None:
        """Emit that another attempt follows after ``wait`` seconds."""
        bus.publish(
            "Retrying",
            operation=self.operation,
            attempt=self.number,
            wait=wait,
            error=labels.error_name(self.visible_error),
            hint=self.verdict.after,
        )

    def interrupt(self, step: float | Stop) -> None:
        """The sleep was interrupted: give back its token, or report the end that it was to lead to."""
        if isinstance(step, Stop):
            # As a rule the scope's own end, which comes with that of the wait.
            self._report(step)
        else:
            self.give_back()

    def wake(self, step: float | Stop) -> float | Stop:
        """The sleep is over: return ``step``, or the end of the scope, if that has come."""
        scope = ambient()
        if scope is None:
            return step
        if isinstance(step, Stop):
            return cancelled(scope) or step
        ended = scope.ended()
        if ended is None:
            return step
        self.give_back()
        return scope_ended(ended, interrupted=True)

    def give_up(self, stop: Stop, value: Any, error: Exception | None) -> Outcome:
        """End a failed call: report it, and return what its caller gets, noted and marked."""
        _forget_last_error()
        ending = ENDINGS[stop.reason]
        elapsed = self._report(stop)
        visible = self.visible_error
        if visible is None:
            if self.exchange is not None and ending.marks:
                self._mark(value, stop)
            return value, None
        if ending.notes and self._is_notable(stop):
            tries = tried(self.number, self._elapsed() if elapsed is None else elapsed)
            note(visible, f"{tries}; stopped: {stop.message}")
            if ending.refuses:
                return None, self._refusal(stop, visible, tries)
        if ending.marks:
            self._mark(visible, stop)
            if stop.reason == "hint":
                _set_retry_after(visible, self.verdict.after)
        return None, _as_raised(visible, error)

    def succeed(self) -> None:
        """Settle a success."""
        _forget_last_error()
        if self.budget is not None:
            self.budget.success(self.spent)
        if bus.heard("Succeeded"):
            bus.publish("Succeeded", operation=self.operation, attempts=self.number, elapsed=self._elapsed())

    # What an attempt means.

    def judge(self, value: Any, error: Exception | None) -> Verdict | None:
        """Return what the outcome means: ``None`` for success."""
        self.refused = None
        judge_result = self.retry.judge_result
        if error is None:
            self.visible_error = None
            if judge_result is None:
                return None
            self.refused = value.item if isinstance(value, Opened) else value
            verdict: Verdict = judge_result(self.refused)
            return verdict if verdict.retry else None
        if isinstance(error, (Permanent, RetryAfter)):
            cause, _ = unwrap_marker(error)
            self.visible_error = error if cause is None else cause
            return judge_marked(self.judge_error, error)
        self.visible_error = error
        if judge_result is not None and self.exchange is not None:
            response = self.exchange.response_of(error)
            if response is not None:
                verdict = judge_result(response)
                if verdict.retry:
                    return verdict
        return self.judge_error(error)

    # What is left of a call that failed.

    def _elapsed(self) -> float:
        """Seconds since the first failure; without one the clock is not read."""
        return 0.0 if self.first_failure_at is None else self.now() - self.first_failure_at

    def _report(self, stop: Stop) -> float | None:
        """Emit the end of the call; return the seconds since its first failure, if they were needed."""
        event = "Interrupted" if stop.interrupted else "GaveUp"
        if not bus.watchers and not (self._is_notable(stop) and bus.heard(event)):
            return None
        elapsed = self._elapsed()
        bus.publish(
            event,
            operation=self.operation,
            attempts=self.number,
            elapsed=elapsed,
            error=labels.error_name(self.visible_error),
            reason=stop.reason,
        )
        return elapsed

    def _is_notable(self, stop: Stop) -> bool:
        """Whether there is more to say than the error itself says."""
        return self.number > 1 or ENDINGS[stop.reason].first_try

    def _mark(self, outcome: Any, stop: Stop) -> None:
        # A layer ignores its own mark, left on an error object that is raised again and again. Not so
        # when the very same layer is at work further out: then the mark must stop it.
        owner = object() if encloses(self.owner, self._own_frames) else self.owner
        mark(outcome, Mark(self.operation, owner, self.number, stop.message))

    def _refusal(self, stop: Stop, visible: BaseException, tries: str) -> StormproofError:
        message = f"{self.operation}: gave up after {tries}: {stop.message}"
        refusal: StormproofError
        if stop.reason == "budget":
            refusal = BudgetExhausted(message)
        elif stop.reason == "cancelled":
            refusal = Cancelled(message)
        elif stop.reason == "within":
            refusal = DeadlineExceeded(message, "within")
        else:
            refusal = stop.scope.late(message)
        refusal.retry_after = self.verdict.after
        refusal.__cause__ = visible
        return refusal


def _forget_last_error() -> None:
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


def _as_raised(visible: BaseException, raised: BaseException | None) -> BaseException:
    """``visible``, with the traceback of the mark that carried it when it was never raised itself."""
    if visible.__traceback__ is None and raised is not None:
        return visible.with_traceback(raised.__traceback__)
    return visible


def _set_retry_after(error: BaseException, after: float | None) -> None:
    try:
        error.retry_after = after  # type: ignore[attr-defined]
    except Exception:
        pass
