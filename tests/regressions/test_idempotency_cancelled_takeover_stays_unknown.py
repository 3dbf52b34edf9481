"""A call that took over a key with an unknown outcome, and was cancelled meanwhile, left the key free.

The next call ran the work as if it had never been begun, even where it had asked to be notified of unknown
outcomes. Stormproof: a claim that is taken back leaves the key as it was.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from stormproof.idempotency import Begin, SqliteStore
from stormproof.testing import FakeClock

SLOW = "slow"


class Slow(SqliteStore):
    """A store whose claims take effect at once and are reported later."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, clock=FakeClock())
        self.claimed = threading.Event()
        self.released = threading.Event()
        self.operations: list[Any] = []

    def run(self, operation: Any) -> Any:
        self.operations.append(operation)
        found = super().run(operation)
        if isinstance(operation, Begin) and operation.owner == SLOW:
            self.claimed.set()
            assert self.released.wait(10)
        return found


async def cancelled(store: Slow, key: str, take_over: bool) -> None:
    asking = asyncio.ensure_future(store.begin_async(key, "", SLOW, 60, take_over=take_over))
    await asyncio.to_thread(store.claimed.wait, 10)
    asking.cancel()
    await asyncio.sleep(0)
    store.released.set()
    with pytest.raises(asyncio.CancelledError):
        await asking


def test_unknown_key_stays_unknown_after_a_cancelled_takeover(tmp_path: Path) -> None:
    store = Slow(tmp_path / "keys")
    assert store.begin("order-1", "", "a", 60).state == "new"
    assert store.renew("order-1", "a", 0)
    asyncio.run(cancelled(store, "order-1", take_over=True))
    assert store.begin("order-1", "", "b", 60).state == "unknown"
    assert store.begin("order-1", "", "c", 60, take_over=True).taken_over
    store.close()


def test_free_key_stays_free_after_a_cancelled_takeover(tmp_path: Path) -> None:
    store = Slow(tmp_path / "keys")
    asyncio.run(cancelled(store, "order-1", take_over=True))
    claim = store.begin("order-1", "", "b", 60)
    assert (claim.state, claim.taken_over) == ("new", False)
    store.close()


def test_cancelled_takeover_of_a_running_key_leaves_it_running(tmp_path: Path) -> None:
    store = Slow(tmp_path / "keys")
    assert store.begin("order-1", "", "a", 60).state == "new"
    asyncio.run(cancelled(store, "order-1", take_over=True))
    assert store.begin("order-1", "", "b", 60).state == "in_progress"
    assert [type(operation) for operation in store.operations] == [Begin] * 3, "it took back what it had not"
    store.close()
