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


def never(_error: BaseException) -> bool:
    """Return False: the default ``giveup``."""
    return False


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
    giveup: Handler = never
    raise_on_giveup: bool = True
    predicate: Handler | None = None

    @property
    def ignores_results(self) -> bool:
        """True if a result needs no look: it is not retried, and no handler is called."""
        return self.predicate is None and not self.on_success


def make_plan(
    owner: str, *, logger: _MaybeLogger, backoff_log_level: int, giveup_log_level: int, **options: Any
) -> Plan:
    """Return the plan of the options given to ``owner``: handlers in rows, the default ones first."""
    for field in ("max_tries", "max_time", "jitter"):
        if is_async(options[field]):
            raise TypeError(f"{owner}: {field} must not be a coroutine function, got {options[field]!r}")
    first = {
        "on_backoff": _log.handler(logger, backoff_log_level, *_log.BACKOFF),
        "on_giveup": _log.handler(logger, giveup_log_level, *_log.GIVEUP),
    }
    for field in ("on_try", "on_success", "on_backoff", "on_giveup"):
        options[field] = _handlers(field, options[field], first.get(field))
    exception = options.pop("exception", ())
    return Plan(**options, exception=exception if isinstance(exception, type) else tuple(exception))


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
