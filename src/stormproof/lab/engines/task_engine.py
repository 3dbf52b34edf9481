"""The exact engine's general way: every call is a task that runs the compiled policy, in virtual time.

Slower than `rules_engine`, but it runs any policy: hedges, queues, adaptive limits, fallbacks, hooks of the
user's own, and services that call services.
"""

from __future__ import annotations

import asyncio
import heapq
import warnings
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from ..._classify.exhaustion import Mark, exhausted_by, mark
from ..._classify.stops import REFUSALS, stopped
from ..._context import deadlines
from ..._events import bus
from ..._policy.checks import PolicyWarning
from ..._policy.policy import Policy
from ..._primitives.errors import RetryAfter, StormproofError
from ..._strategies.breaker.breaker import Breaker
from ..._strategies.hedge.hedge import Hedge
from ..model.backend import BackendError, Refusal, reason_of
from ..model.clients_and_layers import Layer
from ..model.scenario import Scenario
from ..model.service import FirstCome, Work
from ..model.timeline import Capacity, Stretch
from .engine import Engine, Reply
from .event_loop import SimulatedLoop
from .processes import limited

if TYPE_CHECKING:
    from ..results.recorder import Raw, SoFar

    Service = Callable[[int, float], Coroutine[Any, Any, None]]


#: When the call began that is at work here, whichever service that is.
_began: ContextVar[float] = ContextVar("_began")


class DrivenProcess:
    """One process: the policy with a state of its own, compiled around the call that it makes."""

    __slots__ = ("breakers", "budget", "call")

    def __init__(self, row: tuple[Any, ...], engine: Engine, function: object) -> None:
        with warnings.catch_warnings():
            # The original has already given them.
            warnings.simplefilter("ignore", PolicyWarning)
            policy = Policy(*engine.copier.strategies(row), clock=engine.clock, rng=engine.draw)
        hedges = (part.budget_in(policy) for part in policy.strategies if isinstance(part, Hedge))
        self.budget: object = policy.retry_budget or next(hedges, None)
        self.breakers = [part for part in policy.strategies if isinstance(part, Breaker)]
        self.call: Any = policy(function)


class DrivenGroup:
    """A class of clients, or the instances of a layer: one policy, a process each."""

    __slots__ = ("_connections", "_engine", "_next", "_row", "processes")

    def __init__(
        self,
        engine: Engine,
        row: tuple[Any, ...],
        size: int,
        following: Service,
        connections: int | None = None,
    ) -> None:
        self._engine = engine
        self._connections = connections
        self._row = row
        self._next = following
        self.processes: list[DrivenProcess | None] = [None] * size

    def process(self, index: int) -> DrivenProcess:
        process = self.processes[index]
        if process is None:
            place = (index + 0.5) / len(self.processes)
            following = self._next
            pool = None if self._connections is None else asyncio.Semaphore(self._connections)

            async def call(key: int) -> None:
                if pool is None:
                    await following(key, place)
                    return
                async with pool:
                    await following(key, place)

            process = self.processes[index] = DrivenProcess(self._row, self._engine, call)
        return process


