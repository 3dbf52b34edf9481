"""What a budget and a limiter with a store have in common: visits by the exchange, and life without it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .. import bus
from ..leases import next_visit
from .link import Request

if TYPE_CHECKING:
    from ..leases import LeaseBucket, Purse
    from ..redis import RedisStore

#: A key that is not what it should be is looked at again so often.
_SPOILED_S = 1.0

MILLION = 1_000_000


def micro(amount: float) -> int:
    """``amount`` in whole millionths, the store's unit."""
    return round(amount * MILLION)


class Holder:
    """A `Member` on behalf of ``owner``, which is only looked at as long as somebody else uses it."""

    kind = ""

    def __init__(self, owner: Any, store: RedisStore, name: str) -> None:
        self.store = store
        self.name = name
        self.key = store.key(self.kind, name)
        self.next_at = 0.0
        #: When the store last answered; None: not yet. For the time being it decides alone while ``alone``.
        self.answered_at: float | None = None
        self.alone = False
        self._owner: weakref.ref[Any] = weakref.ref(owner)
        self._earliest = 0.0
        self._kicked = False
        self._epoch = 0
        self._spoiled_at: float | None = None

    def alive(self) -> bool:
        return self._owner() is not None

    def kick(self) -> None:
        """Somebody had to spend on credit or was refused: settle as soon as that makes sense."""
        if self._kicked or self.alone:
            return
        self._kicked = True
        self.next_at = min(self.next_at, self._earliest)
        self.store.wake()

    def _asked(self) -> None:
        self._kicked = False

    def _answered(
        self, now: float, lease: LeaseBucket | Purse, short: bool, ready_s: float, at: float
    ) -> None:
        """Plan the next visit. ``at`` is now on the owner's clock, ``now`` on the exchange's."""
        self.answered_at = now
        due, earliest = next_visit(at, lease.demand, lease.instances, short, ready_s)
        self.next_at, self._earliest = now + due - at, now + earliest - at
        if self._kicked:
            self.next_at = min(self.next_at, self._earliest)
        self._restored(now)

    def _restored(self, now: float) -> None:
        """Say that the key is usable again, if it was not."""
        if self._spoiled_at is not None:
            bus.publish("StoreUp", operation=bus.clean(self.name), down_for=now - self._spoiled_at)
            self._spoiled_at = None

    def _told(self, granted: int, held: float, level: float, instances: int) -> None:
        if bus.watchers:
            bus.publish(
                "LeaseExchanged",
                operation=bus.clean(self.name),
                kind=self.kind,
                granted=float(granted),
                held=float(held),
                level=level,
                instances=instances,
                latency=self.store.stats()["latency"],
            )

    def spoiled(self, error: Exception, now: float) -> None:
        if self._spoiled_at is None:
            self._spoiled_at = now
            self.store.fell_back()
            bus.publish(
                "StoreDown",
                operation=bus.clean(self.name),
                error=bus.error_name(error),
                on_failure=self.store.on_failure,
            )
        self.lost(now)
        self.next_at = now + _SPOILED_S

    def lost(self, now: float) -> None:
        raise NotImplementedError

    def _request(self, *args: str | int) -> Request:
        return Request(self.kind, self.key, args)

    def _attach(self) -> None:
        self.store.attach(self)  # type: ignore[arg-type]
