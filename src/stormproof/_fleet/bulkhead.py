"""A bulkhead of a whole fleet: places are leased ahead of the calls, renewed, and given back.

The places of a process that is gone are free again when its lease is over. While calls wait elsewhere
for want of places, an instance keeps no more than it uses.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from .member import Member, micro

if TYPE_CHECKING:
    from .._strategies.bulkhead.bulkhead import Bulkhead
    from .connection import Request
    from .exchange_thread import ExchangeThread

#: Time that places stay leased without a renewal, and the interval of renewals.
LEASE_S = 2.0
_RENEW_S = 0.5
#: With places to spare: how soon another instance that lacks some may have them.
_SPARING_S = 0.1
#: While it lacks some itself.
_PRESSED_S = 0.02
#: Share of the recent use that is still expected, less with every visit.
_FADE = 0.8

#: Distinguishes the bulkheads of one name in one process: each has places of its own.
_numbers = itertools.count(1)


class FleetBulkhead(Member):
    """The member on behalf of a bulkhead, whose number of places it sets."""

    kind = "bulkhead"

    def __init__(self, owner: Bulkhead, exchange: ExchangeThread, name: str) -> None:
        super().__init__(owner, exchange, name)
        self.instances = exchange.instances
        self._number = next(_numbers)
        self._peak = 0.0
        self._wanted = 0
        #: True if the fleet had no more to give when it was last asked.
        self._spent = False
        self._is_contended = False

    def places(self, owner: Bulkhead) -> int:
        """Return the places before the first answer, or by ``on_failure`` while the store is down."""
        if not self.alone:
            # The use by others is still unknown; a second call waits for the answer.
            return 1
        part = max(1, owner.limit // max(self.instances, self.assumed))
        return {"open": owner.limit, "closed": 0}.get(self.on_failure, part)

    def expected_grants(self) -> int:
        """Return the number of places that the store may still grant."""
        owner: Bulkhead | None = self._owner()
        if owner is None or self.alone or self._spent:
            return 0
        return max(0, owner.limit - owner.places)

    def _ask(self, owner: Bulkhead, now: float) -> Request | None:
        used, waiting = owner.in_use, owner.queued
        self._peak = max(float(used + waiting), self._peak * _FADE)
        self._wanted = min(owner.limit, used + waiting if self._is_contended else self._foreseen(owner))
        return self._lease(owner.limit, self._wanted, used, LEASE_S)

    def _foreseen(self, owner: Bulkhead) -> int:
        # One place to spare for the next first call, where there are enough for every instance.
        spare = 1 if owner.limit >= 2 * self.instances else 0
        return (math.ceil(self._peak * 1.25) if self._peak >= 0.5 else 0) + spare

    def _lease(self, limit: int, wanted: int, used: int, lease_s: float) -> Request:
        me = f"{self._exchange.instance}.{self._number}"
        return self._request(me, limit, wanted, used, micro(lease_s))

    def _on_reply(self, owner: Bulkhead, answer: Any, now: float) -> None:
        granted, self.instances, contended = (int(part) for part in answer)
        self._spent, self._is_contended, self.alone = granted < self._wanted, bool(contended), False
        owner.resize(granted)
        wait_s = _SPARING_S if owner.places > owner.in_use else _RENEW_S
        if self._spent or owner.queued or owner.in_use > granted:
            wait_s = _PRESSED_S
        self.answered_at, self._earliest = now, now
        self.next_at = now if self._kicked else now + wait_s
        self._restored(now)
        self._emit_exchanged(granted, granted - owner.in_use, 0.0, self.instances)

    def lost(self, now: float) -> None:
        super().lost(now)
        owner: Bulkhead | None = self._owner()
        if owner is not None:
            # Without the lock: these may be more places than before.
            owner.dispatch()

    def _leave(self, owner: Bulkhead) -> None:
        owner.set_places(self.places(owner))

    def change(self, owner: Bulkhead) -> None:
        """The owner has another limit."""
        if self.alone:
            owner.resize(self.places(owner))
        else:
            self.kick()

    def release_request(self) -> Request | None:
        if self.alone:
            return None
        owner: Bulkhead | None = self._owner()
        used = 0 if owner is None else owner.in_use
        # A call that still runs keeps its place until the lease ends.
        return self._lease(owner.limit if owner else 0, 0, used, LEASE_S if used else 0.0)

    def _begin(self, owner: Bulkhead) -> None:
        self._peak, self._spent, self._is_contended = 0.0, False, False
        owner.after_fork()
