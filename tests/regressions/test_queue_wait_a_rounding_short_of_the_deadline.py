"""A thread in a bulkhead's queue, whose deadline's sum was a rounding error short of its end when the wait
was over, got a TypeError about formatting None instead of DeadlineExceeded.

Stormproof: a wait that ends with its scope's time raises DeadlineExceeded.
"""

from __future__ import annotations

import math

import pytest

import stormproof as sp
from stormproof._context.deadlines import Scope


class AlmostOver(Scope):
    """Has less time left than the clock can measure."""

    def own_remaining(self) -> float:
        return math.ulp(0.0)


def test_thread_whose_queue_wait_ends_a_rounding_short_gets_deadline_exceeded():
    bulkhead = sp.Bulkhead(1, queue=1, max_wait=None)
    policy = sp.Policy(bulkhead)

    def inside() -> None:
        with AlmostOver(1.0, "almost"):
            with pytest.raises(sp.DeadlineExceeded, match="almost"):
                policy.call(int)

    policy.call(inside)
    assert bulkhead.in_use == bulkhead.queued == 0
