"""Hooks that run after an attempt that is to be retried."""

from __future__ import annotations

from collections.abc import Callable

from ._state import RetryCallState
from ._utils import LoggerProtocol, to_ordinal


def after_nothing(retry_state: RetryCallState) -> None:
    """Do nothing."""


def after_log(
    logger: LoggerProtocol, log_level: int, sec_format: str = "%.3g"
) -> Callable[[RetryCallState], None]:
    """Return a hook that logs the end of each attempt, with the seconds since the start of the call."""

    def log_it(retry_state: RetryCallState) -> None:
        seconds = retry_state.seconds_since_start
        elapsed = "?" if seconds is None else sec_format % seconds
        number = to_ordinal(retry_state.attempt_number)
        name = retry_state.get_fn_name()
        message = f"Finished call to '{name}' after {elapsed}(s), this was the {number} time calling it."
        logger.log(log_level, message)

    return log_it
