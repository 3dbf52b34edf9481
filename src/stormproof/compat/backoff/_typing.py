"""Types of the decorators' arguments, under the names that annotated code imports."""

import logging
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, TypedDict, TypeVar, Union


class _Details(TypedDict):
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tries: int
    elapsed: float


class Details(_Details, total=False):
    """Details of the call, for handlers.

    ``target`` is the undecorated function, ``args`` and ``kwargs`` its arguments, ``tries`` the number of
    tries so far, ``elapsed`` the seconds between the start of the call and the start of the last try.
    """

    wait: float
    """Seconds about to be slept; ``on_backoff`` only."""
    value: object
    """What the function returned; ``on_predicate`` only."""
    exception: BaseException
    """What it raised; ``on_backoff`` and ``on_giveup`` of ``on_exception`` only."""


class ContextDetails(TypedDict, total=False):
    """Details for a handler of a block: as `Details`, but a block has no target and no arguments."""

    tries: int
    elapsed: float
    wait: float
    value: object
    exception: BaseException


#: A handler, predicate or ``giveup``, of any argument.
Handler = Callable[[Any], Any]

T = TypeVar("T")
_CallableT = TypeVar("_CallableT", bound=Callable[..., Any])

_Handler = Callable[[Details], None] | Callable[[Details], Coroutine[Any, Any, None]]
_ContextHandler = Callable[[ContextDetails], None] | Callable[[ContextDetails], Coroutine[Any, Any, None]]
_Jitterer = Callable[[float], float]
_MaybeCallable = Union[T, Callable[[], T]]  # noqa: UP007 (mypy takes no TypeVar on the left of a |)
_MaybeLogger = str | logging.Logger | logging.LoggerAdapter[Any] | None
_MaybeSequence = Union[T, Sequence[T]]  # noqa: UP007
_WaitGenerator = Callable[..., Generator[float, Any, None]]
