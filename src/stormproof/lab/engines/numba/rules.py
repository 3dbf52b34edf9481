"""Waits and budgets for the fast engine: compiled copies of `backoff`, `budget` and `other_systems`.

They do the same operations on floats in the same order, so that the same draws give the same numbers;
tests/lab/test_fast_rules.py holds each copy against its original. A row of ``slices`` is a `budget.Slices`,
or two of them: whether it is in use, ``at``, ``end``, ``total``, the sums.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from ...model.arrivals import Floats
from . import layout
from .compilation import apart, compiled
from .layout import ROW, SLICES, PurseRecord, RunRules, State

_LARGEST = sys.float_info.max


@apart
def wait_for(r: RunRules, ceilings: Floats, n: int, prev: float, u: float) -> float:
    """The wait before retry ``n`` after one of ``prev`` seconds; NaN: none before."""
    if r.jitter == layout.DECORRELATED or r.jitter == layout.DECORRELATED_SAMPLE:
        before = r.base if math.isnan(prev) else prev
        thrice = min(3.0 * before, _LARGEST)
        top = max(r.base, thrice)
        limit = min(r.cap, top)
        if r.jitter == layout.DECORRELATED:
            top = limit
        return float(max(r.min, min(limit, r.base + u * (top - r.base))))
    ceiling = ceilings[min(n, len(ceilings) - 1)]
    wait = ceiling
    if r.jitter == layout.FULL:
        wait = u * ceiling
    elif r.jitter == layout.EQUAL:
        wait = ceiling / 2 * (1 + u)
    elif r.jitter == layout.SYMMETRIC:
        wait = ceiling * (1 - r.jitter_r + 2 * r.jitter_r * u)
    return float(max(r.min, min(wait, _LARGEST)))


_ROUNDING = 1e-9
_NEAR_TOKEN = 1e-9
_MOST_NEAR = 0.01
#: Since then Python adds up floats with the lost digits kept.
_COMPENSATED = sys.version_info >= (3, 12)


@compiled
def _sum(row: Floats) -> float:
    total = lost = 0.0
    for index in range(4, ROW):
        term = row[index]
        following = total + term
        if abs(total) >= abs(term):
            lost += (total - following) + term
        else:
            lost += (term - following) + total
        total = following
    return total + lost if _COMPENSATED else total


@apart
def total(row: Floats) -> float:
    """`Slices.total`."""
    if math.isnan(row[3]):
        row[3] = _sum(row)
    return float(row[3])


@compiled
def _whole(time: float, width: float) -> float:
    """``time // width``, for times from 0 on: quick where the quotient is not close to a whole number."""
    quotient = time / width
    below = math.floor(quotient)
    near = quotient * 1e-15
    if near < quotient - below < 1.0 - near:
        return float(below)
    return time // width


@compiled
def roll(row: Floats, width: float, opened: float, now: float) -> None:
    """`Slices.roll`; a row not used before was opened at ``opened``."""
    if row[0] == 0.0:
        row[0] = 1.0
        row[1] = _whole(opened, width)
        row[2] = (row[1] + 1) * width
    if now < row[2]:
        return
    at = _whole(now, width)
    row[2] = (at + 1) * width
    steps = at - row[1]
    if steps <= 0:
        return
    row[1] = at
    if row[3] == 0.0:
        return
    if steps >= SLICES:
        row[4:ROW] = 0.0
        row[3] = 0.0
        return
    place, dropped = _place(row), 0.0
    for _ in range(int(steps)):
        dropped += row[4 + place]
        row[4 + place] = 0.0
        place = place - 1 if place > 0 else SLICES - 1
    if dropped != 0.0:
        row[3] = math.nan


@compiled
def _place(row: Floats) -> int:
    """Return the place of the current slice in the ring."""
    return int(row[1]) % SLICES


@compiled
def add(row: Floats, width: float, window: float, amount: float, elapsed: float) -> None:
    """`Slices.add`."""
    if elapsed > window:
        amount *= window / elapsed
        elapsed = window
    slots = min(SLICES, max(1, round(elapsed / width)))
    place, part = _place(row), amount / slots
    for _ in range(slots):
        row[4 + place] += part
        place = place - 1 if place > 0 else SLICES - 1
    row[3] += amount


@compiled
def open_purse(r: RunRules, purse: PurseRecord, now: float) -> None:
    """A budget is made when its process makes its first call."""
    if purse.made == 0.0:
        purse.made = 1.0
        purse.tokens = r.top
        purse.last = now


@apart
def settle(r: RunRules, purse: PurseRecord, row: Floats, now: float) -> None:
    """`Allowance._credit` of each kind; for `EARNED`, `budget.rules.settle`."""
    open_purse(r, purse, now)
    fresh, opened = purse.tally, purse.last
    purse.tally = 0.0
    elapsed = now - opened
    purse.last = now
    if r.budget == layout.EARNED:
        roll(row, r.width, opened, now)
        if fresh > 0.0:
            amount = fresh * r.ratio
            add(row, r.width, r.window, amount, elapsed)
            purse.tokens += amount
        if purse.tokens > r.burst:
            purse.tokens = min(purse.tokens, r.burst + total(row))
    elif r.budget == layout.WINDOW:
        roll(row[:ROW], r.width, opened, now)
        roll(row[ROW:], r.width, opened, now)
        if fresh > 0.0:
            add(row[:ROW], r.width, r.window, fresh, elapsed)
    else:
        purse.tokens = min(r.top, purse.tokens + fresh * r.credit)


