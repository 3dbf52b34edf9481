"""Records of the fast engine: counts per step, latencies in bins, gauges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .compilation import apart, compiled
from .layout import RATE
from .rules import count_due, held, settle


@compiled
def step_of(r: Any, time: float) -> int:
    """The step of the time series in which something happened."""
    return int(min(int(time / r.step + 1e-9), r.steps - 1))


@compiled
def bin_of(r: Any, bins: int, took: float) -> int:
    """The bin of a latency: the leading bits of the float, which are a logarithm of sorts."""
    return int(min(max((np.float64(took).view(np.int64) >> r.shift) - r.lowest, 0), bins - 1))


@compiled
def succeeded(r: Any, done: Any, spreads: Any, time: float, began: float) -> None:
    """A call succeeds at ``time``."""
    step = step_of(r, time)
    done[step].count += 1
    done[step].took += time - began
    spreads[step, bin_of(r, spreads.shape[1], time - began)] += 1
    done[step_of(r, began)].kept += 1


@apart
def settled_balance(r: Any, purse: Any, row: Any, scratch: Any, now: float) -> float:
    """Return what the budget holds when it is settled now; the budget itself stays unsettled."""
    made, tokens, last, tally = purse.made, purse.tokens, purse.last, purse.tally
    for index in range(len(row)):
        scratch[index] = row[index]
    if r.budget == RATE:
        purse.tally = now
    else:
        settle(r, purse, row, now)
    found = held(r, purse, row)
    purse.made, purse.tokens, purse.last, purse.tally = made, tokens, last, tally
    for index in range(len(row)):
        row[index] = scratch[index]
    return found


@apart
def sample(
    r: Any,
    s: Any,
    queue: Any,
    balance: Any,
    asked: Any,
    begun: Any,
    purses: Any,
    rows: Any,
    scratch: Any,
) -> None:
    """Read the gauges at the end of a step."""
    at = s.samples
    s.begun += begun[at]
    queue[at] = s.waited - s.begun
    total, some = 0.0, 0
    for index in range(len(asked)):
        if asked[index]:
            who = 0 if r.shared else index * r.stride
            if r.counted:
                count_due(s, purses[who])
            total += settled_balance(r, purses[who], rows[who], scratch, s.now)
            some += 1
    balance[at] = total / some if some else math.nan
    s.samples += 1
