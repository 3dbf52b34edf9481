"""One call under a `Retry`: what its attempts mean, and what its caller gets in the end.

`Course` (in `rules.decision`) decides; here are the steps of the loop around that decision, in the order in
which `aio_loop` and `sync_loop` take them: `begin`, `after`, `wake`, `give_up`. Nothing here sleeps or
calls; blocks, queues and reconnecting take the same steps at their own pace.
"""

from __future__ import annotations

import math

from ..._classify.classifier import UNREPEATABLE
from ..._classify.exhaustion import (
    Mark,
    Stopped,
    exhausted_by,
    is_bare,
    is_permanent,
    is_silent,
    mark,
    response_mark,
)
from ..._classify.on_clause import is_refusal, judge_answer, judge_marked, unwrap_marker
from ..._classify.stops import REFUSALS, reason_of
from ..._classify.verdict import Verdict
from ..._context.attempts import Attempt, running
from ..._context.deadlines import ambient
from ..._events import bus, labels
from ..._events.bus import watchers
from ..._events.labels import tried
from ..._primitives.attach_context import attach_context
from ..._primitives.errors import ADMISSION_REFUSALS, AttemptTimeout, DeadlineExceeded, Permanent, RetryAfter
from ..._runtime.call_template import SHARED_NAMES
from ..._runtime.strands import MOMENT, origin
from .generators import Opened
from .rules.decision import ENDINGS, PERMANENT, Course, Stop, scope_ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._context.attempts import Exchange, Outcome, Running
    from ..._primitives.errors import StormproofError
    from ..protocol import Env


_NEVER = -math.inf
_RETRY = Verdict.RETRY
_outer = running.get


