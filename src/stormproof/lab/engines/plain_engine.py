"""The exact engine's quickest way: calls that only retries, budgets and timeouts concern.

It is `rules_engine` with what such calls do not need left out. A call that succeeds at once is not an object,
and its success is not an event: it is counted before the next moment at which a count may matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappush
from math import inf
from typing import TYPE_CHECKING, Any

from ..._classify.on_clause import judge_marked
from ..._classify.verdict import Verdict
from ..._strategies.budget.budget import Budget
from ..._strategies.budget.other_systems import QuotaBudget, RateBudget, ThrottleBudget, WindowBudget
from ..model.backend import reason_of
from ..model.scenario import Scenario, depends_on_load
from ..model.timeline import stretches
from .calls import Call
from .policy_shape import TIMEOUT, Process, Shape
from .rules_engine import Direct

if TYPE_CHECKING:
    from ..results.recorder import SoFar

#: Budgets that count first successes without regard to their time.
_COUNTING = (type(None), Budget, WindowBudget, QuotaBudget, ThrottleBudget, RateBudget)

#: Reasons to stop that are reasons of the failure, too.
_ENDS = ("budget", "attempts")


def is_plain(rows: list[tuple[Shape, int, float | None]], scenario: Scenario) -> bool:
    """Return True if this way can run it: no gate, deadline or network, and no budget but built-in ones."""
    if scenario.order != "fifo" or scenario.latency != 0.0 or depends_on_load(scenario.service):
        return False
    if any(stretch.extra_s or stretch.store for stretch in stretches(scenario)):
        return False
    return not any(form.inner or form.outer or form.deadline is not None for form, _, _ in rows) and all(
        form.retry is None or type(form.retry.budget) in _COUNTING for form, _, _ in rows
    )


class PlainDirect(Direct):
    """One run of the quickest way."""

    _call = Call

    def __init__(
        self,
        rows: list[tuple[Shape, int, float | None]],
        scenario: Scenario,
        seed: int,
        progress: Callable[[SoFar], object] | None,
    ) -> None:
        super().__init__(rows, scenario, seed, progress)
        #: Successes to come, in the order of time: (time, number, what counts it, when the call began).
        self._won: deque[tuple[float, int, Callable[[], object] | None, float]] = deque()
        #: An earlier success than this one is an event; so is each of a closed loop.
        self._last_won = inf if scenario.closed_loop else 0.0
        self._offered_at, self._tried = self.recorder.offered_at.append, self.recorder.tried.append
        self._failures = self.recorder.failures
        self._received = self.backend.received.append
        self._serve = self.backend.serve

    def begin(self, now: float, group: int, client: int, key: int) -> None:
        members = self._groups[group]
        process = members.processes[client] or members.process(client)
        self._offered_at(now)
        if process.on_start is not None:
            process.on_start()
        self._attempt(process, now, now, None)

    def _attempt(self, process: Process, now: float, began: float, call: Call | None) -> None:
        """Send an attempt of the call begun at ``began``; ``call`` is None for the first one."""
        self._tried(began)
        gone_at = now + process.group.timeout
        backend = self.backend
        answer: Any
        if backend.quick and now < backend.until:
            self._received(now)
            answer = self._serve(now, gone_at, None)
            if answer == -1.0:
                answer = backend.full
        else:
            answer = backend.offer(now, process.place, gone_at, None)
        if type(answer) is float:
            self._number += 1
            if answer < gone_at:
                if call is not None:
                    heappush(self.heap, (answer, self._number, self._succeed, call))
                elif answer >= self._last_won:
                    self._last_won = answer
                    self._won.append((answer, self._number, process.on_success, began))
                else:
                    heappush(self.heap, (answer, self._number, self._succeed, Call(process, began)))
            elif gone_at < inf:
                self._give_up_at(gone_at, Call(process, began) if call is None else call)
            return
        if call is None:
            call = Call(process, began)
        if type(answer) is not tuple:
            self._failed(call, *process.group.judged(answer))
            return
        self._number += 1
        end, refusal = answer
        if end < gone_at:
            heappush(self.heap, (end, self._number, self._fail_late, (call, refusal)))
        elif gone_at < inf:
            self._give_up_at(gone_at, call)

    def _give_up_at(self, gone_at: float, call: Call) -> None:
        """Let the attempt just numbered time out. Where all clients are as patient, that is in order."""
        event = (gone_at, self._number, self._too_late, call)
        if not self.in_order or self.in_order[-1][0] <= gone_at:
            self.in_order.append(event)
        else:
            heappush(self.heap, event)

    def _count_successes(self, moment: tuple[float, float]) -> None:
        """Count the successes before ``moment``: a time, and the number of an event of that time."""
        won, done_at, began_at = self._won, self._done_at, self._began
        while won and won[0] < moment:
            time, _, count, began = won.popleft()
            if count is not None:
                count()
            done_at(time)
            began_at(began)

    def _succeed(self, call: Call) -> None:
        self._count_successes((self.clock.time, self.turn))
        super()._succeed(call)

    def _too_late(self, call: Call) -> None:
        self._failed(call, *call.process.group.judged(TIMEOUT))

    def _failed(self, call: Call, error: Exception, verdict: Verdict | None) -> None:
        retry = call.process.group.shape.retry
        if retry is None:
            self._end(call, reason_of(error), error)
            return
        now = self.clock.time
        if self._won and self._won[0][0] <= now:
            self._count_successes((now, self.turn))
        if verdict is None:
            verdict = judge_marked(retry.judge, error)
        step: Any = call.next(verdict, now, self.draw, None)
        if type(step) is float:
            self._number += 1
            heappush(self.heap, (now + step, self._number, self._again, call))
        elif step.left is None and step.reason in _ENDS and not self._closed:
            self._failures[step.reason] += 1
        else:
            self._stop(call, step, error)

    def _again(self, call: Call) -> None:
        call.number += 1
        self._attempt(call.process, self.clock.time, call.began, call)

    def _sample(self, count: int) -> None:
        self._count_successes((self.clock.time, self.turn))
        super()._sample(count)

    def _pass(self) -> None:
        super()._pass()
        self._count_successes((self.scenario.duration, inf))
