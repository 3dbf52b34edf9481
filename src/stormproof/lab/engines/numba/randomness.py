"""Chance for the fast engine: Python's own generator (MT19937) and what `random` makes of it, compiled.

A row of ``mt`` is one generator: its 624 words, the bits of the 312 floats that these give, and how many of
them have been drawn. ``kept`` holds the second draw of a pair of Gaussian ones (NaN: there is none).
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np

from ...model.arrivals import Floats
from .compilation import apart, compiled
from .layout import EXPONENTIAL, FIXED, Words

_N, _M = 624, 397
#: Where the floats stand, how many there are, and where their count is.
_FLOATS, _HALF, _DRAWN = _N, _N // 2, _N + _N // 2
#: The length of a row.
WIDTH = _DRAWN + 1
_ONE, _UPPER, _LOWER = np.uint64(1), np.uint64(0x80000000), np.uint64(0x7FFFFFFF)
_MATRIX, _WORD = np.uint64(0x9908B0DF), np.uint64(0xFFFFFFFF)


@compiled
def _mixed(word: Any, following: Any) -> Any:
    word = (word & _UPPER) | (following & _LOWER)
    return (word >> _ONE) ^ ((word & _ONE) * _MATRIX)


@apart
def _twist(mt: Words, which: int) -> None:
    row = mt[which]
    # Three loops, for the places of which the next and the 397th after wrap around: without a remainder to
    # compute, they are compiled to instructions for several words at once.
    for at in range(_N - _M):
        row[at] = row[at + _M] ^ _mixed(row[at], row[at + 1])
    for at in range(_N - _M, _N - 1):
        row[at] = row[at + _M - _N] ^ _mixed(row[at], row[at + 1])
    row[_N - 1] = row[_M - 1] ^ _mixed(row[_N - 1], row[0])
    for at in range(_HALF):
        high, low = _tempered(row[2 * at]) >> np.uint64(5), _tempered(row[2 * at + 1]) >> np.uint64(6)
        value = (np.float64(high) * 67108864.0 + np.float64(low)) * (1.0 / 9007199254740992.0)
        row[_FLOATS + at] = np.float64(value).view(np.uint64)
    row[_DRAWN] = np.uint64(0)


@compiled
def _tempered(word: Any) -> Any:
    word ^= word >> np.uint64(11)
    word ^= (word << np.uint64(7)) & np.uint64(0x9D2C5680)
    word ^= (word << np.uint64(15)) & np.uint64(0xEFC60000)
    return (word ^ (word >> np.uint64(18))) & _WORD


@compiled
def draw(mt: Words, which: int) -> float:
    """`random.Random.random`."""
    if mt[which, _DRAWN] == np.uint64(_HALF):
        _twist(mt, which)
    at = mt[which, _DRAWN]
    mt[which, _DRAWN] = at + _ONE
    return float(np.uint64(mt[which, np.uint64(_FLOATS) + at]).view(np.float64))


def seeded(seed: str) -> Words:
    """Return the row of a generator that gives what ``Random(seed)`` does."""
    row = np.zeros(WIDTH, np.uint64)
    row[:_N], row[_DRAWN] = Random(seed).getstate()[1][:_N], _HALF
    return row


@apart
def gauss(mt: Words, spare: Floats, which: int, mu: float, sigma: float) -> float:
    """`random.Random.gauss`."""
    z = spare[which]
    spare[which] = math.nan
    if math.isnan(z):
        angle = draw(mt, which) * (2.0 * math.pi)
        radius = math.sqrt(-2.0 * math.log(1.0 - draw(mt, which)))
        z = math.cos(angle) * radius
        spare[which] = math.sin(angle) * radius
    return float(mu + z * sigma)


@apart
def spread(mt: Words, spare: Floats, which: int, kind: int, mean: float, sigma: float) -> float:
    """`scenario.Spread.sampler`."""
    if kind == FIXED or mean == 0.0:
        return mean
    if kind == EXPONENTIAL:
        return -math.log(1.0 - draw(mt, which)) * mean
    return math.exp(gauss(mt, spare, which, math.log(mean) - sigma**2 / 2, sigma))
