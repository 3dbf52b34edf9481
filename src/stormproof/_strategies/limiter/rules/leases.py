"""Leases: one process spends a fleet's tokens without a request for each of them.

Pure rules: time is a parameter, and nothing here knows of Redis or of threads. Tokens that the store has
charged to this process are *held*. Spending takes from what is held; a little more may be spent on
*credit*, and what was spent on credit is *owed* and charged at the next exchange. An exchange settles
what is owed, and asks for (or gives back) the difference between what is held and what the demand of the
moment calls for. Held tokens and debts are whole numbers, so no fraction is lost between processes.
"""

from __future__ import annotations

import math

from .bucket import MOST_TOKENS, Bucket, Grant

TYPE_CHECKING = False

#: Interval at which a process in use settles; longer with more instances, so that all of them together
#: make at most 2,000 exchanges a second.
PERIOD_S = 0.05
_PER_INSTANCE_S = 0.0005

#: A lease is for this many periods of demand.
PERIODS = 3

#: Wait of a process that was refused before it asks again.
EAGER_S = 0.02

#: Seconds between two looks at the store: in a process that was used within the last second ...
HOT_S = 0.1
#: ... after that ...
WARM_S = 0.5
#: ... and the seconds after which an idle process stops looking.
COLD_AFTER_S = 10.0

#: Seconds for which tokens are kept for a refused call of several, which may be made again.
SOUGHT_S = 1.0

#: Beyond this, a store that counts millionths in doubles loses exactness.
MOST_SHARED = 10**9


def period_s(instances: int) -> float:
    """Seconds between two exchanges of a process in use."""
    return max(PERIOD_S, _PER_INSTANCE_S * instances)


def horizon_s(instances: int) -> float:
    """For how much of the future a lease is."""
    return PERIODS * period_s(instances)


def overshoot(rate: float, burst: float, instances: int) -> float:
    """Return the calls above burst + rate * w that a fleet may admit in a window of any length w.

    Tokens may be lent a horizon ahead and be kept for two periods; each instance may spend on credit
    half of its share of what the store held when it last looked, and 1 in any case. It holds while the
    exchanges are on time and the instances have counted each other, which takes them two of these. Who
    asks for several at once has `SOUGHT_S` in place of the two periods.
    """
    lead = rate * (horizon_s(instances) + 2 * period_s(instances))
    return lead + max(float(instances), burst / 2 + 1)


def credit_of(level: float, instances: int) -> int:
    """Return the tokens that may be spent unasked when the store holds ``level``: half a share, at least 1.

    Nothing when it holds nothing.

    All instances together then stay within what there is, unless others drain it meanwhile.
    """
    if level < 1:
        return 0
    return max(1, int(level / (2 * max(1, instances))))


class Demand:
    """Tokens a second that are asked for: a rise is believed at once, a fall by halves."""

    def __init__(self, now: float) -> None:
        self.rate = 0.0
        #: Time of the last measurement, and of the last demand: a new limiter is about to be used.
        self.at = self.last = now

    def measure(self, used: float, now: float) -> None:
        """``used`` tokens were spent or refused since the last time."""
        # A few milliseconds say nothing about a rate.
        elapsed = max(now - self.at, EAGER_S)
        self.rate = max(used / elapsed, self.rate / 2 if now > self.at else self.rate)
        self.at = now
        if used > 0:
            self.last = now
        elif self.rate < 1e-3:
            self.rate = 0.0

    def target(self, instances: int, most: float) -> int:
        """Return the tokens to hold: the demand of the horizon and one more; 0 when there has been none."""
        if self.rate <= 0 or most < 1:
            return 0
        return int(min(math.ceil(self.rate * horizon_s(instances)) + 1, most))

    def is_warm(self, now: float) -> bool:
        return now - self.last < COLD_AFTER_S


def next_visit(
    now: float, demand: Demand, instances: int, short: bool, ready_s: float
) -> tuple[float, float]:
    """Return (when to settle next, the earliest time to do so on request).

    ``short``: less was granted than asked for, and a token comes in ``ready_s`` seconds at the earliest.
    """
    if demand.rate > 0:
        pause = period_s(instances)
        if short:
            pause = max(EAGER_S, min(1.0, max(pause / 2, ready_s)))
            return now + pause, now + pause
        return now + pause, now + EAGER_S / 4
    if not demand.is_warm(now):
        return math.inf, now + EAGER_S / 4
    return now + max(period_s(instances), HOT_S if now - demand.last < 1 else WARM_S), now + EAGER_S / 4


class LeaseGrant(Grant):
    """A reservation in a `LeaseBucket`: due when its tokens are there, and at ``at`` in any case.

    ``at`` leaves the exchange some time to bring them: only when it is late is anything spent that
    the store has not granted.
    """

    __slots__ = ("bucket",)

    may_come_early = True

    def __init__(self, ok: bool, n: int, at: float, bucket: LeaseBucket) -> None:
        super().__init__(ok, n, at, bucket.speed(), bucket.booked)
        self.bucket = bucket

    def delay(self, now: float) -> float:
        return min(super().delay(now), self.bucket.eta(self.mark, now)) if self.ok else math.inf


