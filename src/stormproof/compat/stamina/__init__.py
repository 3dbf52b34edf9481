"""A drop-in for stamina 26.1, on Stormproof's own code.

``import stamina`` becomes ``from stormproof.compat import stamina``. The twelve public names,
``stamina.instrumentation`` and ``stamina.typing`` work as they do there; tenacity is not needed.

Added: ``budget=stormproof.Budget()`` on ``retry``, ``retry_context`` and the callers; the ambient
``stormproof.deadline``, ``stormproof.disabled()`` and ``stormproof.testing.instant()`` hold.

Put right:

- The context manager that a hook returns is entered and left once per retry, also when the wait is cancelled.
- Ctrl-C, `SystemExit` and a cancelled task end the retry, unless ``on`` names them as types.
- A retried asynchronous generator is closed before it is started again.
- ``AsyncRetryingCaller`` takes any callable that returns something to await.
"""

from __future__ import annotations

from . import instrumentation
from ._callers import (
    AsyncRetryingCaller,
    BoundAsyncRetryingCaller,
    BoundRetryingCaller,
    RetryingCaller,
    retry,
    retry_context,
)
from ._config import is_active, is_testing, set_active, set_testing
from ._core import Attempt

__all__ = [
    "AsyncRetryingCaller",
    "Attempt",
    "BoundAsyncRetryingCaller",
    "BoundRetryingCaller",
    "RetryingCaller",
    "instrumentation",
    "is_active",
    "is_testing",
    "retry",
    "retry_context",
    "set_active",
    "set_testing",
]

__version__ = "26.1.0"
"""The version of stamina whose API this is."""
