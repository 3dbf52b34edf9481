"""Chance for the fast engine: Python's own generator (MT19937) and what `random` makes of it, compiled.

A row of ``mt`` is the state of one generator: 624 words and the position. ``kept`` holds the second draw of a
pair of Gaussian ones (NaN: there is none).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...model.arrivals import Floats
from .compilation import apart, compiled
from .layout import EXPONENTIAL, FIXED, Words

_N, _M = 624, 397
_ONE, _UPPER, _LOWER = np.uint64(1), np.uint64(0x80000000), np.uint64(0x7FFFFFFF)
_MATRIX, _WORD = np.uint64(0x9908B0DF), np.uint64(0xFFFFFFFF)


@apart
def _twist(mt: Words, which: int) -> None:
    row = mt[which]
    for at in range(_N):
        word = (row[at] & _UPPER) | (row[(at + 1) % _N] & _LOWER)
        mixed = row[(at + _M) % _N] ^ (word >> _ONE)
        row[at] = mixed ^ _MATRIX if word & _ONE else mixed
    row[_N] = np.uint64(0)


@compiled
def _word(mt: Words, which: int) -> Any:
    if mt[which, _N] >= np.uint64(_N):
        _twist(mt, which)
    at = mt[which, _N]
    mt[which, _N] = at + _ONE
    word = mt[which, at]
    word ^= word >> np.uint64(11)
    word ^= (word << np.uint64(7)) & np.uint64(0x9D2C5680)
    word ^= (word << np.uint64(15)) & np.uint64(0xEFC60000)
    return (word ^ (word >> np.uint64(18))) & _WORD


@compiled
def draw(mt: Words, which: int) -> float:
    """`random.Random.random`."""
    high = _word(mt, which) >> np.uint64(5)
    low = _word(mt, which) >> np.uint64(6)
    return (np.float64(high) * 67108864.0 + np.float64(low)) * (1.0 / 9007199254740992.0)


@apart
def gauss(mt: Words, kept: Floats, which: int, mu: float, sigma: float) -> float:
    """`random.Random.gauss`."""
    z = kept[which]
    kept[which] = math.nan
    if math.isnan(z):
        around = draw(mt, which) * (2.0 * math.pi)
        far = math.sqrt(-2.0 * math.log(1.0 - draw(mt, which)))
        z = math.cos(around) * far
        kept[which] = math.sin(around) * far
    return float(mu + z * sigma)


@apart
def spread(mt: Words, kept: Floats, which: int, kind: int, mean: float, sigma: float) -> float:
    """`scenario.Spread.sampler`."""
    if kind == FIXED or mean == 0.0:
        return mean
    if kind == EXPONENTIAL:
        return -math.log(1.0 - draw(mt, which)) * mean
    return math.exp(gauss(mt, kept, which, math.log(mean) - sigma**2 / 2, sigma))
