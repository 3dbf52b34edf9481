"""One set-up at a time, for which all other callers wait: threads, asyncio tasks and trio tasks alike."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextvars import ContextVar, Token

from .._context.deadlines import ambient
from .._drivers.waiter import Waiter, leaving
from .._primitives.errors import DeadlineExceeded
from .._runtime.forks import after_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

#: Ends the walk of `attempts.attempt`.
_sp_boundary = True

#: The set-ups that the running code is part of, outermost first.
_inside: ContextVar[tuple[Turn, ...]] = ContextVar("stormproof_inside", default=())

#: One lock for all of them, because a circle of set-ups that wait for each other spans several. It is
#: held for a few lines, never while anything is set up, and not at all once the result is there.
_lock = threading.Lock()
_cells: weakref.WeakSet[Cell] = weakref.WeakSet()

#: Stands for any result.
ANY: object = object()


@after_fork
def _renew() -> None:
    # The thread that ran a set-up does not survive a fork: the child starts it again.
    global _lock
    _lock = threading.Lock()
    for cell in list(_cells):
        if cell.turn is not None and not cell.turn.done:
            cell.turn = None


class Cell:
    """Holder of one result. ``turn`` is the set-up in progress, or the one that succeeded."""

    __slots__ = ("__weakref__", "_owner", "name", "turn")

    def __init__(self, name: str, owner: object = None) -> None:
        self.name = name
        self.turn: Turn | None = None
        self._owner: Callable[[], Any]
        try:
            self._owner = weakref.ref(owner)
        except TypeError:
            self._owner = lambda: owner
        _cells.add(self)

    def belongs_to(self, owner: object) -> bool:
        """False in a copy of the owner, which carries its original's cell and sets up its own."""
        return self._owner() is owner

    @property
    def ready(self) -> bool:
        turn = self.turn
        return turn is not None and turn.succeeded

    def clear(self, stale: object) -> bool:
        """Forget the result, if ``stale`` is it or is `ANY`; with `ANY` a set-up in progress too.

        The latter still serves those who wait for it already.
        """
        with _lock:
            turn = self.turn
            if turn is None or (stale is not ANY and not (turn.done and turn.value is stale)):
                return False
            self.turn = None
            return turn.done

    def __reduce__(self) -> tuple[Any, ...]:
        return Cell, (self.name,)  # empty, without an owner


def adopt(attributes: dict[str, Any], key: str, cell: Cell, owner: object) -> Cell:
    """Return ``owner``'s cell in ``attributes``: ``cell``, unless another thread was first."""
    with _lock:
        present: Cell | None = attributes.get(key)
        if present is None or not present.belongs_to(owner):
            present = attributes[key] = cell
        return present


