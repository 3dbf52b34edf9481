"""A process forked while calls were under way inherited their places, which were never given back.

Stormproof: in the child all places of a bulkhead are free; the parent's stay taken.
"""

from __future__ import annotations

import os

import pytest

import stormproof as sp


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other platform: no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_child_starts_with_free_places():
    bulkhead = sp.Bulkhead(1)
    policy = sp.Policy(bulkhead)

    def forks():
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if bulkhead.in_use == 0 and policy.call(str) == "" else 2
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert bulkhead.in_use == 1
        with pytest.raises(sp.BulkheadFull):
            policy.call(str)
        return os.waitstatus_to_exitcode(status)

    assert policy.call(forks) == 0
    assert bulkhead.in_use == 0
