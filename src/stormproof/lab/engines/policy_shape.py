"""A policy's row of strategies, as the direct engine sees it; and the processes that run it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from ..._classify.classifier import Classifier
from ..._classify.on_clause import judge_marked
from ..._classify.verdict import Verdict
from ..._policy.checks import certain_breakers
from ..._strategies.breaker.breaker import Breaker
from ..._strategies.deadline import Deadline
from ..._strategies.keyed import Keyed
from ..._strategies.limiter.rate_limit import RateLimit
from ..._strategies.retry.retry import Retry, _ticks
from ..._strategies.throttle import Throttle
from ..._strategies.timeout import Timeout
from .gates import BreakerGate, Gate, answers_at_once, gate

if TYPE_CHECKING:
    from .engine import Engine


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
    found = Shape()
    has_retry = any(isinstance(part, Retry) for part in row)
    for index, part in enumerate(row):
        kind = type(part).__name__
        before = has_retry and found.retry is None
        if type(part) is Deadline and index == 0:
            found.deadline = part.seconds
        elif type(part) is Retry:
            if any(hook is not None for hook in (part.before_attempt, part.on_result, part.on_retry)):
                return "Retry has hooks of the user's own"
            found.retry = part
        elif type(part) is Timeout and not before:
            found.timeout = min(found.timeout, part.seconds)
        elif type(part) is Breaker and (part.count == "calls" or part.observe):
            return "Breaker counts calls, or only observes"
        elif type(part) in (Breaker, Throttle) or (type(part) is RateLimit and answers_at_once(part)):
            (found.outer if before else found.inner).append(part)
        else:
            return f"{kind} takes time of its own" if kind != "Timeout" else "Timeout stands around Retry"
    return found


class Process:
    """One client process: its budget and its gates."""

    __slots__ = (
        "breakers",
        "certain",
        "budget",
        "group",
        "index",
        "inner",
        "keyed",
        "on_start",
        "on_success",
        "outer",
        "place",
    )

    def __init__(self, group: Group, index: int, place: float) -> None:
        self.group = group
        self.index = index
        self.place = place
        made: dict[int, Any] = {}
        form, copier = group.shape, group.copier
        retry = form.retry
        original = None if retry is None else retry.budget
        self.budget: Any = None if original is None else copier.budget(original, made)
        self.keyed = isinstance(self.budget, Keyed)
        self.on_start, self.on_success = (None, None) if self.keyed else _ticks(self.budget)
        self.outer = self._gates(form.outer, made)
        self.inner = self._gates(form.inner, made)
        gates = (*self.outer, *self.inner)
        self.breakers = [turn.breaker for turn in gates if type(turn) is BreakerGate] if gates else None
        inside = [turn.breaker for turn in self.inner if type(turn) is BreakerGate]
        #: Those that a retry asks before it waits.
        self.certain = certain_breakers((retry, *inside)) if inside else ()

    def _gates(self, parts: list[Any], made: dict[int, Any]) -> tuple[Gate, ...]:
        copier, draw = self.group.copier, self.group.draw
        gates = (gate(copier.strategy(part, made), draw) for part in parts)
        return tuple(found for found in gates if found is not None)


class Group:
    """A class of clients: the same policy, each in a process of its own."""

    __slots__ = (
        "_by_kind",
        "clients",
        "copier",
        "draw",
        "index",
        "processes",
        "shape",
        "timeout",
        "timer",
        "verdicts",
    )

    def __init__(self, index: int, form: Shape, clients: int, timeout: float | None, engine: Engine) -> None:
        self.index = index
        self.shape = form
        self.clients = clients
        own = form.timeout
        self.timeout = own if own < inf else inf if timeout is None else timeout
        self.copier = engine.copier
        #: What `Run` wants of a compiled function's surroundings.
        self.draw = engine.draw
        self.timer = engine.clock
        self.processes: list[Process | None] = [None] * clients
        retry = form.retry
        #: Whether the verdict on a failure depends on its kind alone, not on a function of the user's.
        self._by_kind = retry is not None and isinstance(retry.on, (type, tuple, Classifier))
        self.verdicts: dict[Exception, Verdict] = {}

    def process(self, index: int) -> Process:
        found = self.processes[index]
        if found is None:
            found = self.processes[index] = Process(self, index, (index + 0.5) / self.clients)
        return found

    def verdict(self, error: Exception) -> Verdict | None:
        """What a failure means, where its kind alone says so; ``error`` stands for every one of its kind."""
        if not self._by_kind:
            return None
        found = self.verdicts.get(error)
        if found is None:
            assert self.shape.retry is not None
            found = self.verdicts[error] = judge_marked(self.shape.retry.judge, error)
        return found
