"""Records of the fast engine: counts per step, latencies in bins, gauges."""

from __future__ import annotations

import math

import numpy as np

from ...model.arrivals import Floats, Ints
from .compilation import apart, compiled, kept
from .layout import RATE, PurseRecord, RunRules, Slot, Words, World
from .rules import balance_of, count_due, settle


@compiled
def step_of(r: RunRules, time: float) -> int:
    """The step of the time series in which something happened."""
    return int(min(int(time / r.step + 1e-9), r.steps - 1))


@compiled
def bin_of(r: RunRules, bins: int, took: float) -> int:
    """The bin of a latency: the leading bits of the float, which are a logarithm of sorts."""
    place = int(np.float64(took).view(np.int64) >> r.shift) - r.lowest
    return min(max(place, 0), bins - 1)


@compiled
def succeeded(w: World, time: float, c: Slot) -> None:
    """The call of slot ``c`` succeeds at ``time``."""
    r, s, done = w.rules[0], w.state[0], w.done
    step, took = step_of(r, time), time - c.began
    done[step].count += 1
    done[step].took += took
    done[c.step].kept += 1
    place = bin_of(r, w.spreads.shape[1], took)
    w.spreads[step, place] += 1
    s.low, s.high = min(s.low, place), max(s.high, place)


@apart
def settled_balance(r: RunRules, purse: PurseRecord, row: Floats, scratch: Floats, now: float) -> float:
    """Return what the budget holds when it is settled now; the budget itself stays unsettled."""
    made, tokens, last, tally = purse.made, purse.tokens, purse.last, purse.tally
    for index in range(len(row)):
        scratch[index] = row[index]
    if r.budget == RATE:
        purse.tally = now
    else:
        settle(r, purse, row, now)
    balance = balance_of(r, purse, row)
    purse.made, purse.tokens, purse.last, purse.tally = made, tokens, last, tally
    for index in range(len(row)):
        row[index] = scratch[index]
    return balance


@compiled
def sample(w: World) -> None:
    """Read the gauges at the end of a step."""
    r, s = w.rules[0], w.state[0]
    at = s.samples
    s.begun += w.begun[at]
    w.queue[at] = s.waited - s.begun
    total, some = 0.0, 0
    for index in range(len(w.asked)):
        if w.asked[index]:
            who = 0 if r.shared else index * r.stride
            if r.counted:
                count_due(s, w.purses[who])
            total += settled_balance(r, w.purses[who], w.slices[who], w.scratch, s.now)
            some += 1
    w.balance[at] = total / some if some else math.nan
    s.samples += 1


@kept
def rank(spreads: Words, first: int, bins: Ints, totals: Ints) -> None:
    """Add the rows of ``spreads``, from the bin ``first`` on, to ``totals``, and rank each of them.

    A row of ``bins`` is the place of the median and that of the 99th percentile, counted from ``first``: the
    smallest that is enough; -1: there are no values.
    """
    for row in range(len(bins)):
        values = spreads[row, first : first + len(totals)]
        count = 0
        for at in range(len(totals)):
            count += values[at]
            totals[at] += values[at]
        half, most = math.ceil(0.5 * count), math.ceil(0.99 * count)
        bins[row, 0] = bins[row, 1] = -1
        passed, at = 0, -1
        while passed < most:
            at += 1
            passed += values[at]
            if bins[row, 0] < 0 and passed >= half:
                bins[row, 0] = at
            bins[row, 1] = at
