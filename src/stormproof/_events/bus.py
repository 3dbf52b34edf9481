"""Subscribers to events. Separate from the event types, which load only when there is a subscriber."""

from __future__ import annotations

import sys
from contextvars import ContextVar, copy_context

from .._primitives.options import sync_hook
from . import labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .types import Event

#: The subscribers. The success path asks only whether there are any.
watchers: list[Callable[[Event], object]] = []

#: The subscribers that also receive an event for a call that succeeds at its first attempt.
first_try_subscribers: list[Callable[[Event], object]] = []

#: True inside a subscriber.
_emitting: ContextVar[bool] = ContextVar("stormproof_emitting", default=False)

#: Events that are logged by default, and their level in the standard library: DEBUG, INFO or WARNING.
_LOGGED = {
    "Retrying": 10,
    "Succeeded": 20,
    "GaveUp": 30,
    "Interrupted": 30,
    "Late": 30,
    "StoreDown": 30,
    "StoreUp": 20,
}


def subscribe(callback: Callable[[Event], object], *, first_tries: bool = True) -> Callable[[], None]:
    """Call ``callback(event)`` for every event from now on; returns the function that ends it.

    ``first_tries=False`` leaves out the calls that succeed at their first attempt, which are nearly
    all of them: `stormproof.events.first_tries` counts those at a fraction of an event's cost.

    It runs in the thread or task where the event happens, with no lock held. What it raises is
    reported through `sys.unraisablehook` and otherwise ignored. Calls that it makes itself under a
    policy emit no events, which prevents endless loops.
    """
    if not callable(callback):
        raise TypeError(f"subscribe: callback must be callable, got {callback!r}")
    sync_hook("subscribe", "callback", callback)
    if first_tries:
        first_try_subscribers.append(callback)
    watchers.append(callback)

    done = False

    def unsubscribe() -> None:
        # Once: a second call must not take away another subscription of the same callback.
        nonlocal done
        if not done:
            done = True
            watchers.remove(callback)
            if first_tries:
                first_try_subscribers.remove(callback)

    return unsubscribe


def has_listener(kind: str) -> bool:
    """Return True if a subscriber or the log would receive an event of this kind."""
    if watchers:
        return True
    level = _LOGGED.get(kind)
    return level is not None and would_write(level)


def publish(kind: str, /, **fields: object) -> None:
    """Emit the event ``kind`` to all subscribers; costs next to nothing when there are none."""
    level = _LOGGED.get(kind)
    logged = level is not None and would_write(level)
    if watchers or logged:
        _emit(watchers, kind, fields, logged)


def first_try(operation: str) -> None:
    """Emit the success of a first attempt to the subscribers that asked for those."""
    _emit(first_try_subscribers, "Succeeded", {"operation": operation, "attempts": 1}, False)


def mute() -> None:
    """Emit nothing from this context on."""
    _emitting.set(True)


def _emit(
    subscribers: list[Callable[[Event], object]], kind: str, fields: dict[str, Any], logged: bool
) -> None:
    if _emitting.get():
        return
    from . import types

    # Most names were cleaned where they were given; names in a store are used as they are.
    fields["operation"] = labels.clean(fields["operation"])
    event = getattr(types, kind)(**fields)
    # In a context of its own: an interrupt at the wrong moment cannot leave the mark behind in ours.
    copy_context().run(_hand_out, tuple(subscribers), event, logged)


def _hand_out(subscribers: tuple[Callable[[Event], object], ...], event: Event, logged: bool) -> None:
    _emitting.set(True)
    if logged:
        from . import log

        _call(log.log, event)
    for watcher in subscribers:
        _call(watcher, event)


def _find_log(level: int) -> bool:
    """Return True if the log writes a line of ``level``: none before the application imports logging."""
    global would_write
    if "logging" not in sys.modules:
        return False
    from . import log

    would_write = log.would_write
    return would_write(level)


#: Returns True if the log would write a line of this level; False before the application imports logging.
would_write: Callable[[int], bool] = _find_log


def _call(watcher: Callable[[Any], object], event: Event) -> None:
    try:
        watcher(event)
    except Exception as error:
        report(error)


def report(error: Exception) -> None:
    """Hand an error that no caller can catch to `sys.unraisablehook`."""
    _Unraisable(error)


class _Unraisable:
    """Passes an error to `sys.unraisablehook`, which takes only objects that the interpreter made."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error


def log_by_default(on: bool) -> None:
    """Switch the standard-library log lines on or off."""
    global would_write
    would_write = _find_log if on else lambda level: False
