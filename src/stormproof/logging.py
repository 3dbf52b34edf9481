"""The standard-library logging sink and its switch, and a sink for structlog.

Log lines are on from the start, under the logger ``stormproof``; see `stormproof._events.log` for what is
written at which level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._events import bus
from ._events.log import log
from ._events.types import Event, GaveUp, Refused, Retrying

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["log", "off", "on", "to_structlog"]


def to_structlog(logger: object = None) -> Callable[[Event], None]:
    """Return a subscriber that writes to a structlog logger, with the event's fields as the entry's:

        subscribe(logging.to_structlog(), first_tries=False)

    ``logger`` is ``structlog.get_logger("stormproof")`` unless given. What gave up or was refused is a
    warning, a retry is at debug level, everything else at info.
    """
    if logger is None:
        import structlog

        logger = structlog.get_logger("stormproof")

    def write(event: Event) -> None:
        fields = event.as_dict()
        kind = fields.pop("event")
        level = "warning" if isinstance(event, (GaveUp, Refused)) else "info"
        if isinstance(event, Retrying):
            level = "debug"
        getattr(logger, level)(kind, **fields)

    return write


def off() -> None:
    """Turn Stormproof's own log lines off."""
    bus.log_by_default(False)


def on() -> None:
    """Turn Stormproof's own log lines on, as they are at the start."""
    bus.log_by_default(True)
