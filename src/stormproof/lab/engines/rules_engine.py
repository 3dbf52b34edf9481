"""The exact engine's direct way: a heap of events that calls the policy's own rules directly.

No task, no coroutine: a failed attempt asks `Course.next`, the very rule that a real call asks, when to
try again. It can run a pipeline of [Deadline] [gates] [Retry] [gates, Timeout]; `task_engine` runs the rest,
and `plain_engine` is a quicker way for a pipeline without gates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from heapq import heappush
from math import inf
from typing import TYPE_CHECKING, Any

from ..._classify.on_clause import judge_marked
from ..._classify.verdict import Verdict
from ..._context.deadlines import Scope
from ..._primitives.errors import BudgetExhausted, CircuitOpen, DeadlineExceeded
from ..._strategies.retry.rules.decision import Course
from ..model.backend import Refusal, reason_of
from ..model.scenario import Scenario
from .engine import Engine, no_collection
from .gates import admitted, all_failed, all_passed
from .policy_shape import TIMEOUT, Group, Process, Shape

if TYPE_CHECKING:
    from ..results.recorder import SoFar

#: What gates around the retries get to see where a refusal ends the call.
_REFUSALS: dict[str, Exception] = {
    "budget": BudgetExhausted(),
    "deadline": DeadlineExceeded(),
    "within": DeadlineExceeded(scope="within"),
}


class Call(Course):
    """One call under way: its course, the process that makes it, and whatever else may concern it.

    Without a `Retry` it has no course, since its first failure is its end.
    """

    __slots__ = ("began", "held", "outer", "process", "scope", "tries", "waiting")

    def __init__(self, process: Process, began: float, key: int) -> None:
        self.process = process
        self.began = began
        budget, retry = process.budget, process.group.shape.retry
        if retry is not None:
            if process.keyed:
                budget = budget.pick((key,), {})
            super().__init__(retry, budget, None, process.certain)
            self.number = 1
        self.scope: Scope | None = None
        #: What the gates want to be settled with.
        self.outer: list[Any] | None = None
        self.held: list[Any] | None = None
        self.tries = 0
        #: The number of the attempt whose answer is awaited; 0: none.
        self.waiting = 0


class Direct(Engine):
    """One run of the direct way."""

    def __init__(
        self,
        rows: list[tuple[Shape, int, float | None]],
        scenario: Scenario,
        seed: int,
        progress: Callable[[SoFar], object] | None,
    ) -> None:
        super().__init__(scenario, seed, progress)
        self.groups = self._groups = [Group(index, *row, self) for index, row in enumerate(rows)]
        #: True if an attempt's end is known when it is sent.
        self._known = self.near and not self.backend.evented
        self._closed = scenario.closed_loop
        self._done_at, self._began = self.recorder.done_at.append, self.recorder.began.append

    def _pass(self) -> None:
        with no_collection():
            super()._pass()

    # The way of a call: begin, send, then succeed or fail; a failure sends again, or ends.

    def begin(self, now: float, group: int, client: int, key: int) -> None:
        self.recorder.offered_at.append(now)
        members = self._groups[group]
        process = members.processes[client] or members.process(client)
        call = Call(process, now, key)
        form = members.shape
        if form.deadline is not None and not self._bound(call, form.deadline):
            return
        if process.outer and not self._admit_call(call, now):
            return
        if process.keyed:
            call.budget.started()
        elif process.on_start is not None:
            process.on_start()
        self._send(call)

    def _bound(self, call: Call, seconds: float) -> bool:
        """Begin the call's deadline: False if that leaves no time at all."""
        if seconds == 0.0:
            self._end(call, "deadline")
            return False
        call.scope = Scope(seconds, "call", self.clock)
        call.scope.begin(call.began)
        return True

    def _admit_call(self, call: Call, now: float) -> bool:
        call.outer, refusal = admitted(call.process.outer, now)
        if refusal is not None:
            self._end(call, type(refusal).__name__)
        return refusal is None

    def _send(self, call: Call) -> None:
        now = self.clock.time
        process = call.process
        if process.inner:
            call.held, refusal = admitted(process.inner, now)
            if refusal is not None:
                self._failed(call, refusal, None)
                return
        self.recorder.tried.append(call.began)
        gone_at = now + process.group.timeout
        if call.scope is not None:
            gone_at = min(gone_at, call.began + process.group.shape.deadline)  # type: ignore[operator]
        if not self._known:
            self._send_far(call, gone_at)
            return
        answer: Any = self.backend.offer(now, process.place, gone_at, None)
        if type(answer) is float:
            self._number += 1
            if answer < gone_at:
                heappush(self.heap, (answer, self._number, self._succeed, call))
            elif gone_at < inf:
                heappush(self.heap, (gone_at, self._number, self._too_late, call))
        elif type(answer) is tuple:
            self._number += 1
            end, refusal = answer
            if end < gone_at:
                heappush(self.heap, (end, self._number, self._fail_late, (call, refusal)))
            elif gone_at < inf:
                heappush(self.heap, (gone_at, self._number, self._too_late, call))
        else:
            self._refused(call, answer)

    # Over a network that takes time, or to a backend that answers later.

    def _send_far(self, call: Call, gone_at: float) -> None:
        call.tries += 1
        call.waiting = number = call.tries
        if gone_at < inf:
            self.at(gone_at, self._give_up, (call, number))
        self.send(call.process.place, gone_at, partial(self._answered, call, number))

    def _answered(self, call: Call, number: int, refusal: Refusal | None) -> None:
        if call.waiting != number:
            return
        call.waiting = 0
        if refusal is None:
            self._succeed(call)
        else:
            self._refused(call, refusal)

    def _give_up(self, what: tuple[Call, int]) -> None:
        call, number = what
        if call.waiting == number:
            call.waiting = 0
            self._too_late(call)

    # Outcomes.

    def _succeed(self, call: Call) -> None:
        process = call.process
        if call.held is not None:
            all_passed(process.inner, call.held)
        if process.budget is not None:
            call.budget.success(call.spent)
        if call.outer is not None:
            all_passed(process.outer, call.outer)
        self._done_at(self.clock.time)
        self._began(call.began)
        if self._closed:
            self.ended(process.group.index, process.index)

    def _fail_late(self, what: tuple[Call, Refusal]) -> None:
        self._refused(*what)

    def _refused(self, call: Call, refusal: Refusal) -> None:
        self._failed(call, *call.process.group.judged(refusal))

    def _too_late(self, call: Call) -> None:
        limit = call.process.group.shape.deadline
        if limit is not None and self.clock.time >= call.began + limit:
            # The deadline cancels the attempt: it counts neither as success nor as failure.
            if call.held is not None:
                all_failed(call.process.inner, call.held, asyncio.CancelledError())
            self._end(call, "deadline")
            return
        self._failed(call, *call.process.group.judged(TIMEOUT))

    def _failed(self, call: Call, error: Exception, verdict: Verdict | None) -> None:
        group = call.process.group
        if call.held is not None:
            all_failed(call.process.inner, call.held, error)
            call.held = None
        retry = group.shape.retry
        if retry is None:
            self._end(call, reason_of(error), error)
            return
        if verdict is None:
            verdict = judge_marked(retry.judge, error)
        now = self.clock.time
        step = call.next(verdict, now, self.draw, call.scope)
        if type(step) is float:
            self._number += 1
            heappush(self.heap, (now + step, self._number, self._again, call))
        else:
            self._stop(call, step, error)

    def _stop(self, call: Call, stop: Any, error: Exception) -> None:
        retry = call.process.group.shape.retry
        reason = reason_of(error) if stop.reason == "fatal" else stop.reason
        if reason == "circuit":
            # As where the breaker itself refuses.
            reason = CircuitOpen.__name__
        if stop.reason in _REFUSALS and (
            stop.reason == "deadline" or (retry is not None and retry.raises == "refusal")
        ):
            error = _REFUSALS[stop.reason]
        if stop.left is not None and retry is not None and retry.late == "clip":
            self.at(self.clock.time + max(0.0, stop.left), self._end_late, (call, reason, error))
        else:
            self._end(call, reason, error)

    def _end_late(self, what: tuple[Call, str, Exception]) -> None:
        self._end(*what)

    def _again(self, call: Call) -> None:
        scope = call.scope
        if scope is not None and scope.ended() is not None:
            call.give_back()
            self._end(call, "deadline")
            return
        call.number += 1
        self._send(call)

    def _end(self, call: Call, reason: str, error: Exception | None = None) -> None:
        """The call has failed."""
        process = call.process
        if call.outer is not None:
            all_failed(process.outer, call.outer, error or asyncio.CancelledError())
        self.recorder.failures[reason] += 1
        self.ended(process.group.index, process.index)
