"""The decision after a failed attempt: how long to wait for the next one, or why there is none.

The order of the questions: is the failure retryable, may it be repeated, are there attempts left, how long
is the wait, does the server ask for too much, is there time, is the circuit open, does the budget pay.
`Course` is given the time, the draws, the verdict and the scope; it reads no clock and raises no exception.
"""

from __future__ import annotations

import math

from ...._primitives.options import seconds
from ...limiter.rules.deferred import DeferredPayment
from .waits import spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Protocol

    class RetryOptions(Protocol):
        """Options of a `Retry` that the decision reads."""

        # Functions, which checkers would take for methods of the class if their types said so.
        delay: Any
        judge: Any
        #: The schedule's own plan, where it treats hints or kinds of failure in its own way.
        plan: Any
        within: float | None
        max_hint: float
        #: ``attempts`` and ``within``, where no limit is inf.
        most_attempts: float
        most_seconds: float
        #: True if failures are reported to the budget.
        reports_failures: bool
        late: Literal["stop", "clip"]

    class Verdict(Protocol):
        """Meaning of a failure: see `_classify.verdict`."""

        retry: bool
        after: float | None
        kind: str

    class Scope(Protocol):
        """The enclosing deadline: see `_context.deadlines`."""

        name: str
        cancelled: bool

        def ended(self) -> Any: ...
        def remaining(self) -> float | None: ...
        def tightest(self) -> Any: ...


class Ending:
    """Consequences of a reason to stop.

    ``refuses``: the caller gets an error of ours, raised from its own one: "never", "always", or if "asked"
    for with ``raises="refusal"``. ``marks``: outer layers see that
    this one has given up. ``notes``: the error says what was tried. ``first_try``: a call that stops at its
    first attempt is noted and logged, too.
    """

    __slots__ = ("first_try", "marks", "notes", "refuses")

    def __init__(
        self, refuses: Literal["never", "asked", "always"], marks: bool, notes: bool, first_try: bool
    ) -> None:
        self.refuses = refuses
        self.marks = marks
        self.notes = notes
        self.first_try = first_try


ENDINGS = {
    #                      refuses   marks  notes  first_try
    "fatal": Ending(       "never",  False, True,  False),
    "permanent": Ending(   "never",  False, True,  False),
    "exhausted": Ending(   "never",  False, False, True),
    "unrepeatable": Ending("never",  False, True,  True),
    "attempts": Ending(    "never",  True,  True,  True),
    "hint": Ending(        "never",  True,  True,  True),
    "budget": Ending(      "asked",  True,  True,  True),
    "within": Ending(      "asked",  True,  True,  True),
    # A strategy further in refuses the next attempt.
    "circuit": Ending(     "asked",  True,  True,  True),
    "bulkhead": Ending(    "asked",  True,  True,  True),
    "limit": Ending(       "asked",  True,  True,  True),
    "throttle": Ending(    "asked",  True,  True,  True),
    # Limits that the caller has set speak for themselves.
    "cancelled": Ending(   "always", True,  True,  True),
    "deadline": Ending(    "always", True,  True,  True),
}  # fmt: skip


def refusing(is_asked: bool) -> frozenset[str]:
    """Return the reasons for which a caller gets an error of ours, where it has asked for those or not."""
    wanted = ("asked", "always") if is_asked else ("always",)
    return frozenset(reason for reason, ending in ENDINGS.items() if ending.refuses in wanted)


class Stop:
    """The end of a call: one of `ENDINGS`, and why in words.

    ``scope`` is the one that ended or has too little time. ``left`` is set where the wait was too long: the
    seconds that remain. ``interrupted``: the end came in the middle of a wait. ``after``: the seconds until
    what refuses the next attempt may admit one.
    """

    __slots__ = ("after", "ending", "interrupted", "left", "message", "reason", "scope")

    def __init__(
        self,
        reason: str,
        message: str,
        scope: Any = None,
        left: float | None = None,
        interrupted: bool = False,
        after: float | None = None,
    ) -> None:
        self.reason = reason
        self.ending = ENDINGS[reason]
        self.message = message
        self.scope = scope
        self.left = left
        self.interrupted = interrupted
        self.after = after


PERMANENT = Stop("permanent", "marked permanent")
_FATAL = Stop("fatal", "not worth retrying")
_USED_UP = Stop("attempts", "attempts used up")
_UNPAID = Stop("budget", "retry budget exhausted")


def scope_ended(scope: Scope, interrupted: bool = False) -> Stop:
    """The end of a call whose scope was cancelled, or has no time left."""
    if scope.cancelled:
        return Stop("cancelled", f"scope {scope.name!r} was cancelled", scope, None, interrupted)
    return Stop("deadline", f"no time left of {scope.name!r}", scope, None, interrupted)


def cancelled(scope: Scope) -> Stop | None:
    """The end of a call whose scope was cancelled, or ``None``."""
    ended = scope.ended()
    return scope_ended(ended) if ended is not None and ended.cancelled else None


