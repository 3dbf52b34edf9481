"""A bulkhead of a whole fleet: places are leased ahead of the calls, renewed, and given back.

The places of a process that is gone are free again when its lease is over. While calls wait elsewhere
for want of places, an instance keeps no more than it uses.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .holder import Holder, micro

if TYPE_CHECKING:
    from ..bulkhead import Bulkhead
    from ..redis import RedisStore
    from .link import Request

#: Places are held so long without a word from their holder, and renewed so often.
LEASE_S = 2.0
_RENEW_S = 0.5
#: With places to spare: how soon another instance that lacks some may have them.
_SPARING_S = 0.1
#: While it lacks some itself.
_PRESSED_S = 0.02
#: What was in use lately is still counted on, less with every visit.
_FADE = 0.8


class FleetBulkhead(Holder):
    """The member on behalf of a bulkhead, whose number of places it sets."""

    kind = "bulkhead"

    def __init__(self, owner: Bulkhead, store: RedisStore, name: str) -> None:
        super().__init__(owner, store, name)
        self.instances = store.instances
        self._peak = 0.0
        self._wanted = 0
        #: Whether the fleet had no more to give when it was last asked.
        self._spent = False
        self._hungry = False

    def start(self) -> None:
        """Take part. Until the first answer, with what would be its part of the limit."""
        owner: Bulkhead | None = self._owner()
        if owner is not None:
            owner.resize(self._share(owner))
        self._attach()

    def _share(self, owner: Bulkhead) -> int:
        return max(1, owner.limit // self.instances)

    def hope(self) -> int:
        """How many places may still come if they are asked for."""
        owner: Bulkhead | None = self._owner()
        if owner is None or self.alone or self._spent:
            return 0
        return max(0, owner.limit - owner._places)

    def ask(self, now: float) -> Request | None:
        owner: Bulkhead | None = self._owner()
        if owner is None:
            return None
        self._asked()
        used, waiting = owner.in_use, owner.queued
        self._peak = max(float(used + waiting), self._peak * _FADE)
        self._wanted = min(owner.limit, used + waiting if self._hungry else self._foreseen(owner))
        return self._lease(owner.limit, self._wanted, used, LEASE_S)

    def _foreseen(self, owner: Bulkhead) -> int:
        # One place to spare for the next first call, where there are enough for everybody to have one.
        spare = 1 if owner.limit >= 2 * self.instances else 0
        return (math.ceil(self._peak * 1.25) if self._peak >= 0.5 else 0) + spare

    def _lease(self, limit: int, wanted: int, used: int, lease_s: float) -> Request:
        return self._request(self.store.instance, limit, wanted, used, micro(lease_s))

    def took(self, answer: Any, now: float) -> None:
        owner: Bulkhead | None = self._owner()
        if owner is None:
            return
        granted, self.instances, hungry = (int(part) for part in answer)
        self._spent, self._hungry, self.alone = granted < self._wanted, bool(hungry), False
        owner.resize(granted)
        wait_s = _SPARING_S if owner._places > owner.in_use else _RENEW_S
        if self._spent or owner.queued:
            wait_s = _PRESSED_S
        self.answered_at, self._earliest = now, now
        self.next_at = now if self._kicked else now + wait_s
        self._restored(now)
        self._told(granted, granted - owner.in_use, 0.0, self.instances)

    def lost(self, now: float) -> None:
        owner: Bulkhead | None = self._owner()
        self.alone, self.next_at = True, math.inf
        if owner is not None:
            alone = {"local": self._share(owner), "open": owner.limit, "closed": 0}
            owner.resize(alone[self.store.on_failure])

    def parting(self) -> Request | None:
        owner: Bulkhead | None = self._owner()
        used = 0 if owner is None else owner.in_use
        # What still runs keeps its place for as long as a lease lasts.
        return self._lease(owner.limit if owner else 0, 0, used, LEASE_S if used else 0.0)

    def forked(self) -> None:
        owner: Bulkhead | None = self._owner()
        self.next_at, self._kicked, self.alone, self._peak = 0.0, False, False, 0.0
        if owner is not None:
            owner.resize(self._share(owner))