class RetriedCall(Course):
    """One call: its attempts so far, judged, decided about, and reported."""

    retry: Any
    exchange: Exchange | None
    #: The verdicts on errors that have nothing to read but their type. A client's error stands for more.
    known: dict[type, Verdict]
    #: What makes the attempt that this call is part of.
    outer: Running | None
    #: Why the attempt before the one at hand failed.
    last_error: Exception | None
    #: What the last attempt means; its result, if that is what was not good enough; and what `on_result`
    #: answered about it.
    verdict: Verdict
    refused: Any
    answer: Any
    #: The failure of the last attempt that reached the function, and the refusal of a later one.
    reached: BaseException | None
    refusal: StormproofError | None = None
    #: The last result that was refused, in a tuple.
    answered: tuple[Any] | None = None
    #: Why there is no further attempt; ``None`` before the end, and after a success.
    stop: Stop | None
    #: The seconds to sleep after a first attempt that was made before the loop.
    wait: float | None
    #: The moment at which the attempt at hand began; ``None``: not known.
    began: int | None
    #: Whether the log may have a line for this call. Asked once, as it takes long: a line of another level is
    #: written only where a warning is.
    _writes: bool
    #: What is added to a clock that was set back.
    _skew = 0.0

    def __init__(
        self,
        retry: Any,
        budget: Any,
        env: Env,
        operation: str,
        owner: object,
        exchange: Exchange | None = None,
        number: int = 0,
        began: int | None = None,
    ) -> None:
        # `Course.__init__`, written out: one is made whenever a call fails.
        self.retry = retry
        self.breakers = env.breakers
        self.budget = budget
        self.exchange = exchange
        self.number = number
        self.backoff_index = 0
        self.first_failure_at = self.previous_wait = self.spent = self.payment = self.visible_error = None
        self.env = env
        self.known = retry.by_type.known if exchange is None else {}
        self.operation = operation
        self.owner = owner
        self.outer = _outer()
        self.last_error = self.reached = self.stop = self.wait = None
        self.began = began
        self.verdict = _RETRY
        self._last = _NEVER
        self._writes = bus.would_write(30)

    def judge_error(self, error: BaseException) -> Verdict:
        """Return what ``error`` means."""
        verdict: Verdict = self.retry.judge(error)
        return verdict

    def now(self) -> float:
        """The time. A clock set back goes on from where it was."""
        now: float = self.env.timer.now() + self._skew
        if now < self._last:
            self._skew += self._last - now
            now = self._last
        self._last = now
        return now

    # The steps of the loop.

    def start(self, last_error: Exception | None) -> None:
        """Count the attempt that starts now; notify the budget of the first, the request of each."""
        self.number += 1
        self.began = SHARED_NAMES[MOMENT]
        self.last_error = last_error
        if self.exchange is not None:
            self.exchange.turn(self.number, last_error)
        if self.number == 1 and self.budget is not None:
            self.budget.started()

    def attempt(self, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Attempt:
        """Return the attempt at hand, or the one that failed last; hooks get the arguments with it."""
        made = Attempt(self.operation, self.number, self.last_error, self.owner, self.exchange)
        if kwargs is not None:
            made.args, made.kwargs = self.env.arguments(args), kwargs
        made.outer = self.outer
        return made

    #: What `attempts.attempt` calls.
    view = attempt

    def begin(self, last_error: Exception | None) -> Attempt:
        """Return the next attempt, to be made now."""
        self.start(last_error)
        return self.attempt()

    def after(self, value: Any, error: Exception | None, announce: bool = True) -> float | None:
        """Settle an attempt; return the seconds to wait before the next one, or before the end.

        ``None`` means that none follows: ``stop`` says why, unless it was a success. With ``late="clip"``
        there is a wait before the end, too. A wait is announced, by an event and to the enclosing scope,
        unless ``announce`` is False.
        """
        if error is None and self.retry.on_result is None:
            self.succeed()
            return None
        try:
            verdict = self.known.get(type(error))
            if (
                verdict is not None
                and error.__cause__ is None  # type: ignore[union-attr]
                and (not (attached := error.__dict__) or is_silent(attached))
            ):
                self.visible_error = self.reached = error
            else:
                verdict = self.judge(value, error)
                if verdict is None:
                    self.succeed()
                    return None
                self.verdict = verdict
                self.stop = self._refused(error, verdict) or self._final(error, verdict)
                if self.stop is not None:
                    now = self.now()
                    if self.first_failure_at is None:
                        self.first_failure_at = now
                    return None
                if not is_refusal(self.visible_error):
                    self.reached = self.visible_error
            self.verdict = verdict
            scope, env = ambient(), self.env
            now = env.timer.now()
            if now < self._last:
                # Set back, now or before.
                now = self.now()
            self._last = now
            step = self.next(verdict, now, env.draw, scope)
        except Exception as fault:
            # A rule of the user's failed; what it was asked about must not be lost over it.
            attach_context(fault, error)
            raise
        if isinstance(step, Stop):
            self.stop = step = step if self.visible_error is self.reached else self._behind_refusal(step)
            if step.left is None or self.retry.late != "clip":
                return None
            step = max(0.0, step.left)
        elif announce and (watchers or self._writes) and bus.has_listener("Retrying"):
            self.emit_retrying(step)
        if scope is not None and announce:
            scope.last_error = self.visible_error
        return step

    def _final(self, error: Exception | None, verdict: Verdict) -> Stop | None:
        """Why the outcome is final whatever the verdict: a mark of the call's, or of a layer further in."""
        if is_permanent(error):
            return PERMANENT
        if self.exchange is None and verdict.reason.endswith(UNREPEATABLE):
            return Stop("unrepeatable", f"not retried: {verdict.reason}")
        if self.retry.retry_exhausted:
            return None
        visible = self.visible_error
        if visible is None:
            layer = response_mark(self.refused)
        else:
            layer = None if is_bare(visible) else exhausted_by(visible)
        if layer is None or self._is_named(layer) or not layer.speaks_to(self.owner, self.began):
            return None
        return Stop("exhausted", f"already retried by {layer.layer}")

    def _is_named(self, layer: Mark) -> bool:
        """Return True if ``on`` names the refusal that stopped an inner layer."""
        stands_for = None if layer.stopped is None else REFUSALS.get(layer.stopped.reason)
        return stands_for is not None and issubclass(stands_for, self.retry.named)

    def _refused(self, error: Exception | None, verdict: Verdict) -> Stop | None:
        """Why to stop where a strategy further in refuses a later attempt: the failure before it surfaces."""
        if verdict.retry or not is_refusal(error) or not self._has_reached:
            return None
        reason = reason_of(error)
        if reason is None:
            return None
        if ENDINGS[reason].refuses == "asked":
            # It made no attempt.
            self.number -= 1
        elif self.reached is None or error.__cause__ is not None or not _ends_around(error):
            return None
        self.refusal, self.visible_error = error, self.reached
        return Stop(reason, str(error), after=error.retry_after)

    @property
    def _has_reached(self) -> bool:
        """True if an attempt has reached the function; it failed, or its result was refused."""
        return self.reached is not None or self.answered is not None

    def _behind_refusal(self, stop: Stop) -> Stop:
        """End at a refusal that ``on`` names: the failure of the last attempt that was admitted surfaces."""
        refusal = self.visible_error
        if not isinstance(refusal, ADMISSION_REFUSALS) or not self._has_reached:
            return stop
        self.visible_error = self.reached
        if stop.reason != "attempts":
            return stop
        self.refusal = refusal
        return Stop(reason_of(refusal) or stop.reason, str(refusal), after=refusal.retry_after)

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

    def interrupt(self) -> None:
        """The sleep was interrupted: give back its token, or report the end that it was to lead to."""
        if self.stop is not None:
            # As a rule the scope's own end, which comes with that of the wait.
            self._report(self.stop, self._elapsed())
        else:
            self.give_back()

    def wake(self) -> None:
        """The sleep is over: stop if the scope has ended meanwhile."""
        scope = ambient()
        ended = None if scope is None else scope.ended()
        if ended is None:
            return
        if self.stop is None:
            self.give_back()
            self.stop = scope_ended(ended, interrupted=True)
        elif ended.cancelled:
            self.stop = scope_ended(ended)

    def give_up(self, value: Any, error: Exception | None) -> Outcome:
        """End a failed call: report it, and return what its caller gets, noted and marked."""
        stop: Any = self.stop
        ending, visible, began, number = stop.ending, self.visible_error, self.first_failure_at, self.number
        if (scope := ambient()) is not None:
            # What failed in this call has no part in what the scope may still raise.
            scope.last_error = None
        if stop.left is not None or stop.interrupted:
            # There was a wait since the last look at the clock.
            self.now()
        elapsed = 0.0 if began is None else self._last - began
        # Otherwise the error itself says all there is to say.
        notable = ending.first_try or number > 1
        if watchers or (notable and self._writes):
            self._report(stop, elapsed)
        made: Any = None
        if ending.marks:
            after = self.verdict.after if stop.after is None else stop.after
            owner = self.owner if self.outer is None else self._owner_of_mark()
            made = Mark(
                self.operation, owner, number, stop.message, (stop.reason, number, elapsed, after), origin()
            )
        if visible is None:
            if error is not None and self.answered is not None:
                # A strategy further in refused the attempt after that result.
                value = self.answered[0]
            self.answered = None
            if made is not None and self.exchange is not None:
                mark(value, made)
            return value, None
        if ending.notes and notable:
            why = stop.message
            if stop.reason == "budget" and (shortage := getattr(self.budget, "shortage", None)) is not None:
                why = shortage()
            note(visible, f"{tried(number, elapsed)}; stopped: {why}")
        refusal = None
        if stop.reason in self.retry.refusing:
            refusal = self._refuse(stop, visible, tried(number, elapsed), elapsed)
        # An attempt of an outer layer that timed out is that layer's to retry.
        if made is not None and not isinstance(refusal, AttemptTimeout):
            try:
                visible.__stormproof_mark__ = made  # type: ignore[attr-defined]
                if stop.reason == "hint":
                    visible.retry_after = self.verdict.after  # type: ignore[attr-defined]
            except Exception:
                # Some exceptions refuse attributes; they are left as they are.
                pass
        if refusal is not None:
            return None, refusal
        if visible is not error and error is not None and visible.__traceback__ is None:
            # It was never raised itself, but carried by a mark.
            visible = visible.with_traceback(error.__traceback__)
        return None, visible

    def succeed(self) -> None:
        """Settle a success."""
        self.visible_error, scope = None, ambient()
        if scope is not None:
            # What failed in this call has no part in what the scope may still raise.
            scope.last_error = None
        if self.budget is not None:
            self.budget.success(self.spent)
        if watchers or (self._writes and bus.has_listener("Succeeded")):
            bus.publish("Succeeded", operation=self.operation, attempts=self.number, elapsed=self._elapsed())

    # What an attempt means.

    def judge(self, value: Any, error: Exception | None) -> Verdict | None:
        """Return what the outcome means: ``None`` for success."""
        self.refused = None
        if error is None:
            self.visible_error = None
            self.refused = value.item if isinstance(value, Opened) else value
            verdict = judge_answer(self.answer, self.refused)
            self.answered = (value,) if verdict.retry else None
            return verdict if verdict.retry else None
        if isinstance(error, (Permanent, RetryAfter)):
            cause, _ = unwrap_marker(error)
            self.visible_error = error if cause is None else cause
            return judge_marked(self.judge_error, error)
        self.visible_error = error
        return self.judge_error(error)

    # What is left of a call that failed.

    def _elapsed(self) -> float:
        """Seconds since the first failure; without one the clock is not read."""
        return 0.0 if self.first_failure_at is None else self.now() - self.first_failure_at

    def _report(self, stop: Stop, elapsed: float) -> None:
        """Emit the end of the call."""
        bus.publish(
            "Interrupted" if stop.interrupted else "GaveUp",
            operation=self.operation,
            attempts=self.number,
            elapsed=elapsed,
            error=labels.error_name(self.visible_error),
            reason=stop.reason,
        )

    def _owner_of_mark(self) -> object:
        """Return the owner that a mark names: the call's, or a new one inside a call of the same layer."""
        # A layer ignores marks of its own, which an error raised again and again may still carry. The mark of
        # a call inside must stop the call around it, though both are of one layer.
        outer = self.outer
        while outer is not None:
            if outer.owner == self.owner:
                return object()
            outer = outer.outer
        return self.owner

    def _refuse(self, stop: Stop, visible: BaseException, tries: str, elapsed: float) -> StormproofError:
        """Return the refusal that the call ends in, raised from its failure."""
        refusal, after = self.refusal, self.verdict.after if stop.after is None else stop.after
        if refusal is None:
            message = f"{self.operation}: gave up after {tries}: {stop.message}"
            if stop.reason == "deadline":
                refusal = stop.scope.late(message)
            elif stop.reason == "within":
                refusal = DeadlineExceeded(message, "within")
            else:
                refusal = REFUSALS[stop.reason](message)
            refusal.retry_after = after
        refusal.__cause__ = visible
        refusal.stopped = Stopped(stop.reason, self.number, elapsed, after)
        return refusal


def _ends_around(error: StormproofError) -> bool:
    """Return True if ``error`` is the end of a scope around the call, not of one inside its function."""
    scope, name = ambient(), getattr(error, "scope", None)
    return scope is not None and (scope.ended() is not None or any(s.name == name for s in scope.chain()))


_NOTE = "stormproof: "


def note(error: BaseException, text: str) -> None:
    """Say on the exception what was tried; a note of ours from an earlier call is replaced."""
    try:
        notes = getattr(error, "__notes__", None)
        if notes is None:
            # What `add_note` does, in half the time.
            error.__notes__ = [_NOTE + text]
        else:
            notes[:] = [line for line in notes if not line.startswith(_NOTE)]
            error.add_note(_NOTE + text)
    except Exception:
        # Some exceptions refuse attributes; they are left as they are.
        pass
