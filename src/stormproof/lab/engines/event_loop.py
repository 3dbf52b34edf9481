"""An event loop without sockets, signals or a real clock: its timers are events of a simulation.

Compiled async policies run in it unchanged. It is exact: a timer fires at the very float it was set for,
and timers of the same time in the order in which they were set.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine import Engine


class Handle:
    """A callback that is due, until it is cancelled."""

    __slots__ = ("_args", "_call", "_context", "_when")

    def __init__(
        self,
        call: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        when: float = 0.0,
    ) -> None:
        self._call: Callable[..., object] | None = call
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._when = when

    def cancel(self) -> None:
        self._call = None
        self._args = ()

    def cancelled(self) -> bool:
        return self._call is None

    def when(self) -> float:
        return self._when

    def run(self) -> None:
        call = self._call
        if call is not None:
            self._context.run(call, *self._args)


#: Everything a loop may be asked for, of which a simulation needs a dozen methods.
_Loop: Any = asyncio.AbstractEventLoop


class SimulatedLoop(_Loop):  # type: ignore[misc]
    """See the module."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ready: deque[Handle] = deque()
        #: The first error that no task awaited: a bug in a strategy, raised at the end of the run.
        self.problem: BaseException | None = None

    def drain(self) -> None:
        """Run what is due now, and what that makes due."""
        ready = self._ready
        while ready:
            ready.popleft().run()
        if self.problem is not None:
            raise self.problem

    def fire(self, handle: Handle) -> None:
        """A timer's moment has come."""
        handle.run()
        self.drain()

    # What tasks, futures and sleeps ask of a loop.

    def time(self) -> float:
        return self._engine.clock.time

    def call_soon(self, callback: Any, *args: object, context: Any = None) -> Any:
        handle = Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: object, *args: object, context: object = None) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: object, context: Any = None) -> Any:
        handle = Handle(callback, args, context, when)
        self._engine.at(when, self.fire, handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self.problem is None:
            self.problem = error if error is not None else RuntimeError(context.get("message", "unknown"))
