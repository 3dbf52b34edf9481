"""The callers and the callee of a world, and what befalls them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import stormproof as sp
from stormproof._context.attempts import running
from stormproof._context.deadlines import ambient

from .failures import Bang, Boom, Slow
from .probe_strategies import Call
from .random_policies import Stage
from .world import Over, World

#: Few, so that things often end in the same tick.
TIMES_S = (0.0, 0.0, 0.05, 0.05, 0.1, 0.1, 0.25, 0.5, 1.0, 4.0)


class Scene:
    """All callers, and their callees."""

    def __init__(self, world: World, stages: list[Stage]) -> None:
        rng = world.rng
        self.world = world
        self.stages = stages
        self.calls: list[Call] = []
        self.log: list[str] = []
        self.failing = rng.choice([0.0, 0.3, 0.6, 0.9])
        self.cancelling = rng.choice([0.0, 0.1, 0.4])
        self.chaotic = rng.random() < 0.5
        #: The longest that a cancelled callee takes to clean up.
        self.cleanup_s = rng.choice([0.0, 0.0, 0.05])
        self.callers = 0
        self.jumped_back_s = 0.0
        self.jumps = 0

    def record(self, text: str) -> None:
        self.log.append(f"{self.world.now_s:.6f} {text}")

    # The callee.

    def _begin(self, call: Call) -> tuple[float, Any, int]:
        rng = self.world.rng
        call.invoked_s.append(self.world.now_s)
        call.running += 1
        number = len(call.invoked_s)
        self.record(f"{call!r}: invocation {number}")
        outcome: Any = f"answer {call.number}.{number}"
        if rng.random() < self.failing:
            kind = rng.randrange(8)
            error = (Boom, Boom, Boom, Slow, Bang, Boom, Boom, Boom)[kind](f"{call.number}.{number}")
            outcome = error
            if kind == 5:
                outcome = sp.Permanent(error)
            elif kind == 6:
                outcome = sp.RetryAfter(rng.choice([0, 0.1, 1]), error)
        return rng.choice(TIMES_S), outcome, number

    def _end(self, call: Call, number: int, outcome: Any) -> Any:
        self.record(f"{call!r}: invocation {number} comes to {_text(outcome)}")
        call.answers.append(outcome)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _gone(self, call: Call) -> None:
        call.running -= 1
        call.last_end_s = self.world.now_s

    def work(self, call: Call) -> Any:
        """The callee of threads: nothing interrupts it."""
        seconds, outcome, number = self._begin(call)
        try:
            self.world.sleep(seconds)
            return self._end(call, number, outcome)
        finally:
            self._gone(call)

    async def work_async(self, call: Call) -> Any:
        """The callee of tasks: honours cancellation, perhaps after some cleaning up."""
        seconds, outcome, number = self._begin(call)
        try:
            try:
                if seconds or self.world.rng.random() < 0.5:
                    await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                self.record(f"{call!r}: invocation {number} is cancelled")
                if self.cleanup_s:
                    await asyncio.sleep(self.cleanup_s)
                raise
            if self.world.rng.random() < self.cancelling / 8:
                # The worst moment: the answer is there, and the call is given up in the same tick.
                call.task_cancelled = True
                call.task.cancel()
            return self._end(call, number, outcome)
        finally:
            self._gone(call)

    # The callers.

    def _new_call(self, is_async: bool) -> Call:
        call = Call(len(self.calls), self.world.rng.choice(self.stages), is_async, self.world.now_s)
        self.calls.append(call)
        return call

    @contextlib.contextmanager
    def _around(self, call: Call) -> Iterator[Any]:
        """Return the surroundings of a call: a deadline, a scope that may be cancelled, chaos, nothing."""
        rng = self.world.rng
        with contextlib.ExitStack() as stack:
            if self.chaotic and rng.random() < 0.5:
                stack.enter_context(sp.chaos())
            if rng.random() < 0.2:
                call.limit_s = rng.choice([0.1, 0.5, 2])
                stack.enter_context(sp.deadline(call.limit_s))
            if rng.random() < 0.05:
                call.off = True
                stack.enter_context(sp.disabled())
            scope = None
            if rng.random() < self.cancelling:
                scope = stack.enter_context(sp.deadline(None))
            yield scope

    def _ended(self, call: Call, error: BaseException | None, value: Any = None) -> None:
        call.error, call.value = error, value
        call.ended_s = self.world.now_s
        call.ends += 1
        self.record(f"{call!r} ends with {_text(value if error is None else error)}")
        if call.is_async and call.running:
            self.world.faults.append(f"{call!r} has ended, and {call.running} of its attempts still run")

    def caller(self) -> None:
        """A thread that makes a few calls."""
        rng = self.world.rng
        for _ in range(rng.randint(1, 7)):
            self.world.sleep(rng.choice(TIMES_S[:8]))
            call = self._new_call(False)
            value, error = None, None
            try:
                with self._around(call) as scope:
                    if scope is not None:
                        self._cancel_later(call, scope)
                    value = self._call(call)
            except Over:
                raise
            except BaseException as fault:
                error = fault
            self._ended(call, error, value)
            self._check_context(call)
        self.callers -= 1

    def _call(self, call: Call) -> Any:
        if self.world.rng.random() < 0.3:
            return call.stage.policy.call(self.work, call)
        return call.stage.decorated(call)

    def _cancel_later(self, call: Call, scope: Any) -> None:
        """Another thread gives the call up."""
        delay = self.world.rng.choice(TIMES_S)

        def cancel() -> None:
            self.world.sleep(delay)
            call.scope_cancelled = True
            scope.cancel()

        self.world.start(cancel, "canceller", daemon=False)

    async def task(self) -> None:
        """A task that makes a few calls, each in a task of its own."""
        rng = self.world.rng
        loop = asyncio.get_running_loop()
        for _ in range(rng.randint(1, 7)):
            await asyncio.sleep(rng.choice(TIMES_S[:8]))
            call = self._new_call(True)
            call.task = asyncio.ensure_future(self._async_call(call))
            timer = None
            if rng.random() < self.cancelling:
                timer = loop.call_later(rng.choice(TIMES_S), self._cancel_task, call)
            await asyncio.wait([call.task])
            if timer is not None:
                timer.cancel()
            if call.task.cancelled():
                self._ended(call, asyncio.CancelledError())
            else:
                error = call.task.exception()
                self._ended(call, error, None if error is not None else call.task.result())
            call.task = None
        self.callers -= 1

    def _cancel_task(self, call: Call) -> None:
        call.task_cancelled = True
        call.task.cancel()

    async def _async_call(self, call: Call) -> Any:
        with self._around(call) as scope:
            if scope is not None:
                self._cancel_later(call, scope)
            if self.world.rng.random() < 0.3:
                value = await call.stage.policy.acall(self.work_async, call)
            else:
                value = await call.stage.decorated_async(call)
        self._check_context(call)
        return value

    def _check_context(self, call: Call) -> None:
        if ambient() is not None or running.get() is not None:
            self.world.faults.append(f"{call!r} has left a scope or an attempt behind")

    # What befalls all of them.

    async def gremlin(self, jumps: bool, store: Any) -> None:
        """Sets the clock, breaks the callee and the store, until no caller is left."""
        rng = self.world.rng
        # No longer than calls can take: a caller that still waits then must find that nothing is to come.
        end = self.world.now_s + 100.0
        while self.callers and self.world.now_s < end:
            await asyncio.sleep(rng.choice((0.1, 0.3, 0.5)))
            if jumps and self.jumps < 3 and rng.random() < 0.3:
                by = rng.choice([-3600.0, -0.3, 0.3, 3600.0, 3e8])
                self.jumps += 1
                self.jumped_back_s += max(0.0, -by)
                # A wait on this clock may take as much longer as it was set back.
                self.world.stall_s += max(0.0, -by)
                self.world.offset_s += by
                self.record(f"the clock is set by {by:g} s")
            if rng.random() < 0.3:
                # It breaks, or recovers.
                self.failing = rng.choice([0.0, 0.1, 0.9])
                self.record(f"{self.failing:.0%} fail from now on")
            if store is not None and rng.random() < 0.4:
                self.record(f"the store {store.change()}")
        if store is not None:
            # With on_failure="closed" a queue without a limit waits for as long as the store is away.
            store.mood = "well"

    def decorate(self) -> None:
        """Make of every policy a function for threads and one for tasks."""

        def work(call: Call) -> Any:
            return self.work(call)

        async def work_async(call: Call) -> Any:
            return await self.work_async(call)

        for stage in self.stages:
            stage.decorated = stage.policy(work)  # type: ignore[attr-defined]
            stage.decorated_async = stage.policy(work_async)  # type: ignore[attr-defined]


def _text(outcome: Any) -> str:
    return f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, BaseException) else str(outcome)
