"""A store that is slow to renew must not let the leases in another store end."""

from __future__ import annotations

import threading
import time
from typing import Any

from stormproof.idempotency import MemoryStore, Renew, idempotent


class Slow(MemoryStore):
    """Takes its time over every renewal, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.asked = threading.Event()

    def run(self, operation: Any) -> Any:
        if isinstance(operation, Renew):
            self.asked.set()
            self.go.wait()
        return super().run(operation)


class Watched(MemoryStore):
    """Counts renewals."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed = threading.Event()

    def run(self, operation: Any) -> Any:
        if isinstance(operation, Renew):
            self.renewed.set()
        return super().run(operation)


def test_lease_in_another_store_is_renewed() -> None:
    slow, other = Slow(), Watched()

    @idempotent(key=lambda: "k", store=slow, lease=0.05)
    def stuck() -> bool:
        return slow.go.wait(30)

    @idempotent(key=lambda: "k", store=other, lease=0.05)
    def renewed() -> bool:
        return other.renewed.wait(30)

    thread = threading.Thread(target=stuck)
    thread.start()
    try:
        assert slow.asked.wait(30), "the slow store is never asked"
        began = time.monotonic()
        assert renewed(), "the other store's lease was not renewed"
        assert time.monotonic() - began < 30
    finally:
        slow.go.set()
        thread.join()
