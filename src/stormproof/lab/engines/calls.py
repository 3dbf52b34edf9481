"""Calls under way in the direct engine, which has millions of them: no more room than they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._strategies.retry.rules.decision import Course

if TYPE_CHECKING:
    from .policy_shape import Process


class Call(Course):
    """One call under way, whose first attempt has been sent: its course, and the process that makes it.

    Without a `Retry` it has no course, since its first failure is its end.
    """

    __slots__ = ("began", "process")
    # Neither gates nor a deadline nor a network concern this kind.
    held: Any = None
    outer: Any = None
    scope: Any = None
    tries: Any = 0
    waiting: Any = 0

    def __init__(self, process: Process, began: float, key: int = 0) -> None:
        self.process = process
        self.began = began
        budget, retry = process.budget, process.group.shape.retry
        if retry is not None:
            if process.keyed:
                budget = budget.pick((key,), {})
            # Not by super(), which takes twice the time: half of all attempts may come by here.
            Course.__init__(self, retry, budget, None, process.certain)
            self.number = 1


class FullCall(Call):
    """A call with everything that may concern it."""

    __slots__ = ("held", "outer", "scope", "tries", "waiting")

    def __init__(self, process: Process, began: float, key: int = 0) -> None:
        super().__init__(process, began, key)
        self.scope = None
        #: What the gates want to be settled with.
        self.outer = None
        self.held = None
        self.tries = 0
        #: The number of the attempt whose answer is awaited; 0: none.
        self.waiting = 0
