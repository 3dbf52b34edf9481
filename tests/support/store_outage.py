"""Two instances that share a limiter and a budget, and go on calling while their store is hurt."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof import events
from stormproof.redis import RedisStore

RATE, BURST = 200.0, 40
TIMEOUT = 0.2
#: How soon a store that is back must be in use again.
BACK_S = 2.0


class Ordeal:
    """A context manager; ``told`` are the events of the stores' changes."""

    def __init__(self, server: Server, on_failure: str = "local") -> None:
        self.server = server
        self.told: list[Any] = []
        self._stop = sp.subscribe(self._hear)
        self.stores = [RedisStore(server.url, timeout=TIMEOUT, on_failure=on_failure) for _ in range(2)]
        self.limiters = [sp.Limiter(RATE, BURST, store=store, name="limiter") for store in self.stores]
        self.budgets = [sp.Budget(0.1, 10, store=store, name="budget") for store in self.stores]
        self.holders: list[Any] = [part._fleet for part in (*self.limiters, *self.budgets)]
        eventually(lambda: all(limiter._fleet.bucket.instances == 2 for limiter in self.limiters))  # type: ignore[union-attr]
        eventually(lambda: all(budget._fleet.purse.instances == 2 for budget in self.budgets))  # type: ignore[union-attr]

    def _hear(self, event: Any) -> None:
        if isinstance(event, (events.StoreDown, events.StoreUp)):
            self.told.append(event)

    def live(self, seconds: float) -> tuple[int, float]:
        """Call for so long: (how many were admitted, the longest decision). Any error is the test's."""
        end = time.monotonic() + seconds
        admitted, worst = 0, 0.0
        while (start := time.monotonic()) < end:
            for limiter, budget in zip(self.limiters, self.budgets, strict=True):
                admitted += limiter.allow()
                budget.success()
                budget.withdraw()
            worst = max(worst, time.monotonic() - start)
            time.sleep(0.001)
        return admitted, worst

    @property
    def alone(self) -> list[bool]:
        """Who decides without the store."""
        return [holder.alone for holder in self.holders]

    def fallen_back(self) -> None:
        """Live on until everybody has noticed."""
        eventually(lambda: self.live(0.01) and all(self.alone))

    def recovered(self) -> None:
        """Live on until everybody is back."""
        eventually(lambda: self.live(0.01) and not any(self.alone), within=BACK_S)

    def share_is_kept(self, seconds: float = 0.5) -> None:
        """Both go by their share: together the limit, which refills as ever."""
        admitted, worst = self.live(seconds)
        assert admitted <= BURST + RATE * seconds * 1.05 + 2
        assert admitted >= 0.8 * RATE * seconds
        assert worst < TIMEOUT

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self._stop()

    def __enter__(self) -> Ordeal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
