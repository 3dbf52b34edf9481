"""How much time a request gets. Pure."""

from __future__ import annotations

import math

from .problem import Problem

LATE = Problem(504, "deadline_exceeded", "The time allowed for this request is over", False)


def allowed(asked_s: float | None, max_s: float | None, default_s: float | None) -> float | None:
    """Seconds for a request whose caller has ``asked_s`` left; ``None``: no deadline; <= 0: it is late."""
    given_s = default_s if asked_s is None else asked_s
    if max_s is not None and given_s is not None:
        given_s = min(given_s, max_s)
    return None if given_s is None or given_s == math.inf else given_s
