"""A retry budget of a whole fleet: the lease behind a `Budget` that was given a store."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .._strategies.limiter.rules.leases import WARM_S, Purse
from .member import MILLION, Member, micro

if TYPE_CHECKING:
    from .._strategies.budget.budget import Budget
    from .connection import Request
    from .exchange_thread import ExchangeThread


class FleetBudget(Member):
    """Deposits the earnings of its budget's calls, and keeps a `Purse` to pay their retries from."""

    kind = "budget"

    def __init__(self, owner: Budget, exchange: ExchangeThread, name: str) -> None:
        super().__init__(owner, exchange, name)
        # Before the first answer one retry may be paid on credit, if the budget starts with one at all.
        self.purse = Purse(owner.burst, exchange.instances, 1 if owner.burst >= 1 else 0, owner.last_reading)
        self._owed = self._wanted = 0
        self._burst, self._window = micro(owner.burst), micro(owner.window)
        #: The local budget while the store is down, and its first balance.
        self._share: Budget | None = None
        self._began = 0.0

    # Called by the owner, with its lock held.

    def withdraw(self) -> float:
        """Pay for one retry: 1.0, or 0.0 when refused."""
        if self.alone:
            return self._decide_alone()
        paid = self.purse.spend()
        if self.purse.held < 1:
            self.kick()
        return 1.0 if paid else 0.0

    def _decide_alone(self) -> float:
        self._fell_back()
        if self._share is not None:
            return self._share.withdraw()
        return 1.0 if self.on_failure == "open" else 0.0

    def balance(self) -> float:
        """Return the balance as known to this process: its own tokens, and those that the store had left."""
        if self._share is not None:
            return self._share.balance
        if self.alone:
            return math.inf if self.on_failure == "open" else 0.0
        return max(0.0, self.purse.level_seen + self.purse.held)

    # Visits.

    def _ask(self, owner: Budget, now: float) -> Request | None:
        with owner.locked():
            # Tokens earned in an outage of the store have been spent, or are old by now.
            fresh = 0 if self.alone else owner.take_successes()
            at = owner.read_clock()
            if self.alone:
                spent = 0.0 if self._share is None else max(0.0, self._began - self._share.balance)
                self._owed, self._wanted = int(spent), 0
            else:
                self._owed, self._wanted = self.purse.ask(at)
            if self._is_idle(fresh, at):
                self.next_at = now + WARM_S
                return None
            earned = micro(fresh * owner.ratio)
            self._burst, self._window = micro(owner.burst), micro(owner.window)
        owed, wanted = self._owed * MILLION, self._wanted * MILLION
        return self._request(earned, self._burst, self._window, owed, wanted, self._epoch)

    def _is_idle(self, fresh: int, at: float) -> bool:
        """Return True if there is nothing to report, settle or return since the last visit."""
        if fresh or self._owed or self._wanted or self.alone or self.answered_at is None:
            return False
        if self.purse.demand.is_warm(at):
            return False
        # The last reading is too old to use.
        self.purse.credit = min(self.purse.credit, 1)
        return True

    def _on_reply(self, owner: Budget, answer: Any, now: float) -> None:
        granted, level, instances, self._epoch = (int(part) for part in answer)
        granted //= MILLION
        with owner.locked():
            if self.alone:
                owner.take_successes()
                self.alone, self._share = False, None
                self.purse.held = -self._owed
            self.purse.most = max(1.0, owner.burst)
            self.purse.take(self._owed, granted, level / MILLION, instances)
            tokens, at = self.purse.held, owner.last_reading
        self._answered(now, self.purse, granted < self._wanted, 0.0, at)
        self.next_at = min(self.next_at, now + WARM_S)
        self._emit_exchanged(granted, tokens, level / MILLION, instances)

    def _leave(self, owner: Budget) -> None:
        if self.on_failure != "local":
            return
        purse = self.purse
        instances = max(purse.instances, self.assumed)
        part = None
        if self.answered_at is not None:
            part = max(0.0, purse.level_seen) / instances + purse.held
        self._share = owner.share(instances, part)
        self._began = self._share.settled_tokens

    def change(self, owner: Budget) -> None:
        """Apply the new options of ``owner``, whose lock is held, to its share."""
        if self._share is not None:
            spent = self._began - self._share.balance
            self._leave(owner)
            self._share.pay_for(spent)

    def release_request(self) -> Request | None:
        tokens = 0 if self.alone or self.answered_at is None else self.purse.held
        if not tokens:
            return None
        self.purse.held -= tokens
        owed, back = max(0, -tokens) * MILLION, -max(0, tokens) * MILLION
        return self._request(0, self._burst, self._window, owed, back, self._epoch)

    def _begin(self, owner: Budget) -> None:
        self.purse = Purse(owner.burst, self.purse.instances, min(1, self.purse.credit), owner.last_reading)
        self._share = None
        # The parent deposits its own count.
        owner.take_successes()
