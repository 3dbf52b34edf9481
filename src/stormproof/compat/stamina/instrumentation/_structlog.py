"""A hook that logs with structlog."""

from __future__ import annotations

from ._data import RetryDetails, RetryHook, RetryHookFactory


def init_structlog() -> RetryHook:
    """Return a hook that logs a warning "stamina.retry_scheduled" with the details."""
    import structlog

    logger = structlog.get_logger("stamina")

    def log_retries(details: RetryDetails) -> None:
        logger.warning(
            "stamina.retry_scheduled",
            callable=details.name,
            args=tuple(map(repr, details.args)),
            kwargs=dict(details.kwargs),
            retry_num=details.retry_num,
            caused_by=repr(details.caused_by),
            wait_for=round(details.wait_for, 2),
            waited_so_far=round(details.waited_so_far, 2),
        )

    return log_retries


StructlogOnRetryHook = RetryHookFactory(init_structlog)
