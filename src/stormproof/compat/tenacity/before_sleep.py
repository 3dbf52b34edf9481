"""Hooks that run before each wait."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from ._state import RetryCallState
from ._utils import LoggerProtocol


def before_sleep_nothing(retry_state: RetryCallState) -> None:
    """Do nothing."""


def before_sleep_log(
    logger: LoggerProtocol, log_level: int, exc_info: bool = False, sec_format: str = "%.3g"
) -> Callable[[RetryCallState], None]:
    """Return a hook that logs the outcome and the wait; with ``exc_info``, the traceback too."""

    def log_it(retry_state: RetryCallState) -> None:
        outcome, action = retry_state.outcome, retry_state.next_action
        if outcome is None or action is None:
            raise RuntimeError("before_sleep_log runs after an attempt and before its wait")
        error, trace = outcome.exception(), ""
        if error is None:
            verb, outcome_text = "returned", f"{outcome.result()}"
        else:
            verb, outcome_text = "raised", f"{type(error).__name__}: {error}"
            if exc_info:
                # In the text: loggers other than the standard library's take no exc_info.
                trace = "\n" + "".join(traceback.format_exception(error)).rstrip("\n")
        name, wait = retry_state.get_fn_name(), sec_format % action.sleep
        message = f"Retrying {name} in {wait} seconds as it {verb} {outcome_text}.{trace}"
        logger.log(log_level, message)

    return log_it
