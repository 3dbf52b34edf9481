"""Which hooks there are."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from ._data import RetryHook, RetryHookFactory
from ._logging import LoggingOnRetryHook
from ._prometheus import PrometheusOnRetryHook
from ._structlog import StructlogOnRetryHook

if TYPE_CHECKING:
    from collections.abc import Iterable


def init_hooks(maybe_delayed: Iterable[RetryHook | RetryHookFactory]) -> tuple[RetryHook, ...]:
    """Return the hooks, those of factories made."""
    return tuple(
        hook.hook_factory() if isinstance(hook, RetryHookFactory) else hook for hook in maybe_delayed
    )


def get_default_hooks() -> tuple[RetryHookFactory, ...]:
    """Return a hook for logging, and one for Prometheus where its client is installed."""
    logs = LoggingOnRetryHook if find_spec("structlog") is None else StructlogOnRetryHook
    return (logs,) if find_spec("prometheus_client") is None else (PrometheusOnRetryHook, logs)
