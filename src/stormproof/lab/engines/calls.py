"""Calls under way in the direct engine, which has many of them: no more room than they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._strategies.retry.rules.decision import Course

if TYPE_CHECKING:
    from ..._context.deadlines import Scope
    from .policy_shape import Process


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
