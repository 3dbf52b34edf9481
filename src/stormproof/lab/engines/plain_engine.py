"""The exact engine's quickest way: one class of clients, which only retries, budgets and timeouts concern.

It is `rules_engine` with what such calls do not need left out. A client is an index into lists. Its budget is
made at its first failure, as of its first call, with what was counted for it until then. A call that succeeds
at once is not an object, and its success is not an event: it is recorded ahead of its time, and counted
before the next moment at which a count may matter.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from ..._classify.on_clause import judge_marked
from ..._strategies.budget.budget import Budget
from ..._strategies.budget.other_systems import QuotaBudget, RateBudget, ThrottleBudget, WindowBudget
from ..._strategies.retry.retry import ticks
from ..._strategies.retry.rules.decision import Course, Stop
from ..model import arrivals
from ..model.backend import Refusal, reason_of
from ..model.scenario import Scenario, depends_on_load
from ..model.timeline import stretches
from .engine import ASKED, Engine, Event, no_collection
from .policy_shape import TIMEOUT, Group, Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._primitives.errors import AttemptTimeout
    from ..._strategies.budget.allowance import Allowance, BudgetState
    from ..results.recorder import SoFar

#: Budgets that count first successes, or starts, without regard to their time.
_COUNTING = (type(None), Budget, WindowBudget, QuotaBudget, ThrottleBudget, RateBudget)


def is_plain(rows: list[tuple[Shape, int, float | None]], scenario: Scenario) -> bool:
    """Return True if this way can run it: no gate, deadline or network, and no budget but built-in ones."""
    if len(rows) > 1 or scenario.closed_loop or scenario.latency != 0.0:
        return False
    if scenario.order != "fifo" or depends_on_load(scenario.service):
        return False
    if any(stretch.extra_s or stretch.store for stretch in stretches(scenario)):
        return False
    form = rows[0][0]
    gated = form.inner or form.outer or form.deadline is not None
    return not gated and (form.retry is None or type(form.retry.budget) in _COUNTING)


class PlainCall(Course):
    """A call that did not succeed at once."""

    __slots__ = ("began", "client")

    began: float
    client: int


class PlainDirect(Engine):
    """One run of the quickest way."""

    def __init__(
        self,
        rows: list[tuple[Shape, int, float | None]],
        scenario: Scenario,
        seed: int,
        progress: Callable[[SoFar], object] | None,
    ) -> None:
        super().__init__(scenario, seed, progress)
        self.recorder.tries_every_call = True
        group = self._group = Group(0, *rows[0], self)
        self._clients, self._timeout, self._retry = group.clients, group.timeout, group.shape.retry
        budget = None if self._retry is None else self._retry.budget
        #: True if all clients have one budget: that of client 0.
        self._is_shared = scenario.fleet or getattr(budget, "store", None) is not None
        #: One object in place of all budgets: it assumes the state of each as it is needed.
        self._budget: Allowance | None = group.make_budget()
        on_start, on_success = ticks(budget)
        self._counts_starts, self._counts_successes = on_start is not None, on_success is not None
        #: The state of each budget; what was counted for it since it was settled; its client's first call.
        self._states: list[BudgetState | None] = [None] * self._clients
        self._counts = [0] * self._clients
        self._first_calls = np.full(self._clients, np.nan)
        #: Calls that have ended, to be used again.
        self._spare: list[PlainCall] = []
        #: Successes recorded and not counted yet: when, the number, and the client, or the call if that made
        #: several attempts.
        self._ahead: deque[tuple[float, int, int | PlainCall]] = deque()
        self._judged = group.judgements
        self._failures = self.recorder.failures
        self._done_at, self._began = self.recorder.done_at.append, self.recorder.began.append
        #: True if the backend treats clients differently.
        self._is_parted = any(stretch.parted for stretch in self.backend.row)
        #: Events that were put in the order of their times, which takes no heap.
        self._in_order: deque[Event] = deque()
        #: The number of the event that happens; inf: a call begins, after all events of this moment.
        self._turn = inf
        #: An earlier success than this one is an event.
        self._last_done = 0.0

    # Time.

    def _pass(self) -> None:
        self.at(inf, self._sample, 0)
        offered_at = self.recorder.offered_at
        with no_collection():
            for times, clients in arrivals.arrays(self.scenario, self.seed):
                offered_at.frombytes(times.tobytes())
                if self._budget is not None:
                    self._note_first_calls(times, clients)
                self._begin_calls(times.tolist(), clients.tolist())
            self._run_events(self.scenario.duration)
            self._count_successes(self.scenario.duration, inf)

    def _note_first_calls(self, times: arrivals.Floats, clients: arrivals.Ints) -> None:
        fresh = np.isnan(self._first_calls[clients])
        # Of several values for one place, the last one stays.
        self._first_calls[clients[fresh][::-1]] = times[fresh][::-1]

    def _begin_calls(self, times: list[float], clients: list[int]) -> None:
        """Let calls begin. What is due happens before a call that begins then."""
        heap, in_order, clock, offer = self.heap, self._in_order, self.clock, self.backend.offer
        timeout, size, is_parted = self._timeout, self._clients, self._is_parted
        done_at, began, ahead = self._done_at, self._began, self._ahead.append
        starts = self._counts if self._counts_starts else None
        for now, client in zip(times, clients, strict=True):
            if heap[0][0] <= now or (in_order and in_order[0][0] <= now):
                self._run_events(now)
            clock.time = now
            if starts is not None:
                starts[0 if self._is_shared else client] += 1
            gone_at = now + timeout
            answer = offer(now, (client + 0.5) / size if is_parted else 0.0, gone_at, None)
            if type(answer) is float and self._last_done <= answer < gone_at:
                # `_succeed_at`, written out: this is the way of most calls.
                self._number += 1
                self._last_done = answer
                done_at(answer)
                began(now)
                ahead((answer, self._number, client))
            elif type(answer) is Refusal:
                self._failed(self._call(client, now), answer)
            else:
                self._answered(self._call(client, now), gone_at, answer)

    def _run_events(self, until: float) -> None:
        """Run the events that are due up to ``until``."""
        heap, in_order, clock = self.heap, self._in_order, self.clock
        while True:
            event = heap[0]
            if in_order and in_order[0] < event:
                event = in_order[0]
                if event[0] > until:
                    break
                in_order.popleft()
            else:
                if event[0] > until:
                    break
                heappop(heap)
            clock.time, self._turn, act, what = event
            act(what)
        self._turn = inf

    # The way of a call: an attempt, then a success or a failure; a failure leads to another attempt, or ends.

    def _again(self, call: PlainCall) -> None:
        call.number += 1
        self.recorder.tried.append(call.began)
        now = self.clock.time
        gone_at = now + self._timeout
        place = (call.client + 0.5) / self._clients if self._is_parted else 0.0
        self._answered(call, gone_at, self.backend.offer(now, place, gone_at, None))

    def _answered(
        self, call: PlainCall, gone_at: float, answer: float | Refusal | tuple[float, Refusal] | None
    ) -> None:
        """The backend has said when, or how, it answers an attempt whose caller is gone at ``gone_at``."""
        if isinstance(answer, float):
            self._number += 1
            if answer >= gone_at:
                self._time_out_at(gone_at, call)
            elif answer >= self._last_done:
                self._succeed_at(answer, call)
            else:
                heappush(self.heap, (answer, self._number, self._succeed_late, call))
        elif isinstance(answer, tuple):
            self._number += 1
            end, refusal = answer
            if end < gone_at:
                heappush(self.heap, (end, self._number, self._fail_late, (call, refusal)))
            else:
                self._time_out_at(gone_at, call)
        elif isinstance(answer, Refusal):
            self._failed(call, answer)

    def _succeed_at(self, when: float, call: PlainCall) -> None:
        """Record the success of the attempt just numbered, no earlier than any other, ahead of its time."""
        self._last_done = when
        self._done_at(when)
        self._began(call.began)
        self._ahead.append((when, self._number, call))

    def _call(self, client: int, began: float) -> PlainCall:
        """Return a call whose first attempt has been sent."""
        if self._spare:
            call = self._spare.pop()
            call.begin_again()
        else:
            call = PlainCall.__new__(PlainCall)
            if self._retry is not None:
                Course.__init__(call, self._retry, self._budget)
        call.client, call.began, call.number = client, began, 1
        return call

    def _time_out_at(self, gone_at: float, call: PlainCall) -> None:
        """Let the attempt just numbered time out. All clients have one timeout: that is mostly in order."""
        if gone_at == inf:
            return
        event = (gone_at, self._number, self._too_late, call)
        if not self._in_order or self._in_order[-1][0] <= gone_at:
            self._in_order.append(event)
        else:
            heappush(self.heap, event)

    def _too_late(self, call: PlainCall) -> None:
        self._failed(call, TIMEOUT)

    def _fail_late(self, what: tuple[PlainCall, Refusal]) -> None:
        self._failed(*what)

    def _succeed_late(self, call: PlainCall) -> None:
        self.recorder.succeed_late(self.clock.time, call.began)
        self._count_success(call)

    def _failed(self, call: PlainCall, failure: Refusal | AttemptTimeout) -> None:
        error, verdict = self._judged.get(failure) or self._group.judged(failure)
        retry, budget, owner = self._retry, self._budget, 0
        if retry is None:
            self._end(reason_of(error))
            return
        if budget is not None:
            owner = self._assume_budget(budget, call.client)
            self._counts[owner] = 0
        now = self.clock.time
        if verdict is None:
            verdict = judge_marked(retry.judge, error)
        step = call.next(verdict, now, self.draw, None)
        if not isinstance(step, Stop):
            self._number += 1
            heappush(self.heap, (now + step, self._number, self._again, call))
            return
        if budget is not None and step.reason != "budget":
            # It may not have been asked.
            self._counts[owner] = budget.pending()
        self._spare.append(call)
        reason = reason_of(error) if step.reason == "fatal" else step.reason
        if step.left is not None and retry.late == "clip":
            self.at(now + max(0.0, step.left), self._end, reason)
        else:
            self._failures[reason] += 1

    def _end(self, reason: str) -> None:
        self._failures[reason] += 1

    # Budgets.

    def _assume_budget(self, budget: Allowance, client: int) -> int:
        """Let ``budget`` be that of ``client``, with all that was counted until now, and return its index."""
        ahead, now = self._ahead, self.clock.time
        if ahead and ahead[0][0] <= now:
            self._count_successes(now, self._turn)
        owner = 0 if self._is_shared else client
        budget.assume(self._states[owner] or self._new_state(budget, owner), self._counts[owner])
        return owner

    def _new_state(self, budget: Allowance, owner: int) -> BudgetState:
        """Return the state of a budget that was made at the first call of its client."""
        first = np.nanmin(self._first_calls) if self._is_shared else self._first_calls[owner]
        now, self.clock.time = self.clock.time, float(first)
        state = self._states[owner] = budget.new_state()
        self.clock.time = now
        return state

    def _count_successes(self, now: float, turn: float) -> None:
        """Count the successes before ``now``, and those of ``now`` with a lower number than ``turn``."""
        ahead, due = self._ahead, (now, turn)
        counts, is_shared, counts_successes = self._counts, self._is_shared, self._counts_successes
        while ahead and ahead[0] < due:
            winner = ahead.popleft()[2]
            if not isinstance(winner, int):
                self._count_success(winner)
            elif counts_successes:
                counts[0 if is_shared else winner] += 1

    def _count_success(self, call: PlainCall) -> None:
        """Count the success of a call that made several attempts."""
        budget = self._budget
        if budget is not None:
            owner = self._assume_budget(budget, call.client)
            budget.success(call.spent)
            self._counts[owner] = budget.pending()
        self._spare.append(call)

    def _balances(self, now: float) -> list[float]:
        budget, balances = self._budget, []
        if budget is not None:
            stride = max(1, self._clients // ASKED)
            called = np.flatnonzero(self._first_calls[::stride] < now) * stride
            for client in called.tolist():
                self._assume_budget(budget, client)
                balances.append(budget.balance)
        return balances
