"""What everything with a store has in common: visits by the exchange, and life without it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .._events import bus, labels
from .._strategies.limiter.rules.leases import next_visit
from .connection import Request
from .key_format import key_of

if TYPE_CHECKING:
    from .._strategies.limiter.rules.leases import LeaseBucket, Purse
    from .exchange_thread import Exchange

#: A key that is not what it should be is looked at again so often.
_SPOILED_S = 1.0

MILLION = 1_000_000


def micro(amount: float) -> int:
    """``amount`` in whole millionths, the store's unit."""
    return round(amount * MILLION)


class Holder:
    """A `Member` on behalf of ``owner``, which is only looked at as long as somebody else uses it.

    The owner has the store, and this one the store's exchange alone: the exchange must not keep a
    store alive that nobody else has.
    """

    kind = ""

    #: When to be visited.
    next_at: float
    #: Whether it decides without the store: not reached, closed, or its key is not usable.
    alone: bool
    #: When the store last answered; None: not yet.
    answered_at: float | None

    def __init__(self, owner: Any, exchange: Exchange, name: str) -> None:
        self.name = name
        self.key = key_of(exchange.prefix, self.kind, name)
        self.on_failure = exchange.on_failure
        #: How many instances there are at the least, whatever has been counted.
        self.assumed = exchange.instances
        self._exchange = exchange
        self._owner: weakref.ref[Any] = weakref.ref(owner)
        self._reset()

    def _reset(self) -> None:
        """As if nothing had been asked or answered yet."""
        self.next_at = self._earliest = 0.0
        self.alone = self._kicked = False
        self.answered_at = None
        self._epoch = 0
        self._spoiled_at: float | None = None

    def start(self) -> None:
        """Take part, from the moment that the owner is complete."""
        self._exchange.attach(self)  # type: ignore[arg-type]

    def alive(self) -> bool:
        return self._owner() is not None

    def kick(self) -> None:
        """Somebody had to spend on credit or was refused: settle as soon as that makes sense."""
        if self._kicked or self.alone:
            return
        self._kicked = True
        self.next_at = min(self.next_at, self._earliest)
        self._exchange.wake()

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
            bus.publish("StoreUp", operation=labels.clean(self.name), down_for=now - self._spoiled_at)
            self._spoiled_at = None

    def _told(self, granted: int, held: float, level: float, instances: int) -> None:
        if bus.watchers:
            bus.publish(
                "LeaseExchanged",
                operation=labels.clean(self.name),
                kind=self.kind,
                granted=float(granted),
                held=float(held),
                level=level,
                instances=instances,
                latency=self._exchange.tallies.latency_s,
            )

    def _fell_back(self) -> None:
        """Count a decision that was made without the store."""
        self._exchange.tallies.fallbacks += 1

    def spoiled(self, error: Exception, now: float) -> None:
        if self._spoiled_at is None:
            self._spoiled_at = now
            self._fell_back()
            bus.publish(
                "StoreDown",
                operation=labels.clean(self.name),
                error=labels.error_name(error),
                on_failure=self.on_failure,
            )
        self.lost(now)
        self.next_at = now + _SPOILED_S

    def lost(self, now: float) -> None:
        owner = self._owner()
        if owner is not None:
            with owner._lock:
                if not self.alone:
                    self.alone, self.next_at = True, 0.0
                    self._leave(owner)

    def _leave(self, owner: Any) -> None:
        """Give ``owner``, whose lock is held, what it goes by on its own."""
        raise NotImplementedError

    def forked(self) -> None:
        owner = self._owner()
        if owner is not None:
            with owner._lock:
                self._reset()
                self._begin(owner)

    def _begin(self, owner: Any) -> None:
        """Give ``owner``, whose lock is held, what it goes by until the first answer."""
        raise NotImplementedError

    def _request(self, *args: str | int) -> Request:
        return Request(self.kind, self.key, args)
