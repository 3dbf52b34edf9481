"""Members of a fleet: visits by the exchange, and decisions without the store."""

from __future__ import annotations

import weakref
from typing import Any

from .._events import bus, labels
from .._strategies.limiter.rules.leases import LeaseBucket, Purse, next_visit
from .connection import Request
from .key_format import key_of

#: Re-check interval for a corrupt key.
_RECHECK_S = 1.0

MILLION = 1_000_000


def micro(amount: float) -> int:
    """``amount`` in whole millionths, the store's unit."""
    return round(amount * MILLION)


class Member:
    """Takes part in the exchange on behalf of ``owner``, to which it has only a weak reference.

    The owner has the store, and this one the store's exchange alone: the exchange must not keep a
    store alive that has no other reference. All methods but `alive`, `kick` and `start` run in the
    exchange's thread.
    """

    kind = ""

    #: When to be visited, on the monotonic clock; inf: not before `kick`.
    next_at: float
    #: True while it decides without the store: not reached, closed, or its key is not usable.
    alone: bool
    #: When the store last answered; None: not yet.
    answered_at: float | None

    def __init__(self, owner: object, exchange: Any, name: str) -> None:
        self.name = name
        self.key = key_of(exchange.prefix, self.kind, name)
        self.on_failure: str = exchange.on_failure
        #: Least number of instances to assume.
        self.assumed: int = exchange.instances
        self._exchange = exchange
        self._owner: weakref.ref[Any] = weakref.ref(owner)
        self._reset()

    def _reset(self) -> None:
        """As if nothing had been asked or answered yet."""
        self.next_at = self._earliest = 0.0
        self.alone = self._kicked = False
        self.answered_at = None
        self._epoch = 0
        self._key_error_at: float | None = None

    def start(self) -> None:
        """Take part, from the moment that the owner is complete."""
        self._exchange.attach(self)

    def alive(self) -> bool:
        """Return True while it is in use. After that its `release_request` is sent, and it is removed."""
        return self._owner() is not None

    def kick(self) -> None:
        """Settle soon: a call had to spend on credit or was refused."""
        if self._kicked or self.alone:
            return
        self._kicked = True
        self.next_at = min(self.next_at, self._earliest)
        self._exchange.wake()

    def ask(self, now: float) -> Request | None:
        """Return the request to run now, if any."""
        owner = self._owner()
        if owner is None:
            return None
        self._kicked = False
        return self._ask(owner, now)

    def _ask(self, owner: Any, now: float) -> Request | None:
        """Return the request to run now for ``owner``; without one, set ``next_at``."""
        raise NotImplementedError

    def on_reply(self, answer: Any, now: float) -> None:
        """Take the answer to `ask`."""
        owner = self._owner()
        if owner is not None:
            self._on_reply(owner, answer, now)

    def _on_reply(self, owner: Any, answer: Any, now: float) -> None:
        """Take the answer to `ask`, and set ``next_at``."""
        raise NotImplementedError

    def release_request(self) -> Request | None:
        """Return the last request, which gives back tokens and leases."""
        raise NotImplementedError

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
        """Emit that the key is usable again, if it was not."""
        if self._key_error_at is not None:
            bus.publish("StoreUp", operation=labels.clean(self.name), down_for=now - self._key_error_at)
            self._key_error_at = None

    def _emit_exchanged(self, granted: int, held: float, level: float, instances: int) -> None:
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

    def on_key_error(self, error: Exception, now: float) -> None:
        """Handle a corrupt key of this member in a store that works, and set ``next_at``."""
        if self._key_error_at is None:
            self._key_error_at = now
            self._fell_back()
            bus.publish(
                "StoreDown",
                operation=labels.clean(self.name),
                error=labels.error_name(error),
                on_failure=self.on_failure,
            )
        self.lost(now)
        self.next_at = now + _RECHECK_S

    def lost(self, now: float) -> None:
        """Handle an outage: be ``alone`` until the next `on_reply`, and due as soon as the store is back."""
        owner = self._owner()
        if owner is not None:
            with owner.locked():
                if not self.alone:
                    self.alone, self.next_at = True, 0.0
                    self._leave(owner)

    def _leave(self, owner: Any) -> None:
        """Give ``owner``, whose lock is held, its local state for decisions without the store."""
        raise NotImplementedError

    def forked(self) -> None:
        """Start again in a child process: tokens and leases are the parent's."""
        owner = self._owner()
        if owner is not None:
            with owner.locked():
                self._reset()
                self._begin(owner)

    def _begin(self, owner: Any) -> None:
        """Give ``owner``, whose lock is held, its state until the first answer."""
        raise NotImplementedError

    def _request(self, *args: str | int) -> Request:
        return Request(self.kind, self.key, args)
