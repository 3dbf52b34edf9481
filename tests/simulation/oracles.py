"""Oracles of every run, judged from outside: by what callers, callees and subscribers saw."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import Any

import stormproof as sp
from stormproof._drivers import threads
from stormproof._runtime import interrupts

from .failures import Boom, Hooked, Slow
from .probe_strategies import Call
from .random_policies import FALLBACK, Stage, Yard

#: Sums of floats differ.
TINY = 1e-6

#: Step of a world's clock while a thread polls it.
A_LOOK_S = 2e-3


class Verdict:
    """Judges one run; ``faults`` is what was wrong with it, in words."""

    def __init__(self, scene: Any, yard: Yard, events: list[Any]) -> None:
        self.scene = scene
        self.yard = yard
        self.world = scene.world
        self.callbacks = yard.callbacks
        self.faults: list[str] = self.world.faults
        self.counts = Counter((event.operation, type(event).__name__) for event in events)

    def judge(self) -> None:
        """Everything that can be judged once all calls have ended."""
        for call in self.scene.calls:
            self._ended(call)
            self._counted(call)
            self._in_time(call)
        for stage in self.scene.stages:
            self._check_events(stage)
        self._budgets()
        for limiter, toll in self.yard.limiters:
            if limiter.store is None:
                toll.judge(self.callbacks.slow_s, self.scene.jumps)
        if self.callbacks.raised != self.callbacks.reported:
            self.faults.append(
                f"subscribers raised {self.callbacks.raised} times, {self.callbacks.reported} were reported"
            )

    # One call.

    def _ended(self, call: Call) -> None:
        if call.ends != 1:
            self.faults.append(f"{call!r} ended {call.ends} times")
        elif call.error is None:
            if call.value not in call.answers and not (call.stage.fallback and call.value == FALLBACK):
                self.faults.append(f"{call!r} returned {call.value!r}, which no attempt returned")
        elif not self._documented(call, call.error):
            self.faults.append(f"{call!r} ended with {call.error!r}, which nothing explains")

    def _documented(self, call: Call, error: BaseException) -> bool:
        stage = call.stage
        given = [error for answer in call.answers for error in _seen(answer)]
        if any(error is one for one in given):
            return True
        if isinstance(error, asyncio.CancelledError):
            return call.is_async and call.task_cancelled
        if type(error) in (Boom, Slow):
            return self.scene.chaotic and not error.args
        if isinstance(error, Hooked):
            return bool(self.callbacks._raise)
        if isinstance(error, sp.Cancelled):
            return call.scope_cancelled
        if isinstance(error, sp.DeadlineExceeded):
            within = stage.retry is not None and stage.retry.within is not None
            return within or stage.has_deadline or call.limit_s is not None
        if isinstance(error, sp.AttemptTimeout):
            return bool(stage.timeout)
        if isinstance(error, sp.BudgetExhausted):
            return stage.retry is not None and stage.budget is not None
        return type(error) in stage.refusals

    def _counted(self, call: Call) -> None:
        most = 1 if call.off else call.stage.most
        if len(call.invoked_s) > most:
            self.faults.append(
                f"{call!r} called the function {len(call.invoked_s)} times, {most:g} are allowed"
            )

    def _in_time(self, call: Call) -> None:
        limits = [limit for limit in (call.limit_s, call.stage.limit_s) if limit is not None]
        if not limits or call.off or call.ended_s is None:
            return
        slack = self.callbacks.slow_s + self.scene.jumped_back_s + A_LOOK_S
        end = call.began_s + min(limits) + slack
        late = [at for at in call.invoked_s if at > end]
        if late:
            self.faults.append(f"{call!r} called the function {late[0] - end:g} s after its deadline")
        last = end + 2 * self.scene.cleanup_s if call.is_async else max(end, call.last_end_s + slack)
        if call.ended_s > last:
            self.faults.append(f"{call!r} ended {call.ended_s - end:g} s after its deadline")

    # All calls together.

    def _check_events(self, stage: Stage) -> None:
        """Retrying, Succeeded and GaveUp together count the attempts that ended by themselves."""
        if stage.attempts is None:
            return
        reported = sum(self.counts[stage.name, kind] for kind in ("Retrying", "Succeeded", "GaveUp"))
        ended = stage.attempts.returned + stage.attempts.failed
        unjudged = 0 if stage.hook is None else stage.hook.raised
        if not ended - unjudged <= reported <= ended:
            self.faults.append(f"{stage.name}: {reported} events of {ended} attempts ({unjudged} unjudged)")

    def _budgets(self) -> None:
        for budget in self.yard.budgets:
            if not isinstance(budget, sp.Budget) or budget.store is not None:
                continue
            users = [stage for stage in self.scene.stages if stage.budget is budget]
            spent = sum(self.counts[stage.name, kind] for stage in users for kind in ("Retrying", "Hedged"))
            earned = sum(self.counts[stage.name, "Succeeded"] for stage in users)
            most = math.floor(budget.ratio * earned + TINY) + budget.burst + 1
            if spent > most:
                self.faults.append(f"{spent} retries and hedges after {earned} successes, {most:g} allowed")
            if not -TINY <= budget.balance <= budget.burst + budget.ratio * earned + TINY:
                self.faults.append(f"a budget holds {budget.balance:g} after {earned} successes")

    # When all activity has ended.

    def at_rest(self) -> None:
        """Everything that was held has been given back."""
        rooms = [room for room, _ in self.yard.bulkheads]
        rooms += [keyed[key] for keyed in self.yard.keyed_rooms for key in keyed]
        for room in rooms:
            if room.in_use or room.queued:
                self.faults.append(f"a bulkhead still has {room.in_use} inside, {room.queued} waiting")
        if self.yard.adaptive.in_use:
            self.faults.append(f"the adaptive limit still counts {self.yard.adaptive.in_use}")
        for limiter, _ in self.yard.limiters:
            if limiter.store is None and not self.scene.jumps and limiter.tokens() < -TINY:
                self.faults.append(f"a limiter owes {-limiter.tokens():g}, and no call waits for it")
        for breaker, _ in self.yard.breakers:
            held = breaker._live.circuit._waiting
            if breaker.state == "half_open" and breaker.probe_timeout is None and held:
                self.faults.append(f"a breaker holds {len(held)} places for probes that have ended")
            if breaker._live.running:
                self.faults.append("a breaker still counts calls as running")

    def at_the_end(self) -> None:
        """Long after: no thread is left, and no caller is refused for ever."""
        left = [str(actor) for actor in self.world.actors[1:] if not actor.done]
        if left or threads._pool.idle or threads._pool._size:
            self.faults.append(f"threads left: {', '.join(left) or threads._pool._size}")
        if interrupts._sleepers:
            self.faults.append(f"{len(interrupts._sleepers)} sleepers left")
        for breaker, _ in self.yard.breakers:
            try:
                breaker.admit().cancel()
            except sp.CircuitOpen as refusal:
                self.faults.append(f"a breaker still refuses: {refusal}")


def _seen(answer: Any) -> list[BaseException]:
    if isinstance(answer, sp.Permanent):
        return [answer, answer.error]
    if isinstance(answer, sp.RetryAfter) and answer.cause is not None:
        return [answer, answer.cause]
    return [answer] if isinstance(answer, BaseException) else []
