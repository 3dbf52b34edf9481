"""The standard-library logging sink: a line per retry, call that retried or gave up, or change of a store.

On from the start, under the logger ``stormproof``, which stays silent until the application
configures logging. A retry is DEBUG, retried-and-succeeded INFO, gave-up WARNING. A call that failed at
its first attempt with an error not worth retrying is the caller's own business and is not logged.
"""

from __future__ import annotations

import logging
from typing import Any

from .labels import store_fault, tried
from .types import Event, GaveUp, Late, Retrying, StoreDown, StoreUp, Succeeded

_REASONS = {
    "fatal": "the error is not worth retrying",
    "permanent": "the call marked its error as permanent",
    "attempts": "attempts used up",
    "exhausted": "an inner layer had already retried it",
    "hint": "the server asked for a longer wait than allowed",
    "deadline": "no time left",
    "within": "time for retrying used up",
    "cancelled": "cancelled",
    "budget": "retry budget exhausted",
    "circuit": "the circuit is open",
    "bulkhead": "no place free in the bulkhead",
    "limit": "over the rate limit",
    "throttle": "shed by the throttle",
    "unrepeatable": "the request must not be sent again",
}

_FALLBACKS = {
    "local": "each instance uses its own share",
    "open": "everything is allowed meanwhile",
    "closed": "nothing is allowed meanwhile",
}

_SILENT = logging.NullHandler
_logger = logging.getLogger("stormproof")
#: The handlers of an application that has given this logger none.
_UNUSED = [_SILENT()]
_logger.addHandler(_UNUSED[0])
_root = logging.getLogger()


def would_write(level: int) -> bool:
    """Return True if a line of ``level`` would reach a handler that writes, or a filter of the logger."""
    if not _root.handlers and _logger.handlers == _UNUSED and not _logger.filters:
        # Logging is not configured.
        return False
    if _logger.filters:
        return _logger.isEnabledFor(level)
    logger: logging.Logger | None = _logger
    while logger is not None:
        for handler in logger.handlers:
            if type(handler) is not _SILENT and level >= handler.level:
                # Last, as it takes longest.
                return _logger.isEnabledFor(level)
        logger = logger.parent if logger.propagate else None
    return False


def log(event: Event, logger: logging.Logger | None = None) -> None:
    """Write ``event``, if it is one that deserves a line."""
    line = _line(event)
    if line is not None:
        level, text, *values = line
        (logger or _logger).log(level, text, *values, extra={"stormproof": event.as_dict()})


def _line(event: Event) -> tuple[Any, ...] | None:
    """Return level, text and arguments of a log line; ``None`` for an event that is not logged."""
    if isinstance(event, Retrying):
        text = "%s failed at attempt %d (%s): the next one follows in %.3f s"
        error = event.error or "result refused"
        return logging.DEBUG, text, event.operation, event.attempt, error, event.wait
    if isinstance(event, Succeeded) and event.attempts > 1:
        text = "%s succeeded at attempt %d, %.3f s after its first failure"
        return logging.INFO, text, event.operation, event.attempts, event.elapsed
    if isinstance(event, GaveUp) and (event.attempts > 1 or event.reason not in ("fatal", "permanent")):
        why = _REASONS.get(event.reason, event.reason), event.error or "result refused"
        tries = tried(event.attempts, event.elapsed)
        return logging.WARNING, "%s gave up after %s: %s (%s)", event.operation, tries, *why
    if isinstance(event, Late):
        text = "%s returned after %.3f s, past its %s of %g s: a plain function cannot be interrupted"
        return logging.WARNING, text, event.operation, event.elapsed, event.scope, event.limit
    if isinstance(event, StoreDown):
        instead = _FALLBACKS.get(event.on_failure, event.on_failure)
        fault = store_fault(event.error)
        return logging.WARNING, "store %s cannot be used (%s): %s", event.operation, fault, instead
    if isinstance(event, StoreUp):
        return logging.INFO, "store %s can be used again after %.3f s", event.operation, event.down_for
    return None
