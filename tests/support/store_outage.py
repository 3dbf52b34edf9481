"""Two instances that share a limiter and a budget, and go on calling while their store is hurt."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from tests.support.polling import eventually
from tests.support.redis_servers import Server

import stormproof as sp
from stormproof import events
from stormproof._fleet.health import LONGEST_PROBE_S
from stormproof._strategies.limiter.rules import leases
from stormproof.redis import RedisStore

RATE, BURST = 200.0, 40
TIMEOUT = 0.2


def stated_overshoot(rate: float, burst: int, instances: int, timeout_s: float, outages: int) -> float:
    """Return the tokens beyond burst + rate * w in any window, as docs/fleet.md states it."""
    return leases.overshoot(rate, burst, instances) + outages * (
        burst + instances + rate * (LONGEST_PROBE_S + timeout_s)
    )


class StoreOutage:
    """The two instances; ``store_events`` are the changes of their stores."""

    def __init__(self, server: Server, on_failure: str = "local", rate: float = RATE) -> None:
        self.server = server
        self.store_events: list[Any] = []
        #: Decisions of limiters so far.
        self.asked = 0
        self._stop = sp.subscribe(self._on_event)
        self.stores = [RedisStore(server.url, timeout=TIMEOUT, on_failure=on_failure) for _ in range(2)]
        self.limiters = [sp.Limiter(rate, BURST, store=store, name="limiter") for store in self.stores]
        self.budgets = [sp.Budget(0.1, burst=10, store=store, name="budget") for store in self.stores]
        self.holders: list[Any] = [part._fleet for part in (*self.limiters, *self.budgets)]
        eventually(lambda: all(limiter._fleet.bucket.instances == 2 for limiter in self.limiters))  # type: ignore[union-attr]
        eventually(lambda: all(budget._fleet.purse.instances == 2 for budget in self.budgets))  # type: ignore[union-attr]

    def _on_event(self, event: Any) -> None:
        if isinstance(event, (events.StoreDown, events.StoreUp)):
            self.store_events.append(event)

    def call_for(self, seconds: float) -> tuple[int, float]:
        """Call for ``seconds``: return how many were admitted, and the time of a slow decision.

        That is the 90th percentile: a decision that waits for the store is slow each time, one that the
        machine keeps waiting only now and then. Any error is the test's.
        """
        end = time.monotonic() + seconds
        admitted, times = 0, []
        while (start := time.monotonic()) < end:
            for limiter, budget in zip(self.limiters, self.budgets, strict=True):
                admitted += limiter.allow()
                budget.success()
                budget.withdraw()
            times.append(time.monotonic() - start)
            self.asked += len(self.limiters)
            time.sleep(0.001)
        return admitted, sorted(times)[int(len(times) * 0.9)]

    @property
    def alone(self) -> list[bool]:
        """Return the parts that decide without the store."""
        return [holder.alone for holder in self.holders]

    def call_until_alone(self) -> None:
        """Make calls until every part has noticed."""
        eventually(lambda: self.call_for(0.01) and all(self.alone))

    def call_until_recovered(self) -> None:
        """Make calls until every part is back."""
        eventually(lambda: self.call_for(0.01) and not any(self.alone))

    def assert_share_is_kept(self, seconds: float = 0.5) -> None:
        """Both use their share: together the limit, which goes on refilling.

        They never get more than docs/fleet.md states for a window with one outage. A window that has what
        the outage added, or in which a busy machine kept the exchange thread waiting, says nothing of the
        share, so that another one is looked at.
        """
        eventually(lambda: self._is_share_used(seconds), "both instances use their share")

    def _is_share_used(self, seconds: float) -> bool:
        began, asked = time.monotonic(), self.asked
        admitted, slow = self.call_for(seconds)
        elapsed, asked = time.monotonic() - began, self.asked - asked
        most = BURST + RATE * elapsed
        assert admitted <= most + stated_overshoot(RATE, BURST, 2, TIMEOUT, outages=1)
        is_used = admitted >= 0.8 * min(RATE * seconds, asked)
        return is_used and admitted <= 1.05 * most and slow < TIMEOUT

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self._stop()

    def __enter__(self) -> StoreOutage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
