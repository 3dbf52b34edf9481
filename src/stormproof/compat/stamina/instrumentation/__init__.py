"""Hooks that run when a retry is scheduled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._config import CONFIG
from ._data import RetryDetails, RetryHook, RetryHookFactory
from ._logging import LoggingOnRetryHook
from ._prometheus import PrometheusOnRetryHook, counter
from ._structlog import StructlogOnRetryHook

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "LoggingOnRetryHook",
    "PrometheusOnRetryHook",
    "RetryDetails",
    "RetryHook",
    "RetryHookFactory",
    "StructlogOnRetryHook",
    "get_on_retry_hooks",
    "get_prometheus_counter",
    "set_on_retry_hooks",
]


def set_on_retry_hooks(hooks: Iterable[RetryHook | RetryHookFactory] | None) -> None:
    """Use ``hooks``; ``None`` is the default ones, an empty list none."""
    CONFIG.set_hooks(hooks)


def get_on_retry_hooks() -> tuple[RetryHook, ...]:
    """Return the hooks in use, made if they are not yet."""
    return CONFIG.on_retry


def get_prometheus_counter() -> Any:
    """Return the counter ``stamina_retries_total``; ``None`` where Prometheus is not in use."""
    # It is made with the hooks.
    get_on_retry_hooks()
    return counter()
