"""A hook that logs with structlog."""

from __future__ import annotations

from ._data import RetryDetails, RetryHook, RetryHookFactory


def init_structlog() -> RetryHook:
    """Return a hook that logs a warning "stamina.retry_scheduled" with the details."""
    import structlog

    logger = structlog.get_logger("stamina")

    def log_retries(details: RetryDetails) -> None:
        logger.warning("stamina.retry_scheduled", **details.as_log())

    return log_retries


StructlogOnRetryHook = RetryHookFactory(init_structlog)