class LeaseBucket(Bucket):
    """One process's share of a fleet's limit; its ``rate`` is the speed at which lent tokens mature.

    A `Bucket` to `Limiter.allow`, whose few steps stay the same. It has no brim: what it holds is
    bounded by what was granted.
    """

    def __init__(
        self, rate: float, burst: int, instances: int, credit: int, now: float, delivery_s: float = 0.0
    ) -> None:
        super().__init__(0.0, MOST_TOKENS, now)
        self.level = 0.0
        self.fleet_rate = rate
        self.fleet_burst = burst
        self.instances = instances
        self.credit = credit
        self.demand = Demand(now)
        #: Longest delay of tokens beyond the expected time; until the first answer, as long as that may take.
        self.delivery_s = max(delivery_s, 2 * period_s(instances))
        #: Lent tokens that were not yet usable at the time ``since``.
        self.maturing = 0.0
        self.since = now
        #: Refused since the last exchange.
        self.missed = 0
        #: The most that a single call was refused, and when.
        self.sought = 0
        self.sought_at = -math.inf
        #: Held after the last exchange.
        self.kept = 0
        #: Tokens that the store had left then.
        self.level_seen = 0.0

    # Spending.

    def speed(self) -> float:
        """Tokens per second that a waiter may count on: those that mature, but at least the fair share."""
        return max(self.rate, self.fleet_rate / self.instances)

    def tokens(self, now: float) -> float:
        return self.level + max(0.0, now - self.last) * self.rate

    def usable(self, now: float) -> float:
        """Return the tokens usable now, credit included; negative while reservations are owed."""
        return self.tokens(now) + self.credit

    def wait_for(self, n: int, now: float) -> float:
        if n > self.fleet_burst:
            return math.inf
        short = n - self.usable(now)
        return 0.0 if short <= 0 else self._foreseen(short, now)

    def _foreseen(self, short: float, now: float) -> float:
        """Seconds until ``short`` more tokens are there: lent ones mature, the rest is the fair share."""
        share = self.fleet_rate / self.instances
        lent = min(short, max(0.0, self._maturing(now))) if self.rate > share else 0.0
        rest = short - lent
        ripe_s = lent / self.rate if lent > 0 else 0.0
        return ripe_s if rest <= 0 else ripe_s + rest / share if share > 0 else math.inf

    def reserve(self, n: int, now: float, max_wait_s: float | None, queue: bool = False) -> Grant:
        self._steady(now)
        after = self.tokens(now) - n
        short = -(after + self.credit)
        wait = 0.0 if short <= 0 or n == 0 else self._foreseen(short, now)
        ok = n <= self.fleet_burst and wait <= (max_wait_s if max_wait_s is not None else 1e15)
        if ok:
            self.level, self.last = after, now
            self.booked += n
        else:
            self.missed += n
        self._seek(ok, n, now)
        if n > self.fleet_burst:
            wait = math.inf
        grant = LeaseGrant(ok, n, now + (wait + self.delivery_s if ok and wait > 0 else wait), self)
        return self.place(grant, queue and wait > 0)

    def _seek(self, ok: bool, n: int, now: float) -> None:
        """Single tokens are a matter of demand; several at once must all be there, or none is of use."""
        if ok and n >= self.sought:
            self.sought = 0
        elif not ok and 1 < n <= self.fleet_burst:
            self.sought, self.sought_at = max(n, self.sought), now

    def eta(self, mark: float, now: float) -> float:
        """Seconds until everything booked up to ``mark`` is there, as things stand."""
        short = mark - self.booked - self.usable(now)
        if short <= 0:
            return 0.0
        speed = self.speed()
        return short / speed if speed > 0 else math.inf

    def cancel(self, grant: Grant, now: float) -> None:
        if not isinstance(grant, LeaseGrant) or grant.bucket is not self:
            return
        if not grant.ok or grant.returned or grant.n == 0 or grant.delay(now) <= 0:
            return
        grant.returned = True
        restore = grant.n - self._behind(grant)
        if restore > 0:
            grant.given_back = restore
            self.fixed -= restore
            self._restore(restore, now)

    def leave(self, grant: Grant, now: float) -> list[Grant]:
        # A grant of another bucket is not given back here.
        is_own = isinstance(grant, LeaseGrant) and grant.bucket is self
        return super().leave(grant, now) if is_own else []

    def _restore(self, n: float, now: float) -> None:
        self.settle(now)
        self.level += n
        self.booked -= n

    def charge(self, n: int, now: float) -> None:
        self.settle(now)
        self.fixed += max(0, n)
        self.level -= n

    def move(self, by: float) -> None:
        super().move(by)
        self.since += by
        self.demand.at += by
        self.demand.last += by
        self.sought_at += by

    def change(self, rate: float, burst: int, now: float) -> None:
        self.settle(now)
        self.fleet_rate, self.fleet_burst = rate, burst

    def _steady(self, now: float) -> None:
        """A clock that was set back refills nothing: the past moves with it."""
        if now < self.last:
            self.since -= self.last - now
            self.last = now

    # Settling.

    def _maturing(self, now: float) -> float:
        return self.maturing - self.rate * max(0.0, now - self.since)

    def held(self, now: float) -> int:
        """Tokens charged to this process and not spent, usable or not; negative: owed.

        What those in line have booked is neither: it is charged when it is spent. Else the store would lend
        them more than a horizon ahead, in every process at once.
        """
        self._steady(now)
        self.settle(now)
        return round(self.level + self._maturing(now) + self.queued)

    def _lent(self) -> float:
        """Return the most tokens that the store lends ahead."""
        return self.fleet_rate * horizon_s(self.instances)

    def most(self) -> float:
        """Largest lease: the tokens of one horizon, or half a share of those in the store."""
        return max(1.0, self._lent(), self.level_seen / (2 * self.instances))

    def ask(self, now: float) -> tuple[int, int]:
        """(tokens owed, tokens wanted beyond those held: negative to give back)."""
        tokens = self.held(now)
        self.demand.measure(self.kept - tokens + min(self.missed + self.queued, self.most()), now)
        self.missed = 0
        self.kept = tokens
        if now - self.sought_at >= SOUGHT_S:
            self.sought = 0
        first = next(iter(self.waiting), None)
        at_once = max(self.sought, 0 if first is None else first.n)
        owed = max(0, -tokens)
        return owed, max(at_once, self.demand.target(self.instances, self.most())) - max(0, tokens)

    def take(self, owed: int, granted: int, before: float, after: float, instances: int, now: float) -> None:
        """The store charged ``owed`` and ``granted``; its level went from ``before`` to ``after``.

        What it had is usable at once. What it lent matures until its level would be 0 again, so that
        all processes together stay at the fleet's rate.
        """
        tokens = self.held(now) + owed + granted
        self.kept += owed + granted
        self.instances, self.level_seen = instances, after
        self.delivery_s = 2 * period_s(instances)
        self.credit = credit_of(after, instances)
        maturing, speed = self._later(owed, granted, before, after, now)
        self.level, self.last = tokens - maturing - self.queued, now
        self.maturing, self.since, self.rate = maturing, now, speed

    def _later(self, owed: int, granted: int, before: float, after: float, now: float) -> tuple[float, float]:
        """(tokens held and not yet usable, tokens per second that become usable)."""
        if after >= 0 or self.fleet_rate <= 0:
            return 0.0, 0.0
        old = max(0.0, self._maturing(now) + min(0, granted))
        charged = owed + max(0, granted)
        lent = charged - min(charged, max(0.0, before))
        if lent <= 0:
            return old, (self.rate if old > 0 else 0.0)
        # No faster than the next exchange can correct, should it come late.
        ripe_s = max(-after / self.fleet_rate, 2 * period_s(self.instances))
        left_s = old / self.rate if old > 0 and self.rate > 0 else 0.0
        total = old + lent
        return total, total * total / (old * left_s + lent * ripe_s)

    def ready_s(self) -> float:
        """Seconds until the store could lend one token more."""
        if self.fleet_rate <= 0:
            return math.inf
        return max(0.0, 1 - self.level_seen - self._lent()) / self.fleet_rate


