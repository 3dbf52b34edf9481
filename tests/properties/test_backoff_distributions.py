"""The distribution of waits: 100,000 draws of each jitter against the law that it promises.

The draws are seeded, so a verdict is the same on every run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
from scipy import stats

from stormproof._runtime.randomness import draw
from stormproof._strategies.retry.backoff import (
    Backoff,
    Constant,
    Decorrelated,
    Exponential,
    Fibonacci,
    Linear,
    Schedule,
    Symmetric,
)

DRAWS = 100_000
CEILING = 0.8  # of Exponential() before its fourth retry


def uniform_draws(seed: int = 2024) -> np.ndarray:
    rng = random.Random(seed)
    return np.array([rng.random() for _ in range(DRAWS)])


def p_value(waits: np.ndarray, low: float, high: float) -> float:
    """Return the likelihood of such a sample if the waits are uniform on [low, high)."""
    return float(stats.kstest(waits, stats.uniform(loc=low, scale=high - low).cdf).pvalue)


def mean_is(waits: np.ndarray, expected: float) -> bool:
    """Within four standard errors."""
    return abs(waits.mean() - expected) < 4 * waits.std() / math.sqrt(len(waits))


LAWS = [
    ("full", 0.0, CEILING, CEILING / 2),
    ("equal", CEILING / 2, CEILING, 0.75 * CEILING),
    (Symmetric(0.5), 0.5 * CEILING, 1.5 * CEILING, CEILING),
    (Symmetric(0.1), 0.9 * CEILING, 1.1 * CEILING, CEILING),
]


@pytest.mark.parametrize(("jitter", "low", "high", "mean"), LAWS, ids=repr)
def test_jitter_is_uniform_between_its_bounds(jitter: object, low: float, high: float, mean: float):
    b = Exponential(jitter=jitter)
    waits = np.array([b.delay(3, None, u) for u in uniform_draws().tolist()])
    assert p_value(waits, low, high) > 1e-3
    assert waits.min() >= low
    assert waits.max() < high
    assert mean_is(waits, mean)
    assert b.mean(3) == pytest.approx(mean, rel=1e-12)
    assert b.bounds(3) == pytest.approx((low, high), rel=1e-12)


@pytest.mark.parametrize(
    ("b", "n", "ceiling"),
    [
        (Linear(0.1, jitter="full"), 4, 0.5),
        (Fibonacci(0.1, jitter="full"), 5, 0.8),
        (Constant(2.0, jitter="full"), 9, 2.0),
        (Schedule([0.1, 3.0], jitter="full"), 7, 3.0),
        (Exponential(), 50, 5.0),
    ],
    ids=repr,
)
@pytest.mark.proves("invariant 4")
def test_full_jitter_is_uniform_for_every_schedule(b: Backoff, n: int, ceiling: float):
    waits = b.delay(n, None, uniform_draws())
    assert p_value(waits, 0.0, ceiling) > 1e-3
    assert mean_is(waits, ceiling / 2)


def test_no_jitter_is_the_ceiling():
    waits = Exponential(jitter="none").delay(3, None, uniform_draws())
    assert set(waits.tolist()) == {CEILING}


@pytest.mark.parametrize("clip", ["range", "sample"])
@pytest.mark.parametrize("prev", [None, 0.1, 0.5, 5 / 3])
def test_decorrelated_is_uniform_up_to_thrice_the_last_wait(prev: float | None, clip: str):
    b = Decorrelated(base=0.1, cap=5.0, clip=clip)
    waits = b.delay(3, prev, uniform_draws())
    top = 3 * (0.1 if prev is None else prev)
    assert p_value(waits, 0.1, top) > 1e-3
    assert waits.min() >= 0.1
    assert waits.max() <= top
    assert mean_is(waits, (0.1 + top) / 2)
    assert b.mean(3, 0.1 if prev is None else prev) == pytest.approx((0.1 + top) / 2)


@pytest.mark.parametrize("prev", [2.0, 4.0, 5.0])
def test_clip_range_is_uniform_up_to_the_cap(prev: float):
    b = Decorrelated(base=0.1, cap=5.0)
    waits = b.delay(3, prev, uniform_draws())
    assert p_value(waits, 0.1, 5.0) > 1e-3
    assert mean_is(waits, (0.1 + 5.0) / 2)
    assert b.mean(3, prev) == pytest.approx((0.1 + 5.0) / 2)


@pytest.mark.parametrize("prev", [2.0, 4.0, 5.0])
def test_clip_sample_piles_up_at_the_cap_and_is_uniform_below_it(prev: float):
    b = Decorrelated(base=0.1, cap=5.0, clip="sample")
    waits = b.delay(3, prev, uniform_draws())
    below, at_cap = waits[waits < 5.0], int((waits == 5.0).sum())
    share = (3 * prev - 5.0) / (3 * prev - 0.1)
    assert len(below) + at_cap == DRAWS
    assert stats.binomtest(at_cap, DRAWS, share).pvalue > 1e-3
    assert p_value(below, 0.1, 5.0) > 1e-3
    assert mean_is(waits, b.mean(3, prev) or 0.0)


def test_decorrelated_chain_is_uniform_step_by_step():
    b = Decorrelated(base=0.1, cap=5.0)
    waits = np.array(list(islice(b.delays(11), DRAWS)))
    before = np.concatenate([[0.1], waits[:-1]])
    where = (waits - 0.1) / (np.minimum(5.0, 3 * before) - 0.1)
    assert p_value(where, 0.0, 1.0) > 1e-3


@pytest.mark.parametrize("n", [0, 1, 2])
def test_mean_of_decorrelated_chains_is_as_computed(n: int):
    b = Decorrelated(base=0.1, cap=5.0)
    prev = None
    for step in range(n + 1):
        prev = b.delay(step, prev, uniform_draws(seed=step))
    expected = b.mean(n)
    assert expected is not None
    assert mean_is(prev, expected)
    assert b.bounds(n)[0] <= prev.min() <= prev.max() <= b.bounds(n)[1]


@pytest.mark.parametrize("floor", [0.05, 0.4, 0.8])
@pytest.mark.parametrize("jitter", ["full", "equal", Symmetric(0.5)], ids=repr)
def test_mean_with_a_min_is_as_computed(jitter: object, floor: float):
    b = Exponential(jitter=jitter, min=floor)
    waits = b.delay(3, None, uniform_draws())
    expected = b.mean(3)
    assert expected is not None
    assert waits.min() >= floor
    assert mean_is(waits, expected) or waits.std() == 0.0 == waits.mean() - expected


def test_process_generator_is_uniform():
    # Unseeded, so the bar is one that a sound generator misses once in a billion runs.
    waits = np.array([Exponential().delay(3, None, draw()) for _ in range(DRAWS)])
    assert p_value(waits, 0.0, CEILING) > 1e-9


CROOKED: list[Callable[[float, float], float]] = [
    lambda u, ceiling: u * u * ceiling,
    lambda u, ceiling: u * ceiling * 0.99,
    lambda u, ceiling: (u + 0.01) * ceiling,
    lambda u, ceiling: round(u, 1) * ceiling,
]


@pytest.mark.parametrize("jitter", CROOKED)
def test_uniformity_check_detects_a_skewed_jitter(jitter: Callable[[float, float], float]):
    waits = Exponential(jitter=jitter).delay(3, None, uniform_draws())
    assert p_value(waits, 0.0, CEILING) < 1e-6
