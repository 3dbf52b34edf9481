"""A policy's row of strategies, as the direct engine sees it; and the processes that run it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from ..._classify.classifier import Classifier
from ..._classify.on_clause import judge_marked
from ..._classify.verdict import Verdict
from ..._policy.checks import certain_breakers
from ..._primitives.errors import AttemptTimeout
from ..._strategies.breaker.breaker import Breaker
from ..._strategies.deadline import Deadline
from ..._strategies.keyed import Keyed
from ..._strategies.limiter.rate_limit import RateLimit
from ..._strategies.retry.retry import Retry, ticks
from ..._strategies.throttle import Throttle
from ..._strategies.timeout import Timeout
from .gates import BreakerGate, Gate, answers_at_once, gate

if TYPE_CHECKING:
    from ..model.backend import Refusal
    from .engine import Engine

#: What an attempt fails with that got no answer in time.
TIMEOUT = AttemptTimeout("the simulated attempt took too long")


class Shape:
    """A policy's row, sorted: what is around the retries, the retries, what is inside."""

    __slots__ = ("deadline", "inner", "outer", "retry", "timeout")

    def __init__(self) -> None:
        self.deadline: float | None = None
        self.outer: list[Any] = []
        self.retry: Retry | None = None
        self.inner: list[Any] = []
        self.timeout = inf


def shape(row: tuple[Any, ...]) -> Shape | str:
    """The sorted row; or why the rules cannot be called directly."""
    form = Shape()
    has_retry = any(isinstance(part, Retry) for part in row)
    for index, part in enumerate(row):
        kind = type(part).__name__
        before = has_retry and form.retry is None
        if type(part) is Deadline and index == 0:
            form.deadline = part.seconds
        elif type(part) is Retry:
            if any(hook is not None for hook in (part.before_attempt, part.on_result, part.on_retry)):
                return "Retry has hooks of the user's own"
            form.retry = part
        elif type(part) is Timeout and not before:
            form.timeout = min(form.timeout, part.seconds)
        elif getattr(part, "observe", False) or (type(part) is Breaker and part.count == "calls"):
            return f"{kind} only observes, or counts calls"
        elif type(part) in (Breaker, Throttle) or (type(part) is RateLimit and answers_at_once(part)):
            (form.outer if before else form.inner).append(part)
        else:
            return f"{kind} takes time of its own" if kind != "Timeout" else "Timeout stands around Retry"
    return form


class Process:
    """One client process: its budget and its gates."""

    __slots__ = (
        "breakers",
        "budget",
        "certain",
        "group",
        "index",
        "inner",
        "keyed",
        "on_start",
        "on_success",
        "outer",
        "place",
    )

    inner: tuple[Gate, ...]
    outer: tuple[Gate, ...]

    def __init__(self, group: Group, index: int) -> None:
        self.group = group
        self.index = index
        self.place = (index + 0.5) / group.clients
        budget = self.budget = group.make_budget()
        self.keyed = type(budget) is Keyed
        self.on_start, self.on_success = (None, None) if self.keyed else ticks(budget)
        #: Breakers that a retry asks before it waits.
        self.outer = self.inner = self.certain = ()
        self.breakers: list[Breaker] = []
        if group.gated:
            self._make_gates(group.shape)

    def _make_gates(self, form: Shape) -> None:
        gates: dict[int, Any] = {}
        self.outer, self.inner = self._gates(form.outer, gates), self._gates(form.inner, gates)
        inside = [turn.breaker for turn in self.inner if type(turn) is BreakerGate]
        self.breakers = [turn.breaker for turn in self.outer if type(turn) is BreakerGate] + inside
        self.certain = certain_breakers((form.retry, *inside)) if inside else ()

    def _gates(self, parts: list[Any], copies: dict[int, Any]) -> tuple[Gate, ...]:
        copier, draw = self.group.copier, self.group.draw
        gates = (gate(copier.strategy(part, copies), draw) for part in parts)
        return tuple(found for found in gates if found is not None)


class Group:
    """A class of clients: the same policy, each in a process of its own."""

    def __init__(self, index: int, form: Shape, clients: int, timeout: float | None, engine: Engine) -> None:
        self.index = index
        self.shape = form
        self.clients = clients
        own = form.timeout
        self.timeout = own if own < inf else inf if timeout is None else timeout
        self.copier = engine.copier
        self.draw = engine.draw
        retry = form.retry
        self.make_budget = engine.copier.budget_factory(None if retry is None else retry.budget)
        self.gated = bool(form.outer or form.inner)
        self.processes: list[Process | None] = [None] * clients
        #: True if the verdict on a failure depends on its kind alone, not on a function of the user's.
        self._by_kind = retry is not None and isinstance(retry.on, (type, tuple, Classifier))
        #: For each kind of failure: see `judged`.
        self.judgements: dict[Refusal | AttemptTimeout, tuple[Exception, Verdict | None]] = {}

    def process(self, index: int) -> Process:
        """Return the process of this index, made at its first call."""
        process = self.processes[index]
        if process is None:
            process = self.processes[index] = Process(self, index)
        return process

    def judged(self, failure: Refusal | AttemptTimeout) -> tuple[Exception, Verdict | None]:
        """Return the error that stands for every ``failure`` of its kind, and its verdict.

        The verdict is None where a function of the user's is to be asked each time.
        """
        judged = self.judgements.get(failure)
        if judged is None:
            error = failure if isinstance(failure, AttemptTimeout) else failure.error()
            retry = self.shape.retry
            verdict = judge_marked(retry.judge, error) if self._by_kind and retry is not None else None
            judged = self.judgements[failure] = error, verdict
        return judged
