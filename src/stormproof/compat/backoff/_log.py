"""The default handlers: one log line per backoff and one per giving up."""

from __future__ import annotations

import functools
import logging
from traceback import TracebackException
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._typing import Handler, _MaybeLogger


def configure() -> None:
    """Give the ``"backoff"`` logger a NullHandler, and the level INFO unless it has one."""
    logger = logging.getLogger("backoff")
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)


#: Texts of the default handlers, each with the detail that it shows.
BACKOFF = ("Backing off %s(...) for %.1fs (%s)", "wait")
GIVEUP = ("Giving up %s(...) after %d tries (%s)", "tries")


def handler(logger: _MaybeLogger, level: int, text: str, figure: str) -> Handler | None:
    """Return a handler that logs ``text``, such as `BACKOFF`; None without a logger."""
    log: Any = logging.getLogger(logger) if isinstance(logger, str) else logger
    if log is None:
        return None
    return lambda details: log.log(level, text, _name(details), details[figure], _reason(details))


def _name(details: dict[str, Any]) -> str:
    if "target" not in details:
        return "retry_context"
    target = details["target"]
    while isinstance(target, functools.partial):
        target = target.func
    name: str = getattr(target, "__name__", type(target).__name__)
    return name


def _reason(details: dict[str, Any]) -> Any:
    if "exception" not in details:
        return details["value"]
    error = details["exception"]
    described = TracebackException(type(error), error, None, compact=True)
    # The last line says what happened (a SyntaxError has lines before it), but notes would come after it.
    described.__notes__ = None
    return list(described.format_exception_only())[-1].rstrip("\n")
