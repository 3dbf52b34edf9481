"""Hooks that run before each attempt."""

from __future__ import annotations

from collections.abc import Callable

from ._state import RetryCallState
from ._utils import LoggerProtocol, to_ordinal


def before_nothing(retry_state: RetryCallState) -> None:
    """Do nothing."""


def before_log(logger: LoggerProtocol, log_level: int) -> Callable[[RetryCallState], None]:
    """Return a hook that logs the start of each attempt."""

    def log_it(retry_state: RetryCallState) -> None:
        number = to_ordinal(retry_state.attempt_number)
        name = retry_state.get_fn_name()
        message = f"Starting call to '{name}', this is the {number} time calling it."
        logger.log(log_level, message)

    return log_it