class Course:
    """One call's way through its attempts: how many, since when, and where in the schedule of waits."""

    #: True for a kind of call whose `_planned_wait` knows the waits, whatever the schedule.
    plans = False

    def __init__(
        self, retry: RetryOptions, budget: Any, exchange: Any = None, breakers: tuple[Any, ...] = ()
    ) -> None:
        self.retry = retry
        #: Breakers further in that are certain to refuse the next attempt while they are open.
        self.breakers = breakers
        self.budget = budget
        #: The request of a client, which may forbid that it is sent again.
        self.exchange = exchange
        #: The number of the attempt at hand; 0 before the first.
        self.number = 0
        self.backoff_index = 0
        self.first_failure_at: float | None = None
        self.previous_wait: float | None = None
        #: What the last retry paid; and the payment, where the token comes later.
        self.spent: float | None = None
        self.payment: DeferredPayment | None = None
        #: The error of the last attempt as its caller would see it, without our marks around it.
        self.visible_error: BaseException | None = None

    def begin_again(self) -> None:
        """Be the course of another call with the same options: for a simulation, which has millions."""
        self.number = self.backoff_index = 0
        self.first_failure_at = self.previous_wait = self.spent = self.payment = None

    def next(
        self, verdict: Verdict, now: float, draw: Callable[[], float], scope: Scope | None
    ) -> float | Stop:
        """Return the seconds to wait before the next attempt, or why there is none."""
        retry, budget, after = self.retry, self.budget, verdict.after
        began = self.first_failure_at
        if began is None:
            self.first_failure_at = began = now
        if retry.reports_failures and budget is not None and (verdict.retry or verdict.kind == "pushback"):
            budget.failure(verdict.kind == "timeout")
        if not verdict.retry:
            return _FATAL
        if self.exchange is not None and (why := self.exchange.veto(self.visible_error)) is not None:
            return Stop("unrepeatable", f"not sent again: {why}")
        if self.number >= retry.most_attempts:
            return _USED_UP
        if scope is not None and (gone := cancelled(scope)) is not None:
            return gone
        if retry.plan is None and not self.plans:
            delay, index = retry.delay, self.backoff_index
            wait: float = delay(index, self.previous_wait, draw())
            self.previous_wait = wait
            self.backoff_index = index + 1
            if after is not None:
                wait = spread(wait, after, draw)
        else:
            wait = self._planned_wait(verdict, draw)
        left = retry.most_seconds - (now - began)
        if after is not None:
            if after > retry.max_hint:
                return Stop("hint", f"the server asked for {after:g} s, more than {retry.max_hint:g} s")
            if 0.0 < left < wait:
                # The server's hint counts for more than `within`, if the failure came in time.
                left = wait
        if scope is not None and (remaining := scope.remaining()) is not None and remaining <= left:
            left = remaining
            if wait >= left:
                return _too_late(wait, left, scope)
        elif wait > left:
            message = f"a wait of {wait:.3g} s would end past the {retry.within:g} s allowed for retrying"
            return Stop("within", message, None, left)
        if self.breakers:
            for breaker in self.breakers:
                shut = breaker.shut_for()
                if shut is not None and shut >= wait and (stop := _shut(breaker, shut, retry)) is not None:
                    return stop
        if budget is None:
            return wait
        try:
            paid = budget.pay(verdict.kind, left)
        except AttributeError as fault:
            if fault.obj is not budget or fault.name != "pay":
                raise
            # A budget of the user's own has `withdraw` only.
            paid = self.budget.withdraw(verdict.kind == "timeout")
        if not paid:
            return _UNPAID
        self.spent = paid
        return self._deferred(wait, paid) if type(paid) is DeferredPayment else wait

    def _planned_wait(self, verdict: Verdict, draw: Callable[[], float]) -> float:
        wait, self.previous_wait, self.backoff_index = self.retry.plan(
            self.backoff_index, self.previous_wait, verdict, draw
        )
        return seconds("backoff", "plan", wait, infinite=True)

    def _deferred(self, wait: float, paid: DeferredPayment) -> float:
        """Return the wait for a token that comes later."""
        self.payment, self.spent = paid, float(paid)
        paid.own_wait = wait
        return max(wait, paid.wait)

    def give_back(self) -> None:
        """Return the token of a wait that was interrupted."""
        payment, self.payment = self.payment, None
        if payment is not None:
            payment.give_back()


def _shut(breaker: Any, shut: float, retry: RetryOptions) -> Stop | None:
    """Return the end of a call whose next attempt ``breaker`` refuses, or None if that would be retried."""
    after = None if shut == math.inf else shut
    if retry.judge(breaker.refusal(after)).retry:
        return None
    until = "held open by hand" if after is None else f"open for another {shut:.3g} s"
    return Stop("circuit", f"{breaker.name or 'breaker'} is {until}", after=after)


def _too_late(wait: float, left: float, scope: Any) -> Stop:
    tightest = scope.tightest()
    message = f"a wait of {wait:.3g} s would outlast {tightest.name!r}, which has {max(left, 0.0):.3g} s left"
    return Stop("deadline", message, tightest, left)
