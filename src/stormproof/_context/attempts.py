"""The running attempt, as the called code and the hooks see it."""

from __future__ import annotations

from _thread import get_ident
from contextvars import ContextVar
from itertools import count
from types import MappingProxyType

from .._runtime import interrupts
from .._runtime.frames import frame_at
from . import deadlines as _deadlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import FrameType
    from typing import Any, Protocol

    class Exchange(Protocol):
        """A client's request on its way through the attempts of one call."""

        @property
        def draft(self) -> Any:
            """The request of the attempt at hand, which a hook may change."""
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
    elsewhere both are empty.
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


if TYPE_CHECKING:

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
    seen = frame.f_locals
    found = seen.get("fn")
    if type(seen) is dict:
        # Before 3.13 this is a copy that stays with the frame, and would keep what the frame lets go.
        seen.clear()
    return (found,)


#: Numbers that grow: which of two moments came first.
moments = count()


class LayersAround:
    """The layers at work around the code that makes this: a mark made there speaks to them alone.

    ``own`` is the layer that makes the mark. Of the layers in other tasks and threads the mark speaks to
    those that get the error from where it was made: by the task that ended with it, by a pool's future, or
    by a driver of ours.
    """

    __slots__ = ("_carrier", "_frames", "_made", "_strand", "_thread")

    def __init__(self, own: object) -> None:
        self._made = next(moments)
        self._strand = strand = interrupts.strand()
        self._thread = strand if type(strand) is int else get_ident()
        self._carrier = interrupts.carrier(strand)
        self._frames: list[FrameType] = []
        frames = self._frames
        # Above this one, `_mark` and `give_up`.
        frame: FrameType | None = frame_at(3)
        while frame is not None:
            if "_sp_layer" in frame.f_globals:
                frames.append(frame)
            frame = frame.f_back
        # The layer's own is the first one, but for a block, which has none.
        if frames and frames[0].f_globals["_sp_layer"] is own:
            del frames[0]

    def has_owner(self, owner: object, outer: Running | None) -> bool:
        """Return True if one of them, or ``outer`` or an attempt around that, is of this owner."""
        while outer is not None:
            if outer.owner == owner:
                return True
            outer = outer.outer
        for frame in self._frames:
            layer = frame.f_globals["_sp_layer"]
            if layer is not interrupts.HANDS_OVER and layer.owner(_called(frame)) == owner:
                return True
        return False

    def lacks(self, layer: object, began: int | None, is_of: Callable[[BaseException], bool]) -> bool:
        """Return True if the current call of ``layer`` is not around the one that made this.

        ``began`` is the moment at which a block's attempt began. ``is_of(error)`` is True for an error that
        carries the mark with this.
        """
        strand = interrupts.strand()
        if strand != self._strand and strand != self._thread:
            return not self._reaches(strand, is_of)
        frame: FrameType | None = frame_at(1)
        while frame is not None and frame.f_globals.get("_sp_layer") is not layer:
            frame = frame.f_back
        if frame is None:
            return began is not None and self._made < began
        return all(frame is not around for around in self._frames)

    def _reaches(self, strand: object, is_of: Callable[[BaseException], bool]) -> bool:
        """Return True if errors made here get to ``strand``, and the one with the mark did."""
        carrier = self._carrier
        if interrupts.HANDS_OVER in (carrier, *(frame.f_globals["_sp_layer"] for frame in self._frames)):
            return True
        if type(carrier) is tuple:
            return strand in carrier
        error = interrupts.carried_error(carrier)
        return error is not None and is_of(error)
