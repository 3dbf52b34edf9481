"""Types for annotations."""

from .instrumentation._data import RetryDetails, RetryHook

__all__ = ["RetryDetails", "RetryHook"]
