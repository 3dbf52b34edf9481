"""Signal handlers of a run, and warnings about errors that would otherwise be lost."""

from __future__ import annotations

import contextlib
import signal
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def number_of(name: str) -> signal.Signals | None:
    """The signal called ``name``, such as "SIGTERM"; ``None`` if this platform has none."""
    value = getattr(signal, name, None)
    return value if isinstance(value, signal.Signals) else None


@contextlib.contextmanager
def catching(names: tuple[str, ...], callback: Callable[[], object]) -> Iterator[None]:
    """Call ``callback`` when one of the signals arrives. Only the main thread can ask for that; in any
    other this does nothing.

    A handler that was there before is called as well (a server that the worker runs beside wants to
    know), except for SIGINT, whose handlers raise `KeyboardInterrupt`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}

    def handle(number: int, frame: object) -> None:
        callback()
        former = before[number]
        if callable(former) and number != signal.SIGINT:
            former(number, frame)

    try:
        for name in names:
            wanted = signal.Signals[name]
            before[wanted] = signal.getsignal(wanted)
            signal.signal(wanted, handle)
        yield
    finally:
        for number, former in before.items():
            if signal.getsignal(number) is handle:
                # A handler that was not set from Python is None, and cannot be set from Python either.
                signal.signal(number, signal.SIG_DFL if former is None else former)


def complain(what: str, error: BaseException | None) -> None:
    """Log an error that no caller sees, at ERROR: its type and place, never its text."""
    import logging

    from .._events.labels import clean, error_name

    traceback = None if error is None else error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    place = "" if traceback is None else f" in {traceback.tb_frame.f_code.co_qualname}"
    logger = logging.getLogger("stormproof.worker")
    message = clean(f"{what}: {error_name(error)}{place}")
    if logger.isEnabledFor(logging.ERROR) and not _has_handler(logger):
        # Without any configuration the standard library writes errors to stderr, and so does this.
        record = logger.makeRecord(logger.name, logging.ERROR, "stormproof", 0, message, (), None)
        if logging.lastResort is not None:
            logging.lastResort.handle(record)
        return
    logger.error("%s", message)


def _has_handler(logger: Any) -> bool:
    import logging

    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
