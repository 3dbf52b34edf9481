"""The status page has a column for a limiter's tokens, and left out operations with nothing but a limiter.

Until their first call: those with a budget, a breaker or a bulkhead were there from the start.
"""

from __future__ import annotations

import stormproof as sp
from stormproof._telemetry.status import Status


def test_limiter_is_shown_before_its_first_call() -> None:
    policy = sp.Policy(sp.RateLimit(sp.Limiter(5, burst=5)), name="only-limited")
    call = policy(lambda: None)
    status = Status(recent=1)
    try:
        rows = [row for row in status.read()["operations"] if row["operation"] == "only-limited"]
        assert [(row["attempts"], row["tokens"]) for row in rows] == [(0, 5.0)]
    finally:
        status.close()
    assert call() is None
