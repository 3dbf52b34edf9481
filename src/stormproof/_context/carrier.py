"""The ambient deadline in the threads of a pool."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from contextvars import copy_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Carrier(Executor):
    """An executor whose tasks see the submitter's deadline, attempt and switched-off policies."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        # A context runs one thing at a time, so each task has a copy of its own.
        return self.executor.submit(copy_context().run, fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.executor.shutdown(wait=wait, cancel_futures=cancel_futures)


def carry(executor: Executor) -> Carrier:
    """``carry(pool).submit(fn)`` runs ``fn`` in the pool under the ambient deadline of this moment."""
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise TypeError(f"carry: executor must be one such as ThreadPoolExecutor(), got {executor!r}")
    if type(executor).__name__ == "ProcessPoolExecutor":
        raise TypeError(
            f"carry: executor must run its tasks in this process, got {executor!r}: a context cannot be sent "
            "to another one; send remaining() and use deadline() there"
        )
    return Carrier(executor)
