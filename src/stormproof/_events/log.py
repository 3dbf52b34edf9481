"""The standard-library logging sink: one line per call that retried or gave up, or store that came or went.

On from the start, under the logger ``holdfast``, which stays silent until the application
configures logging. Retried-and-succeeded is INFO, gave-up is WARNING. A call that failed at
its first attempt with an error not worth retrying is the caller's own business and is not logged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from . import bus
from .events import Event, GaveUp, Refused, Retrying, StoreDown, StoreUp, Succeeded
from .naming import tried

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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
    "unrepeatable": "the request must not be sent again",
}

_FALLBACKS = {
    "local": "each instance goes by its own share",
    "open": "everything is allowed meanwhile",
    "closed": "nothing is allowed meanwhile",
}

_logger = logging.getLogger("holdfast")
_logger.addHandler(logging.NullHandler())


#: Whether a line of a level would be written at all.
wanted = _logger.isEnabledFor


def log(event: Event, logger: logging.Logger | None = None) -> None:
    """Write ``event``, if it is one that deserves a line."""
    line = _line(event)
    if line is not None:
        level, text, *values = line
        (logger or _logger).log(level, text, *values, extra={"holdfast": event.as_dict()})


def _line(event: Event) -> tuple[Any, ...] | None:
    """The level, the text and what goes into it; ``None`` for an event that is not logged."""
    if isinstance(event, Succeeded) and event.attempts > 1:
        text = "%s succeeded at attempt %d, %.3f s after its first failure"
        return logging.INFO, text, event.operation, event.attempts, event.elapsed
    if isinstance(event, GaveUp) and (event.attempts > 1 or event.reason not in ("fatal", "permanent")):
        why = _REASONS.get(event.reason, event.reason), event.error or "result refused"
        tries = tried(event.attempts, event.elapsed)
        return logging.WARNING, "%s gave up after %s: %s (%s)", event.operation, tries, *why
    if isinstance(event, StoreDown):
        instead = _FALLBACKS.get(event.on_failure, event.on_failure)
        return logging.WARNING, "store %s cannot be used (%s): %s", event.operation, event.error, instead
    if isinstance(event, StoreUp):
        return logging.INFO, "store %s can be used again after %.3f s", event.operation, event.down_for
    return None


def to_structlog(logger: Any = None) -> Callable[[Event], None]:
    """A subscriber that writes to a structlog logger, with the event's fields as the entry's::

        hf.subscribe(hf.logging.to_structlog(), first_tries=False)

    ``logger`` is ``structlog.get_logger("holdfast")`` unless given. What gave up or was refused is a
    warning, a retry is at debug level, everything else at info.
    """
    if logger is None:
        import structlog

        logger = structlog.get_logger("holdfast")

    def write(event: Event) -> None:
        fields = event.as_dict()
        kind = fields.pop("event")
        level = "warning" if isinstance(event, (GaveUp, Refused)) else "info"
        if isinstance(event, Retrying):
            level = "debug"
        getattr(logger, level)(kind, **fields)

    return write


def off() -> None:
    """Write no log lines on our own."""
    bus.log_by_default(False)


def on() -> None:
    """Write log lines on our own, as at the start."""
    bus.log_by_default(True)
