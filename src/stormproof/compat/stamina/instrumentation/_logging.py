"""A hook that logs with the standard library."""

from __future__ import annotations

from ._data import RetryDetails, RetryHook, RetryHookFactory


def init_logging(log_level: int = 30) -> RetryHook:
    """Return a hook that logs to the logger "stamina"; the details are in the record's extra fields."""
    import logging

    logger = logging.getLogger("stamina")

    def log_retries(details: RetryDetails) -> None:
        logger.log(
            log_level,
            "stamina.retry_scheduled",
            extra={
                "stamina.callable": details.name,
                "stamina.args": tuple(map(repr, details.args)),
                "stamina.kwargs": dict(details.kwargs),
                "stamina.retry_num": details.retry_num,
                "stamina.caused_by": repr(details.caused_by),
                "stamina.wait_for": round(details.wait_for, 2),
                "stamina.waited_so_far": round(details.waited_so_far, 2),
            },
        )

    return log_retries


LoggingOnRetryHook = RetryHookFactory(init_logging)
