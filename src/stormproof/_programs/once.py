"""Set-up that runs once: concurrent callers share it, its result is kept, a failure never is."""

from __future__ import annotations

import functools

from .._policy.policy import Policy
from .._primitives.generic import Generic
from .._runtime.function_kind import function_kind
from . import once_cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, Self, TypeVar, overload

    T = TypeVar("T")
else:
    T = None


class Once(Generic[T]):
    """A function whose result is made once and kept; see `once`."""

    __name__: str
    __wrapped__: Callable[..., T]

    def __init__(self, fn: Callable[..., Any], policy: Policy | None = None) -> None:
        functools.update_wrapper(self, fn, updated=())
        self._name = str(getattr(fn, "__qualname__", None) or type(fn).__qualname__)
        self._call = fn if policy is None else policy(functools.partial(fn) if isinstance(fn, type) else fn)
        self._args: tuple[Any, ...] = ()
        self._policy = policy
        #: Shared by the bound methods of one function: True once it returned something to await.
        self._observed = {"awaitable": False}
        self._cell = once_cell.Cell(self._name)

    def get(self) -> T:
        """Return the result, set up now if it is not there. The same as a call."""
        result: T
        if self._observed["awaitable"]:
            result = self._get_later()
            return result
        turn = self._cell.turn
        if turn is not None and turn.succeeded:
            result = turn.value
            return result
        try:
            result = once_cell.get(self._cell, self._call, self._args)
        except once_cell.ReturnsAwaitable as returned:
            self._observed["awaitable"] = True
            result = self._get_later(returned.value)
        return result

    def _get_later(self, first: object = None) -> Any:
        """Return a coroutine for the result of a plain function that returns something to await.

        ``first`` is what it has returned already, for the first attempt.
        """
        pending = [] if first is None else [first]

        async def attempt(*args: object) -> Any:
            awaitable: Any = pending.pop() if pending else self.__wrapped__(*args)
            return await awaitable

        async def finish() -> Any:
            turn = self._cell.turn
            if turn is not None and turn.succeeded:
                return turn.value
            call = attempt if self._policy is None else self._policy(attempt)
            try:
                return await once_cell.get_async(self._cell, call, self._args)
            finally:
                for unused in pending:
                    getattr(unused, "close", bool)()

        return finish()

    __call__ = get

    @property
    def ready(self) -> bool:
        """True once the result is there, so that a call returns at once."""
        return self._cell.ready

    def reset(self, stale: object = once_cell.ANY) -> bool:
        """Forget the result, so that the next call sets up again; return True if there was one.

        ``reset(stale)`` forgets only that very object: of many callers who find the same connection
        broken, the first one makes room for a new one, and the others leave the new one alone. A
        set-up in progress during a plain ``reset()`` serves those who wait for it, and is not kept.
        """
        return self._cell.clear(stale)

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """As a method: each instance has a result of its own, kept in its ``__dict__``."""
        if instance is None:
            return self
        try:
            attributes = instance.__dict__
        except AttributeError:
            raise TypeError(
                f"once: {self._name} keeps its result in the instance's __dict__, and "
                f"{type(instance).__qualname__} has none (add '__dict__' to its __slots__)"
            ) from None
        key = f"<once {self._name}>"
        cell = attributes.get(key)
        if cell is None or not cell.belongs_to(instance):
            cell = once_cell.adopt(attributes, key, once_cell.Cell(self._name, instance), instance)
        bound = type(self).__new__(type(self))
        bound.__dict__.update(self.__dict__, _args=(instance,), _cell=cell)
        return bound

    def __reduce__(self) -> Any:
        if self._args:
            return getattr, (self._args[0], self.__name__)
        return self._name

    def __repr__(self) -> str:
        return f"<once {self._name}: {'ready' if self.ready else 'not set up'}>"


class AsyncOnce(Once["Any"]):
    """The same for a coroutine function."""

    async def get(self) -> Any:
        turn = self._cell.turn
        if turn is not None and turn.succeeded:
            return turn.value
        return await once_cell.get_async(self._cell, self._call, self._args)

    __call__ = get


def _once(fn: object = None, policy: Policy | None = None) -> Any:
    """Make ``fn``, a function of no arguments, run once: its result is shared and kept, its failure is not.

    Called at the same time by many (threads, and tasks of any number of event loops), it runs once
    and all of them get its result. If it fails, all who waited for that run get its error, and the
    next call starts anew. If its runner is cancelled, or runs into a deadline of its own, one of
    those who wait takes over. A set-up that needs its own result, directly or in a circle through
    others, is a `RuntimeError` rather than a deadlock.

    ``policy`` is applied inside, so that a run is retried before it counts as failed; ``None`` is one
    plain try. A plain function that returns something to await is awaited: ``await once(lambda:
    connect())()``. Also a decorator: ``@once``, ``@once(policy=...)``; a method has one result per
    instance. The result has ``get()``, ``ready`` and ``reset()``.
    """
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"once: policy must be a Policy or None, got {policy!r}")
    if fn is None:
        return functools.partial(once, policy=policy)
    if isinstance(fn, (classmethod, staticmethod)):
        kind = type(fn).__name__
        raise TypeError(
            "once: write @staticmethod above @once, not below"
            if kind == "staticmethod"
            else "once: a classmethod cannot be set up once; use a static method or a module's function"
        )
    if not callable(fn):
        raise TypeError(f"once: fn must be a function, got {fn!r}")
    kind = function_kind(fn)
    if kind not in ("sync", "async"):
        raise TypeError(f"once: fn must be a function or coroutine function, got the {kind} function {fn!r}")
    return (AsyncOnce if kind == "async" else Once)(fn, policy)


if TYPE_CHECKING:

    class _Decorator(Protocol):
        def __call__(self, fn: Callable[[], T] | Callable[[Any], T]) -> Once[T]: ...

    # For a coroutine function T is its coroutine: `await once(fn)()`.
    @overload
    def once(fn: Callable[[], T] | Callable[[Any], T], policy: Policy | None = None) -> Once[T]: ...
    @overload
    def once(fn: None = None, policy: Policy | None = None) -> _Decorator: ...
    def once(fn: object = None, policy: Policy | None = None) -> Any: ...
else:
    once = _once
    once.__name__ = once.__qualname__ = "once"