@compiled
def balance_of(r: RunRules, purse: PurseRecord, row: Floats) -> float:
    """Return the balance as of the last settlement, as `Allowance._balance_of` does."""
    if r.budget == layout.WINDOW:
        return float(max(0.0, r.ratio * total(row[:ROW]) + r.floor * r.window - total(row[ROW:])))
    if purse.made == 0.0:
        return float(r.top / 1000 if r.budget == layout.THROTTLE else r.top)
    if r.budget == layout.RATE:
        # The bucket's own time is ``last``, that of the last question ``tally``.
        return max(0.0, tokens(r.rate, r.burst, purse.tokens, purse.last, purse.tally))
    return float(purse.tokens / 1000 if r.budget == layout.THROTTLE else purse.tokens)


@compiled
def tokens(rate: float, burst: float, level: float, last: float, now: float) -> float:
    """`Bucket.tokens`."""
    elapsed = max(0.0, now - last)
    if math.isinf(rate):
        return burst if elapsed > 0.0 else min(burst, level)
    return min(burst, level + elapsed * rate)


@compiled
def take_token(rate: float, burst: float, level: float, last: float, now: float) -> float:
    """`Bucket.reserve`: what is left when one token is taken; below 0: that much is missing."""
    left = tokens(rate, burst, level, last, now) - 1
    if -min(_MOST_NEAR, max(_NEAR_TOKEN, rate * 2 * np.spacing(now))) <= left < 0.0:
        return 0.0
    return left


@apart
def reserve(r: RunRules, purse: PurseRecord, now: float, most: float) -> float:
    """`RateBudget`: the wait for a token, at most ``most`` seconds; -1: refused."""
    open_purse(r, purse, now)
    purse.tally = now
    if math.isinf(r.rate):
        return 0.0
    left = take_token(r.rate, r.burst, purse.tokens, purse.last, now)
    wait = 0.0
    if left < 0.0:
        wait = -left / r.rate if r.rate > 0.0 else math.inf
    if r.burst < 1.0 or not wait <= most:
        return -1.0
    purse.last, purse.tokens = now, left
    return max(0.0, (now + wait) - now)


@compiled
def withdraw(
    r: RunRules, purse: PurseRecord, row: Floats, now: float, timeout: bool, throttle: bool
) -> float:
    """Pay for one retry and return the amount; 0: refused."""
    if r.budget == layout.RATE:
        return 1.0 if reserve(r, purse, now, 0.0) == 0.0 else 0.0
    settle(r, purse, row, now)
    if r.budget == layout.EARNED:
        left = purse.tokens - 1.0
        if left < -_ROUNDING:
            return 0.0
        purse.tokens = max(left, 0.0)
        return 1.0
    if r.budget == layout.WINDOW:
        if balance_of(r, purse, row) < 1.0 - _ROUNDING:
            return 0.0
        add(row[ROW:], r.width, r.window, 1.0, 0.0)
        return 1.0
    if r.budget == layout.THROTTLE:
        return 1.0 if purse.tokens * 2 > r.top else 0.0
    cost = r.timeout_cost if timeout else r.cost
    if throttle and not math.isnan(r.throttle_cost):
        cost = r.throttle_cost
    if purse.tokens < cost:
        return 0.0
    purse.tokens -= cost
    return float(cost)


@compiled
def credited(r: RunRules, purse: PurseRecord, row: Floats, now: float, spent: float) -> None:
    """A call succeeded whose last retry paid ``spent``; NaN: there was none."""
    if r.budget == layout.QUOTA and not math.isnan(spent):
        settle(r, purse, row, now)
        purse.tokens = min(r.top, purse.tokens + spent)
    else:
        open_purse(r, purse, now)
        purse.tally += 1.0


@compiled
def _has_arrived(s: State, purse: PurseRecord) -> bool:
    """Return True if the success that is due comes before the current event."""
    return bool(purse.due < s.now or (purse.due == s.now and purse.due_seq < s.turn))


@compiled
def count_due(s: State, purse: PurseRecord) -> None:
    """Count the success that was written down ahead of its time, if that has come."""
    if purse.due_seq > 0 and _has_arrived(s, purse):
        purse.tally += 1.0
        purse.due_seq = 0


@compiled
def count_later(s: State, purse: PurseRecord, time: float, seq: int) -> bool:
    """Let a success count at ``time``; False: another one is due already, so this takes an event."""
    count_due(s, purse)
    if purse.due_seq > 0:
        return False
    purse.due, purse.due_seq = time, seq
    return True


@compiled
def debited(r: RunRules, purse: PurseRecord, row: Floats, now: float) -> None:
    """A retryable failure happened."""
    if r.budget == layout.THROTTLE:
        settle(r, purse, row, now)
        purse.tokens = max(0.0, purse.tokens - 1000.0)
