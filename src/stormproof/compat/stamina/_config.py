"""The switches of the process: retries on or off, and testing mode."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack

from .instrumentation._config import CONFIG, _Config, _Testing

__all__ = ["CONFIG", "_Config", "_Testing", "is_active", "is_testing", "set_active", "set_testing"]


def is_active() -> bool:
    """Return True if retries are on."""
    return CONFIG.is_active


def set_active(active: bool) -> None:
    """Switch retries on or off for the process."""
    CONFIG.is_active = bool(active)


def is_testing() -> bool:
    """Return whether testing mode is on."""
    return CONFIG.testing is not None


def set_testing(testing: bool, *, attempts: int = 1, cap: bool = False) -> AbstractContextManager[object]:
    """Switch testing mode on or off: no waits, and ``attempts`` attempts (``cap``: at most).

    As a context manager it restores what was before.
    """
    restore = ExitStack()
    restore.callback(setattr, CONFIG, "testing", CONFIG.testing)
    CONFIG.testing = _Testing(attempts, cap) if testing else None
    return restore
