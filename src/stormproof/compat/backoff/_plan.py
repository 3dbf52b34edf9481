"""The options of a decorator or a block, checked."""

from __future__ import annotations

import asyncio.coroutines
import inspect
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _log
from ._typing import Handler

if TYPE_CHECKING:
    from ._typing import _MaybeLogger

_Handlers = Handler | Iterable[Handler] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Options of one decorator or block. Without a ``predicate`` no result is retried."""

    wait_gen: Callable[..., Generator[Any, Any, Any]]
    wait_gen_kwargs: dict[str, Any]
    max_tries: object
    max_time: object
    jitter: Callable[..., Any] | None
    on_try: tuple[Handler, ...]
    on_success: tuple[Handler, ...]
    on_backoff: tuple[Handler, ...]
    on_giveup: tuple[Handler, ...]
    exception: Any
    giveup: Handler
    raise_on_giveup: bool
    predicate: Handler | None

    @property
    def ignores_results(self) -> bool:
        """True if a result needs no look: it is not retried, and no handler is called."""
        return self.predicate is None and not self.on_success


def never(_error: BaseException) -> bool:
    """Return False: the default ``giveup``."""
    return False


def make_plan(
    owner: str,
    *,
    on_try: _Handlers,
    on_success: _Handlers,
    on_backoff: _Handlers,
    on_giveup: _Handlers,
    logger: _MaybeLogger,
    backoff_log_level: int,
    giveup_log_level: int,
    exception: Any = (),
    giveup: Handler = never,
    raise_on_giveup: bool = True,
    predicate: Handler | None = None,
    **options: Any,
) -> Plan:
    """Return the plan of the options given to ``owner``; a `Plan` keeps ``options`` as they are."""
    for field in ("max_tries", "max_time", "jitter"):
        if is_async(options[field]):
            raise TypeError(f"{owner}: {field} must not be a coroutine function, got {options[field]!r}")
    return Plan(
        **options,
        on_try=_handlers("on_try", on_try),
        on_success=_handlers("on_success", on_success),
        on_backoff=_handlers(
            "on_backoff", on_backoff, _log.handler(logger, backoff_log_level, *_log.BACKOFF)
        ),
        on_giveup=_handlers("on_giveup", on_giveup, _log.handler(logger, giveup_log_level, *_log.GIVEUP)),
        exception=exception if isinstance(exception, type) else tuple(exception),
        giveup=giveup,
        raise_on_giveup=raise_on_giveup,
        predicate=predicate,
    )


def _handlers(field: str, given: _Handlers, default: Handler | None = None) -> tuple[Handler, ...]:
    """The default handler first, then the user's, in order."""
    first = () if default is None else (default,)
    if given is None:
        return first
    handlers = (given,) if callable(given) else tuple(given) if isinstance(given, Iterable) else (given,)
    for handler in handlers:
        if not callable(handler):
            raise TypeError(f"{field} must be a callable or an iterable of callables, got {handler!r}")
    return (*first, *handlers)


def is_async(target: object) -> bool:
    """Return True if ``target`` is a coroutine function, or marked as one."""
    if inspect.iscoroutinefunction(target):
        return True
    # How callables such as AsyncMock declared themselves before Python 3.12 had a public marker.
    marker = getattr(asyncio.coroutines, "_is_coroutine", None)
    return marker is not None and getattr(target, "_is_coroutine", None) is marker
