"""The loop's short way to a wait, which has the ceilings worked out, gives the wait that `delay` gives."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import stormproof as sp

BACKOFFS = {
    "no jitter": sp.Constant(3),
    "full": sp.Exponential(0.5, cap=60),
    "equal": sp.Linear(0.5, cap=60, jitter="equal"),
    "schedule without jitter": sp.Schedule([1, 0, 4]),
    "min": sp.Exponential(1, cap=60, min=0.75),
    "min above 1 s": sp.Exponential(1, cap=60, min=5),
    "min without jitter": sp.Schedule([1, 0, 4], min=0.5),
    "symmetric": sp.Exponential(1, cap=60, jitter=sp.Symmetric(0.5)),
    "symmetric near the largest float": sp.Constant(1.7e308, jitter=sp.Symmetric(1)),
    "of the user's own": sp.Fibonacci(1, cap=60, jitter=lambda u, ceiling: 7 * u * ceiling),
}


@pytest.mark.parametrize("u", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("name", BACKOFFS)
def test_wait_of_the_loop_equals_delay(name: str, u: float) -> None:
    backoff: Any = BACKOFFS[name]
    quick = backoff.quick_delay()
    waits = [quick(n, None if n == 0 else 2.0, u) for n in range(12)]
    assert waits == [backoff.delay(n, None, u) for n in range(12)]
    assert {type(wait) for wait in waits} == {float}


def test_loop_refuses_a_draw_that_is_not_one() -> None:
    quick = sp.Exponential(1, cap=60).quick_delay()
    for n in (0, 20):
        with pytest.raises(ValueError, match=r"^Exponential: u must be"):
            quick(n, None, 1.5)
        with pytest.raises(ValueError, match=r"^Exponential: u must be"):
            quick(n, None, -0.5)


def test_array_of_waits_past_the_largest_float_ends_there_as_single_waits_do() -> None:
    backoff = sp.Constant(1.7e308, jitter=sp.Symmetric(1))
    waits: Any = backoff.delay(np.array([0, 1]), None, np.array([0.25, 0.9]))
    assert waits.tolist() == [0.85e308, sys.float_info.max]
    assert backoff.delay(0, None, 0.9) == sys.float_info.max


def test_array_of_no_waits_is_one_of_floats() -> None:
    backoff = sp.Constant(3, jitter=lambda u, ceiling: u * ceiling)
    waits: Any = backoff.delay(np.array([], dtype=int).reshape(0, 2), None, 0.5)
    assert (waits.dtype, waits.shape) == (np.dtype(float), (0, 2))
