"""The switches of the process: retries on or off, and testing mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .instrumentation._config import CONFIG, _Config, _Testing

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["CONFIG", "_Config", "_Testing", "is_active", "is_testing", "set_active", "set_testing"]


def is_active() -> bool:
    """Return whether retries are on."""
    return CONFIG.is_active


def set_active(active: bool) -> None:
    """Switch retries on or off for the process."""
    CONFIG.is_active = bool(active)


def is_testing() -> bool:
    """Return whether testing mode is on."""
    return CONFIG.testing is not None


class _RestoreTesting:
    """Puts the testing mode back that was before, at the end of a ``with``."""

    def __init__(self, before: _Testing | None) -> None:
        self._before = before

    def __enter__(self) -> None:
        """Leave testing mode as it was set."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        CONFIG.testing = self._before


def set_testing(testing: bool, *, attempts: int = 1, cap: bool = False) -> _RestoreTesting:
    """Switch testing mode on or off: no waits, and ``attempts`` attempts (``cap``: at most).

    As a context manager it restores what was before.
    """
    before = CONFIG.testing
    CONFIG.testing = _Testing(attempts, cap) if testing else None
    return _RestoreTesting(before)