class Purse:
    """One process's share of a fleet's retry budget."""

    def __init__(self, burst: float, instances: int, credit: int, now: float) -> None:
        #: Tokens charged to this process and not spent; negative: owed.
        self.held = 0
        self.credit = credit
        self.instances = instances
        self.demand = Demand(now)
        self.kept = 0
        self.missed = 0
        self.level_seen = burst
        #: No lease is larger.
        self.most = max(1.0, burst)

    def spend(self) -> bool:
        """Spend one, held or on credit; return False if neither is left."""
        if self.held + self.credit < 1:
            self.missed += 1
            return False
        self.held -= 1
        return True

    def ask(self, now: float) -> tuple[int, int]:
        """(tokens owed, tokens wanted beyond those held: negative to give back)."""
        self.demand.measure(self.kept - self.held + min(self.missed, self.most), now)
        self.missed = 0
        self.kept = self.held
        most = max(1.0, self.most / (1 if self.instances == 1 else 2))
        return max(0, -self.held), self.demand.target(self.instances, most) - max(0, self.held)

    def take(self, owed: int, granted: int, after: float, instances: int) -> None:
        """The store charged ``owed`` and ``granted``, and has ``after`` left."""
        self.held += owed + granted
        self.kept += owed + granted
        self.instances, self.level_seen = instances, after
        self.credit = credit_of(after, instances)
