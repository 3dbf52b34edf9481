"""The configuration of the process: retries on or off, testing mode, and the hooks."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from ._data import RetryHook, RetryHookFactory
from ._hooks import get_default_hooks, init_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class _Testing:
    """Testing mode: no waits, and ``attempts`` attempts (with ``cap``, at most)."""

    def __init__(self, attempts: int, cap: bool) -> None:
        self.attempts = attempts
        self.cap = cap

    def get_attempts(self, non_testing_attempts: int | None) -> int:
        """Return the number of attempts in place of ``non_testing_attempts``."""
        if self.cap and non_testing_attempts is not None:
            return min(self.attempts, non_testing_attempts)
        return self.attempts


class _Config:
    """The configuration of the process. The hooks are made when the first retry asks for them."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self.is_active = True
        self.testing: _Testing | None = None
        self._on_retry: Any = None
        self._get_on_retry: Callable[..., Any] = self._init_on_first_retry

    @property
    def on_retry(self) -> tuple[RetryHook, ...]:
        """The hooks, made if they are not yet."""
        hooks: tuple[RetryHook, ...] = self._get_on_retry()
        return hooks

    def set_hooks(self, hooks: Iterable[RetryHook | RetryHookFactory] | None) -> None:
        """Use ``hooks`` from now on; ``None`` is the default ones."""
        with self._lock:
            self._get_on_retry = self._init_on_first_retry
            self._on_retry = None if hooks is None else tuple(hooks)

    def _init_on_first_retry(self) -> tuple[RetryHook, ...]:
        with self._lock:
            # Another thread may have made them while this one waited for the lock.
            if self._get_on_retry == self._init_on_first_retry:
                given = get_default_hooks() if self._on_retry is None else self._on_retry
                self._on_retry = init_hooks(given)
                self._get_on_retry = lambda: self._on_retry
            hooks: tuple[RetryHook, ...] = self._on_retry
            return hooks


CONFIG = _Config(Lock())