class Driven(Engine):
    """One run of the general way."""

    def __init__(
        self,
        rows: list[tuple[tuple[Any, ...], int, float | None]],
        scenario: Scenario,
        seed: int,
        progress: Callable[[SoFar], object] | None,
    ) -> None:
        super().__init__(scenario, seed, progress)
        self._rows = rows
        self._loop = SimulatedLoop(self)
        self._tasks: set[asyncio.Task[None]] = set()
        self._layers = frozenset(layer.name for layer in scenario.layers)
        service: Service = self._attempt
        for layer in reversed(scenario.layers):
            service = self._layer(layer, service)
        # A client beyond whose timeout a layer works on is the client's affair: it has its own timeout.
        self.groups = self._groups = [
            DrivenGroup(self, limited(row, timeout), clients, service, scenario.connections)
            for row, clients, timeout in rows
        ]

    def run(self) -> Raw:
        # Simulated calls stay inside: no log lines, no events, no enclosing deadline.
        bus.mute()
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self._loop)
        try:
            return super().run()
        finally:
            asyncio._set_running_loop(before)

    def begin(self, now: float, group: int, client: int, key: int) -> None:
        self.recorder.offered_at.append(now)
        process = self._groups[group].process(client)
        self._start(self._call(process, group, client, key, now))
        self._loop.drain()

    def _start(self, work: Coroutine[Any, Any, None], context: Context | None = None) -> asyncio.Task[None]:
        task = self._loop.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _call(self, process: DrivenProcess, group: int, client: int, key: int, began: float) -> None:
        recorder = self.recorder
        _began.set(began)
        try:
            await process.call(key)
        except Exception as error:
            recorder.failures[_failure_reason(error, self._layers)] += 1
        else:
            now = self.clock.time
            recorder.done_at.append(now)
            recorder.began.append(began)
        self.ended(group, client)

    def close(self) -> None:
        """End the calls that are still under way, without a trace in the records."""
        self.heap.clear()
        recorder = self.recorder
        self.recorder = type(recorder)(self.scenario, recorder.received[:0], self._gauges, None)
        while self._tasks:
            for task in list(self._tasks):
                task.cancel()
            self._loop.drain()
            while self.heap and self._tasks:
                self.clock.time, _, act, what = heapq.heappop(self.heap)
                act(what)
        self.recorder = recorder

    # The backend, as the policy's function.

    async def _attempt(self, key: int, place: float) -> None:
        """One attempt on the backend."""
        self.recorder.tried.append(_began.get())
        left = deadlines.remaining()
        gone_at = inf if left is None else self.clock.time + left
        answer: asyncio.Future[None] = self._loop.create_future()
        self.send(place, gone_at, partial(self._reply, answer))
        await answer

    def answer_late(self, half: float, reply: Reply, refusal: Refusal | None) -> None:
        # Not before the backend has done with this moment: a task may call it again.
        self.at(self.clock.time + half, reply, refusal)

    def _reply(self, answer: asyncio.Future[None], refusal: Refusal | None) -> None:
        if answer.done():
            return
        if refusal is None:
            answer.set_result(None)
        else:
            answer.set_exception(refusal.error())
        self._loop.drain()

    # Services between the clients and the backend.

    def _layer(self, layer: Layer, following: Service) -> Service:
        row = self._rows[0][0] if layer.policy == "same" else ()
        if layer.policy is not None and layer.policy != "same":
            row = layer.policy.strategies
        group = DrivenGroup(self, row, layer.instances, following)
        queue = _own_queue(layer)
        turn = 0

        async def work(process: DrivenProcess, key: int) -> None:
            if queue is not None:
                now = self.clock.time
                end = queue.serve(now, inf, None)
                assert end is not None
                await asyncio.sleep(end - now)
            try:
                await process.call(key)
            except Exception as error:
                raise _passed_on(error, layer) from None

        async def handle(key: int, place: float) -> None:
            nonlocal turn
            process = group.process(turn % layer.instances)
            turn += 1
            if layer.deadlines:
                await work(process, key)
            else:
                task = self._start(work(process, key), _alone())
                task.add_done_callback(_look)
                await asyncio.shield(task)

        return handle


def _look(task: asyncio.Task[None]) -> None:
    """Retrieve the error of a task that no other task awaits, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


def _alone() -> Context:
    """A context without the caller's deadline and attempt: another machine does not see them."""
    context = Context()
    context.run(bus.mute)
    context.run(_began.set, _began.get())
    return context


def _own_queue(layer: Layer) -> FirstCome | None:
    if layer.capacity_rps is None:
        return None
    alone = Scenario(capacity_rps=layer.capacity_rps)
    return FirstCome(alone, Work(alone, 0), Capacity([Stretch(0.0, 0.0, None)]))


def _passed_on(error: Exception, layer: Layer) -> Exception:
    """Return the error that a layer's caller receives for ``error``."""
    if layer.passes:
        cause = error.cause if isinstance(error, RetryAfter) else error
        if isinstance(cause, BackendError):
            answer = BackendError(cause.status)
            return answer if not isinstance(error, RetryAfter) else RetryAfter(error.seconds, answer)
    answer = BackendError(503)
    seen = exhausted_by(error) or exhausted_by(error.__cause__)
    if layer.marks and (seen is not None or isinstance(error, StormproofError)):
        mark(answer, Mark(layer.name, object(), 1 if seen is None else seen.attempts))
    return answer


#: Reasons that count as such; a call that another strategy refused is counted by that one's name.
_OWN_WORDS = ("attempts", "budget", "deadline", "within", "hint")


def _failure_reason(error: Exception, layers: frozenset[str]) -> str:
    """The reason of a failed call, in the words of the rule that ended it."""
    seen = exhausted_by(error)
    if seen is not None and seen.layer in layers:
        return "exhausted"
    why = stopped(error)
    if why is None:
        return reason_of(error)
    return why.reason if why.reason in _OWN_WORDS else REFUSALS[why.reason].__name__
