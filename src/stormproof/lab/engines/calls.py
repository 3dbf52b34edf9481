"""Calls under way in the direct engine, which has millions of them: no more room than they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..._strategies.retry.rules.decision import Course
    from .policy_shape import Process


class Plain:
    """What a call has that no gate, deadline or network concerns: nothing, for these."""

    __slots__ = ()
    held: Any = None
    outer: Any = None
    scope: Any = None
    tries: Any = 0
    waiting: Any = 0


class Call(Plain):
    """One call under way."""

    __slots__ = ("began", "key", "process", "run")

    def __init__(self, process: Process, began: float, key: int) -> None:
        self.process = process
        self.began = began
        self.key = key
        self.run: Course | None = None


class FullCall(Call):
    """A call with everything that may concern it."""

    __slots__ = ("held", "outer", "scope", "tries", "waiting")

    def __init__(self, process: Process, began: float, key: int) -> None:
        super().__init__(process, began, key)
        self.scope = None
        #: What the gates want to be settled with.
        self.outer = None
        self.held = None
        self.tries = 0
        #: The number of the attempt whose answer is awaited; 0: none.
        self.waiting = 0
