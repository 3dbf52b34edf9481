"""A limiter of a whole fleet: the lease behind a `Limiter` that was given a store."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .._strategies.limiter.rules.bucket import MOST_TOKENS, Bucket, Grant
from .._strategies.limiter.rules.leases import LeaseBucket, LeaseGrant, horizon_s
from .member import MILLION, Member, micro

if TYPE_CHECKING:
    from .._strategies.limiter.limiter import Limiter
    from .connection import Request
    from .exchange_thread import ExchangeThread


class LocalBucket(Bucket):
    """Local bucket of a process without the store: its part of the limit, everything, or nothing."""

    def cancel(self, grant: Grant, now: float) -> None:
        # Leased tokens are not given back here.
        if not isinstance(grant, LeaseGrant):
            super().cancel(grant, now)

    def leave(self, grant: Grant, now: float) -> list[Grant]:
        return [] if isinstance(grant, LeaseGrant) else super().leave(grant, now)


class FleetLimiter(Member):
    """Gives its limiter the bucket to use: a `LeaseBucket`, or a `LocalBucket` while the store is down."""

    kind = "limiter"

    def __init__(self, owner: Limiter, exchange: ExchangeThread, name: str) -> None:
        super().__init__(owner, exchange, name)
        self.rate: float = owner.rate
        self.burst: int = owner.burst
        self._owed = self._wanted = 0
        # No call waits longer for a store than its timeout, not even for its first answer.
        self._delivery_s = exchange.timeout_s
        self.bucket = self._fresh(exchange.instances, owner.clock_time())
        # While it is alone: the bucket to go on with when the store answers.
        self._next: LeaseBucket | None = None

    def _fresh(self, instances: int, now: float) -> LeaseBucket:
        # One call need not wait for the first answer; the tokens left for others are still unknown.
        return LeaseBucket(self.rate, self.burst, instances, min(1, self.burst), now, self._delivery_s)

    def is_dry(self, now: float) -> bool:
        """Return True if one token must be refused; that is counted. No lock: it takes nothing."""
        bucket = self.bucket
        if self.alone or bucket.level + (now - bucket.last) * bucket.rate + bucket.credit >= 1.0:
            return False
        # Two threads may count one refusal: demand is an estimate anyway.
        bucket.missed += 1
        if not self._kicked:
            self.kick()
        return True

    # Visits.

    def _ask(self, owner: Limiter, now: float) -> Request | None:
        self._owed, self._wanted = owner.run_locked(self._settle)
        bucket = self._next or self.bucket
        span = round(horizon_s(bucket.instances) * MILLION)
        owed, wanted = self._owed * MILLION, self._wanted * MILLION
        return self._request(micro(self.rate), self.burst * MILLION, owed, wanted, span, self._epoch)

    def _settle(self, bucket: Bucket, now: float) -> tuple[int, int]:
        if not self.alone:
            return self.bucket.ask(now)
        # The store is back: tokens missing from the share were used from the fleet's meanwhile.
        again = self._fresh(self.bucket.instances, now)
        if self.on_failure == "local":
            again.level = -float(math.floor(bucket.burst - bucket.tokens(now)))
            again.kept = again.held(now)
        self._next = again
        return max(0, -again.held(now)), 0

    def _on_reply(self, owner: Limiter, answer: Any, now: float) -> None:
        granted, before, after, instances, self._epoch = (int(part) for part in answer)
        granted //= MILLION
        with owner.locked():
            if self._next is not None:
                owner.swap_bucket(self._next)
                self.bucket, self._next, self.alone = self._next, None, False

        def take(_: Bucket, at: float) -> float:
            self.bucket.take(self._owed, granted, before / MILLION, after / MILLION, instances, at)
            return at

        at = owner.run_locked(take)
        short = granted < self._wanted
        self._answered(now, self.bucket, short, self.bucket.ready_s(), at)
        if math.isinf(self.next_at):
            # The present reading would be too old when it is needed.
            self.bucket.credit = min(1, self.bucket.credit)
        self._emit_exchanged(granted, self.bucket.usable(at), after / MILLION, instances)

    def lost(self, now: float) -> None:
        self._next = None
        super().lost(now)

    def _leave(self, owner: Limiter) -> None:
        now = owner.clock_time()
        share, lease = self._share(now), self.bucket
        # Callers that wait for tokens of the lease must not wait for an answer as well.
        if self.on_failure == "open":
            lease.credit = MOST_TOKENS
        elif self.on_failure == "local":
            if self.answered_at is None:
                # The tokens left are unknown: assume the whole share, less those booked on credit.
                lease.credit = share.burst
            share.level = min(float(share.burst), lease.usable(now))
            lease.settle(now)
            lease.rate = share.rate
        owner.swap_bucket(share)

    def _share(self, now: float) -> LocalBucket:
        """Return the bucket to use without the store from ``now`` on."""
        if self.on_failure == "open":
            return LocalBucket(math.inf, self.burst, now)
        if self.on_failure == "closed":
            shut = LocalBucket(0.0, self.burst, now)
            shut.level = 0.0
            return shut
        instances = max(self.bucket.instances, self.assumed)
        return LocalBucket(self.rate / instances, max(min(1, self.burst), self.burst // instances), now)

    def release_request(self) -> Request | None:
        owner: Limiter | None = self._owner()
        now = self.bucket.last if owner is None else owner.clock_time()
        is_leased = not self.alone and self.answered_at is not None
        # Tokens booked by those in line stay theirs.
        tokens = self.bucket.held(now) - round(self.bucket.queued) if is_leased else 0
        if not tokens:
            return None
        self.bucket.level -= tokens
        owed, back = max(0, -tokens) * MILLION, -max(0, tokens) * MILLION
        return self._request(micro(self.rate), self.burst * MILLION, owed, back, 0, self._epoch)

    def _begin(self, owner: Limiter) -> None:
        self.bucket, self._next = self._fresh(self.bucket.instances, owner.clock_time()), None
        owner.swap_bucket(self.bucket)

    def change(self, owner: Limiter, rate: float, burst: int) -> None:
        """Another rate or burst: of its share at once, of the fleet from the next exchange on."""
        now = owner.clock_time()
        with owner.locked():
            self.rate, self.burst = rate, burst
            for lease in (self.bucket, self._next):
                if lease is not None:
                    lease.change(rate, burst, now)
            if self.alone:
                before, share = owner.bucket, self._share(now)
                if self.on_failure == "local":
                    # Used tokens are still to be charged.
                    share.level -= before.burst - before.tokens(now)
                owner.swap_bucket(share)
        self.kick()
