"""Retrying by queueing again: the same rule as `retry.call`, for tasks whose attempts are runs of a worker.

Between two attempts a task is a message in a broker, so what the rule remembers travels with it as
plain data (`Memory`), and time is the wall clock's: the next attempt may be another machine's.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, NamedTuple

from .._drivers.sync import call_hook
from .._events import labels
from .._policy.policy import Policy
from .._primitives.attach_context import attach_context
from .._runtime.call_template import SHARED_NAMES
from .._runtime.strands import MOMENT
from .._strategies.keyed import Keyed
from .._strategies.protocol import Env
from .._strategies.retry.call import RetriedCall
from .._strategies.retry.retry import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


#: The moment at which the attempt of this thread began: marks of earlier tasks say nothing about it.
_began: ContextVar[int | None] = ContextVar("stormproof_task_began", default=None)


class Memory(NamedTuple):
    """Record of a task's earlier attempts.

    ``attempts`` made so far; ``first``: when the first one failed, in seconds since the epoch; ``prev``
    and ``place``: where the schedule stands; ``spent``: what the last retry paid.
    """

    attempts: int = 0
    first: float | None = None
    prev: float | None = None
    place: int = 0
    spent: float | None = None

    def to_data(self) -> dict[str, Any]:
        """As plain data, for a message's headers."""
        return self._asdict()

    @classmethod
    def from_data(cls, data: object) -> Memory:
        """Read a message's record; one without anything usable is a first attempt's."""
        if not isinstance(data, dict):
            return cls()
        counts = {key: _whole(data.get(key)) for key in ("attempts", "place")}
        times = {key: _amount(data.get(key)) for key in ("first", "prev", "spent")}
        return cls(**counts, **times)  # type: ignore[arg-type]


def _whole(value: object) -> int:
    return value if type(value) is int and 0 <= value < 2**31 else 0


def _amount(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value < 1e12 else None


class Again(NamedTuple):
    """Queue the task again, to be run after ``wait`` seconds, with ``memory``."""

    wait: float
    memory: Memory


class End(NamedTuple):
    """The task has failed for good, with ``error``.

    ``reason`` is that of `events.GaveUp`, or "fault" when a rule of the policy raised ``error``.
    """

    error: BaseException
    reason: str


class Requeue:
    """``policy``'s Retry decides about the task ``name``; its other strategies are `inner`.

    `inner` runs around every attempt. A `Deadline` therefore bounds one attempt: what bounds the task
    is ``Retry(within=...)``, from its first failure, time in the queue included.
    """

    def __init__(self, policy: Policy, name: str, owner: str) -> None:
        if not isinstance(policy, Policy):
            raise TypeError(f"{owner}: policy must be a Policy, got {policy!r}")
        retries = [strategy for strategy in policy.strategies if isinstance(strategy, Retry)]
        if len(retries) != 1:
            raise ValueError(f"{owner}: policy must have one Retry, got {policy!r}")
        self.retry = retries[0]
        if self.retry.before_attempt is not None or self.retry.on_result is not None:
            # Both look at an attempt from inside the loop, and here there is none.
            raise ValueError(
                f"{owner}: policy must have neither before_attempt nor on_result, got {policy!r}"
            )
        others = [strategy for strategy in policy.strategies if not isinstance(strategy, Retry)]
        self.inner = Policy(*others, name=policy.name, clock=policy.clock, rng=policy.rng) if others else None
        self._env = Env(policy, None)
        self.operation = policy.name or labels.clean(name)

    def failed(
        self,
        error: Exception,
        memory: Memory,
        wall_now: float,
        args: Any = (),
        kwargs: Mapping[str, Any] = {},
    ) -> Again | End:
        """Decide what follows ``error``, raised by the attempt after those in ``memory``."""
        try:
            run = self._resume(memory, wall_now, args, kwargs)
        except Exception as fault:
            # The budget's key function is the user's. If it raises, the error of the task must not be lost.
            attach_context(fault, error)
            return End(fault, "fault")
        try:
            wait = run.after(None, error)
            if self.retry.on_retry is not None and run.stop is None:
                attempt = run.attempt((None, *args), kwargs)
                call_hook("on_retry", self.retry.on_retry, error, attempt, run.visible_error, wait)
        except Exception as fault:
            return End(fault, "fault")
        if run.stop is not None:
            return End(run.give_up(None, error)[1] or error, run.stop.reason)
        assert wait is not None, "an error is never a success"
        first = wall_now if memory.first is None else memory.first
        return Again(wait, Memory(run.number, first, run.previous_wait, run.backoff_index, run.spent))

    def succeeded(
        self, memory: Memory, wall_now: float, args: object = (), kwargs: Mapping[str, Any] = {}
    ) -> None:
        """The attempt after those that ``memory`` knows of has succeeded."""
        self._resume(memory, wall_now, args, kwargs).succeed()

    def started(self, memory: Memory, args: object = (), kwargs: Mapping[str, Any] = {}) -> None:
        """Note the start of an attempt; report it to the budget if it is the first one."""
        _began.set(SHARED_NAMES[MOMENT])
        budget = self._budget(args, kwargs)
        if memory.attempts == 0 and budget is not None:
            budget.started()

    def _budget(self, args: Any, kwargs: Mapping[str, Any]) -> Any:
        budget = self.retry.budget
        return budget.pick(tuple(args), dict(kwargs)) if isinstance(budget, Keyed) else budget

    def _resume(self, memory: Memory, wall_now: float, args: Any, kwargs: Mapping[str, Any]) -> RetriedCall:
        budget, began = self._budget(args, kwargs), _began.get()
        run = RetriedCall(self.retry, budget, self._env, self.operation, self, began=began)
        run.number = memory.attempts + 1
        run.previous_wait, run.backoff_index, run.spent = memory.prev, memory.place, memory.spent
        if memory.first is not None:
            run.first_failure_at = run.now() - max(0.0, wall_now - memory.first)
        return run
