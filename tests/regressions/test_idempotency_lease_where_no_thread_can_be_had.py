"""A run did not begin, for want of a thread to keep its lease; the next run's thread renewed that lease too.

With ``on_error="unknown"`` its key stayed taken for ever. Stormproof: only a begun run renews its lease.
"""

from __future__ import annotations

import threading

import pytest

from stormproof.idempotency import MemoryStore, Renew
from stormproof.idempotency.lease_renewal import RenewedLease


def test_refused_thread_leaves_no_lease_to_renew(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    kept = RenewedLease(MemoryStore(), Renew(b"key", "owner", 60.0, 60.0))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"), kept:
        raise AssertionError("it runs")
    assert not kept.active
