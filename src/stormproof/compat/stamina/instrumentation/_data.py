"""Details that hooks receive, and the type of a hook."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RetryDetails:
    """A retry that was scheduled.

    ``retry_num`` counts from 1; ``wait_for`` is the wait before it, ``waited_so_far`` the waits of this call
    before that one; ``caused_by`` is the error that led to it.
    """

    name: str
    args: tuple[object, ...]
    kwargs: dict[str, object]
    retry_num: int
    wait_for: float
    waited_so_far: float
    caused_by: Exception

    def as_log(self) -> dict[str, object]:
        """Return what the log hooks write."""
        return {
            "callable": self.name,
            "args": tuple(map(repr, self.args)),
            "kwargs": dict(self.kwargs),
            "retry_num": self.retry_num,
            "caused_by": repr(self.caused_by),
            "wait_for": round(self.wait_for, 2),
            "waited_so_far": round(self.waited_so_far, 2),
        }


class RetryHook(Protocol):
    """Called when a retry is scheduled. A context manager it returns is entered, and left after the wait."""

    def __call__(self, details: RetryDetails) -> AbstractContextManager[None] | None: ...


@dataclass(frozen=True)
class RetryHookFactory:
    """Makes a hook when the first retry is scheduled."""

    hook_factory: Callable[[], RetryHook]


def guess_name(obj: object) -> str:
    """Return the dotted name of a callable."""
    name = getattr(obj, "__qualname__", None) or type(obj).__qualname__
    module = getattr(obj, "__module__", None)
    return f"{module}.{name}" if module else name
