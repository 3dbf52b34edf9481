"""A hook that logs with the standard library."""

from __future__ import annotations

from ._data import RetryDetails, RetryHook, RetryHookFactory


def init_logging(log_level: int = 30) -> RetryHook:
    """Return a hook that logs to the logger "stamina"; the details are in the record's extra fields."""
    import logging

    logger = logging.getLogger("stamina")

    def log_retries(details: RetryDetails) -> None:
        extra = {f"stamina.{name}": value for name, value in details.as_log().items()}
        logger.log(log_level, "stamina.retry_scheduled", extra=extra)

    return log_retries


LoggingOnRetryHook = RetryHookFactory(init_logging)
