"""State that a forked child must not inherit."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def after_fork(renew: Callable[[], None]) -> Callable[[], None]:
    """Decorator for a function that is to run in every forked child. On Windows nothing forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return renew
