"""A hook that counts in Prometheus."""

from __future__ import annotations

from typing import Any

from ._data import RetryDetails, RetryHook, RetryHookFactory, guess_name

_NAME = "stamina_retries_total"
_counter: Any = None


def init_prometheus() -> RetryHook:
    """Return a hook that counts retries in ``stamina_retries_total``."""
    global _counter
    import prometheus_client

    if _counter is None:
        try:
            _counter = prometheus_client.Counter(
                _NAME, "Total number of retries.", ("callable", "retry_num", "error_type")
            )
        except ValueError:
            # stamina itself is loaded beside this module: both count in one counter.
            _counter = prometheus_client.REGISTRY._names_to_collectors[_NAME]

    def count_retries(details: RetryDetails) -> None:
        _counter.labels(
            callable=details.name,
            retry_num=details.retry_num,
            error_type=guess_name(type(details.caused_by)),
        ).inc()

    return count_retries


def counter() -> Any:
    """Return the counter; ``None`` before the hook is made."""
    return _counter


PrometheusOnRetryHook = RetryHookFactory(init_prometheus)
