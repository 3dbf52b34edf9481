"""The running attempt, as the called code and the hooks see it."""

from __future__ import annotations

from contextvars import ContextVar
from types import FrameType, MappingProxyType

from .._runtime.frames import frame_at
from . import deadlines as _deadlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, Protocol

    class Exchange(Protocol):
        """A client's request on its way through the attempts of one call."""

        @property
        def draft(self) -> Any:
            """The request of the current attempt, which a hook may change."""
            ...

        def turn(self, number: int, error: Exception | None) -> None:
            """Attempt ``number`` is about to be made; the one before it ended in ``error``."""
            ...

        def veto(self, error: BaseException | None) -> str | None:
            """Why the request must not be sent again after ``error`` (None: after a refused answer)."""
            ...


_NO_KWARGS: Mapping[str, Any] = MappingProxyType({})


class Attempt:
    """One attempt: ``number`` counts from 1, ``last_error`` is why the one before failed.

    ``args`` and ``kwargs`` are the call's arguments, for the hooks ``before_attempt`` and ``on_retry`` only:
    elsewhere both are empty. For a decorated function they stand as its signature has them: what may be given
    by position is in ``args``, defaults included, and only the rest is in ``kwargs``.
    """

    __slots__ = ("args", "exchange", "kwargs", "last_error", "number", "operation", "outer", "owner")

    def __init__(
        self,
        operation: str,
        number: int,
        last_error: Exception | None,
        owner: object = None,
        exchange: Exchange | None = None,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] = _NO_KWARGS,
    ) -> None:
        self.operation = operation
        self.number = number
        self.last_error = last_error
        #: Which layer makes it, and the attempt of another layer that it is part of.
        self.owner = owner
        self.outer: Running | None = None
        self.exchange = exchange
        self.args = args
        self.kwargs = kwargs

    def view(self) -> Attempt:
        """Return the attempt, as code inside it sees it."""
        return self

    def release(self) -> None:
        """Forget request and arguments: a context that a timer keeps may outlive the attempt by far."""
        self.exchange = None
        self.args, self.kwargs = (), _NO_KWARGS

    @property
    def request(self) -> Any:
        """Request about to be sent, which ``before_attempt`` may change; ``None`` for a plain function."""
        return None if self.exchange is None else self.exchange.draft

    @property
    def remaining(self) -> float | None:
        """Seconds left in the enclosing deadline; ``None`` without one."""
        return _deadlines.remaining()

    def __repr__(self) -> str:
        return f"<attempt {self.number} of {self.operation}>"


if TYPE_CHECKING:
    #: A hook that runs before an attempt; may be async in async calls.
    Before = Callable[[Attempt], Awaitable[object] | None]
    #: A hook that runs before the sleep, given the attempt that failed, its error (None: its result was
    #: refused) and the wait; may be async in async calls.
    OnRetry = Callable[[Attempt, Exception | None, float], Awaitable[object] | None]
    #: The value of a call, or its error.
    Outcome = tuple[Any, BaseException | None]

    class Running(Protocol):
        """Maker of the current attempt: the attempt of a block, or the call whose loop makes it."""

        @property
        def number(self) -> int: ...
        @property
        def owner(self) -> object: ...
        @property
        def outer(self) -> Running | None: ...
        def view(self) -> Attempt: ...


#: Set from the second attempt on. A first attempt sets nothing, because setting costs more than
#: the whole success path; `attempt` finds it on the stack instead.
running: ContextVar[Running | None] = ContextVar("stormproof_attempt", default=None)
set_running, reset_running = running.set, running.reset


def attempt() -> Attempt | None:
    """The attempt this code runs in (the innermost one), or ``None`` outside any policy.

    A first attempt is found by walking the stack up to the policy's own frame. Code that the
    attempt handed to another task or thread has no such frame, and sees ``None`` until the
    second attempt. The walk ends at a module that sets ``_sp_boundary``: what it calls is an attempt
    of its own (a later one, a hedge) or none (a worker's job, a `once`).
    """
    current = running.get()
    # A block's attempt runs in the very frame that holds the loop.
    block = current.owner[0] if current is not None and isinstance(current.owner, tuple) else None
    frame: FrameType | None = frame_at(1)
    while frame is not None:
        if frame.f_code is block:
            break
        layer = frame.f_globals.get("_sp_layer")
        if layer is not None and "_sp_tick" in frame.f_globals:
            return Attempt(layer.name or layer.operation(_called(frame)), 1, None)
        if "_sp_boundary" in frame.f_globals:
            break
        frame = frame.f_back
    return None if current is None else current.view()


def _called(frame: FrameType) -> tuple[Any, ...]:
    """Return the function given to ``Policy.call``, if this is its frame."""
    names = frame.f_locals
    fn = names.get("fn")
    if type(names) is dict:
        # Before 3.13 this copy stays with the frame, and would keep objects alive that the frame drops.
        names.clear()
    return (fn,)