class Turn:
    """One set-up and the callers that wait for it.

    It has one runner at a time. A runner that is cancelled hands over to the first waiting caller.
    """

    __slots__ = ("_error", "needs", "_token", "_traceback", "waiting", "cell", "done", "succeeded", "value")

    _token: Token[tuple[Turn, ...]]

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.done = False
        #: Read without the lock, by callers that may still hold a turn that has failed meanwhile.
        self.succeeded = False
        self.value: Any = None
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self.waiting: deque[Waiter] = deque()
        #: The set-ups that this one waits for at the moment.
        self.needs: list[Turn] = []

    # For those who wait.

    def leave(self, waiter: Waiter) -> None:
        """``waiter`` waits no longer; if the set-up was just handed to it, the next one gets it."""
        with _lock:
            self._unneed()
            if waiter in self.waiting:
                self.waiting.remove(waiter)
                return
        self._hand_over()

    def arrive(self) -> None:
        """The wait is over: the set-up is done, or this caller's to run."""
        with _lock:
            self._unneed()

    def _unneed(self) -> None:
        for outer in _inside.get():
            if self in outer.needs:
                outer.needs.remove(self)

    def result(self) -> Any:
        """Outcome of the set-up."""
        if self._error is not None:
            # Many raise the same object: each starts from the set-up's own traceback, so that it
            # does not grow by the frames of all the others.
            raise self._error.with_traceback(self._traceback)
        return self.value

    # For the one who runs it.

    def __enter__(self) -> None:
        self._token = _inside.set((*_inside.get(), self))

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Share the outcome with all who wait, unless the runner was cancelled or met its own deadline."""
        try:
            _inside.reset(self._token)
        except ValueError:
            # An unfinished coroutine is closed in another context than it ran in.
            pass
        del self._token
        if error is None or (isinstance(error, Exception) and not _is_runners_own(error)):
            self._settle(error)
        else:
            self._hand_over()

    def _settle(self, error: Exception | None) -> None:
        with _lock:
            waiting, self.waiting = self.waiting, deque()
            if error is not None and waiting:
                self._error, self._traceback = error, error.__traceback__
            self.done, self.succeeded = True, error is None
            if error is not None and self.cell.turn is self:
                self.cell.turn = None
        for waiter in waiting:
            waiter.grant()

    def _hand_over(self) -> None:
        with _lock:
            if self.done:
                return
            successor = self.waiting.popleft() if self.waiting else None
            if successor is None:
                self.done = True
                if self.cell.turn is self:
                    self.cell.turn = None
        if successor is not None:
            successor.grant()


def _is_runners_own(error: Exception) -> bool:
    """Return True if the runner's own deadline, which the waiters do not share, ended its attempt."""
    scope = ambient()
    if scope is None:
        return False
    if scope.ended() is not None:
        return True
    return isinstance(error, DeadlineExceeded) and error.scope == scope.tightest().name


def _join(cell: Cell) -> tuple[Turn, Waiter | None]:
    """Join the set-up. The waiter is ``None`` if the set-up is done, or if this caller is to run it."""
    inside = _inside.get()
    with _lock:
        turn = cell.turn
        if turn is not None and turn.done:
            return turn, None
        if any(outer.cell is cell and not outer.done for outer in inside):
            raise RuntimeError(
                f"once: the set-up of {cell.name} needs its own result: it was called from inside "
                "itself, or from a task that it started; pass the value on instead"
            )
        if turn is None:
            turn = cell.turn = Turn(cell)
            return turn, None
        _refuse_circle(turn, inside)
        for outer in inside:
            outer.needs.append(turn)
        waiter = Waiter()
        turn.waiting.append(waiter)
        return turn, waiter


def _refuse_circle(turn: Turn, inside: tuple[Turn, ...]) -> None:
    """Raise if ``turn`` waits, through any number of others, for one that this caller is part of."""
    pending, seen = [turn], {turn}
    while pending:
        other = pending.pop()
        if not other.done and other in inside:
            raise RuntimeError(
                f"once: the set-ups of {other.cell.name} and {turn.cell.name} wait for each other"
            )
        fresh = [needed for needed in other.needs if needed not in seen]
        seen.update(fresh)
        pending += fresh


class ReturnsAwaitable(BaseException):
    """The function of a `get` returned something to await; this turn was handed over."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


def get(cell: Cell, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The result of ``cell``: ``call(*args)``, unless it is there or in progress."""
    turn, waiter = _join(cell)
    if waiter is not None:
        with leaving(turn.leave, waiter):
            waiter.wait(None)
        turn.arrive()
    if turn.done:
        return turn.result()
    with turn:
        value = call(*args)
        if hasattr(value, "__await__"):
            raise ReturnsAwaitable(value)
        turn.value = value
    return turn.value


async def get_async(cell: Cell, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The result of ``cell``: ``await call(*args)``, unless it is there or in progress."""
    turn, waiter = _join(cell)
    if waiter is not None:
        with leaving(turn.leave, waiter):
            await waiter.wait_async(None)
        turn.arrive()
    if turn.done:
        return turn.result()
    with turn:
        turn.value = await call(*args)
    return turn.value
