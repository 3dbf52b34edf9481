"""Schedules at their edges: the plan that follows from a delay, and the ends of what jitter may give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import stormproof as sp
from stormproof._classify.verdict import Verdict
from stormproof._strategies.retry.rules.waits import spread


def test_plan_gives_wait_previous_wait_and_next_index() -> None:
    draws = iter([0.25, 0.25, 0.5])
    rule = sp.Exponential(2, cap=100)
    assert rule.plan(1, 7.0, Verdict.RETRY, lambda: next(draws)) == (1.0, 1.0, 2)
    # A hint is a floor, spread by up to a tenth of itself; what is remembered is the own wait.
    assert rule.plan(2, None, Verdict(True, 10.0), lambda: next(draws)) == (10.5, 2.0, 3)


def test_plan_hands_the_last_wait_to_the_schedule() -> None:
    rule = sp.Decorrelated(1, cap=100)
    wait, prev, place = rule.plan(0, 4.0, Verdict.RETRY, lambda: 1.0)
    assert (wait, prev, place) == (12.0, 12.0, 1)


def test_hint_is_never_shortened() -> None:
    assert spread(5.0, 10.0, lambda: 0.0) == 10.0
    assert spread(5.0, 10.0, lambda: 1.0) == 11.0
    assert spread(50.0, 10.0, lambda: 1.0) == 50.0


def test_jitter_of_the_user_s_own_is_lifted_to_min() -> None:
    answers = iter([0.5, 1.0, 7.0])
    rule = sp.Constant(3, jitter=lambda u, ceiling: next(answers), min=1)
    assert [rule.delay(0, None, 0.5) for _ in range(3)] == [1.0, 1.0, 7.0]
    assert rule.bounds(0) == (1.0, math.inf)
    assert rule.mean(0) is None


def test_array_of_waits_uses_a_users_own_jitter() -> None:
    rule = sp.Exponential(2, cap=100, jitter=lambda u, ceiling: int(ceiling * u), min=1)
    waits: Any = rule.delay(np.array([0, 1, 2]), None, np.array([0.0, 0.5, 1.0]))
    assert waits.dtype == float
    assert waits.tolist() == [1.0, 2.0, 8.0]


@pytest.mark.parametrize("rule", [sp.Exponential(1, cap=4), sp.Linear(1, cap=4), sp.Fibonacci(1, cap=4)])
def test_ceiling_reaches_the_cap_and_never_exceeds_it(rule: Any) -> None:
    waits = [rule.ceiling(n) for n in range(6)]
    assert max(waits) == 4.0
    assert waits == sorted(waits)
    assert rule.ceiling(10**400) == 4.0


def test_far_out_a_tiny_base_is_still_below_the_cap() -> None:
    assert sp.Exponential(1e-300, factor=10, cap=1e9).ceiling(305) == pytest.approx(1e5)
    assert sp.Exponential(5e-324, factor=10, cap=1e9).ceiling(310) == pytest.approx(4.94e-14, rel=1e-2)
    assert sp.Exponential(3, factor=1, cap=9).ceiling(10**400) == 3.0
    assert sp.Linear(1e-300, cap=1e9).ceiling(10**305) == pytest.approx(1e5)
    assert sp.Linear(1e-305, cap=1e9).ceiling(10**309) == pytest.approx(1e4)


def test_preview_adds_up_the_worst() -> None:
    rows = sp.Exponential(1, cap=4, min=0.5).preview(4)
    assert [tuple(row) for row in rows] == [
        (0, 0.5, pytest.approx(0.625), 1.0, 1.0),
        (1, 0.5, pytest.approx(1.0625), 2.0, 3.0),
        (2, 0.5, pytest.approx(2.03125), 4.0, 7.0),
        (3, 0.5, pytest.approx(2.03125), 4.0, 11.0),
    ]
    assert sp.Exponential(1, cap=4).worst_case(4) == 11.0
    assert sp.Exponential(1, cap=4).worst_case(0) == 0.0
    with pytest.raises(ValueError, match=r"^Exponential: retries must be "):
        sp.Exponential().preview(-1)
    with pytest.raises(ValueError, match=r"^Exponential: retries must be "):
        sp.Exponential().worst_case(-1)


# Decorrelated.


def test_decorrelated_waits_are_bounded_by_base_and_cap() -> None:
    rule = sp.Decorrelated(1, cap=10)
    assert rule.delay(0, None, 0.0) == 1.0
    assert rule.delay(0, None, 1.0) == 3.0
    assert rule.delay(0, 2.0, 0.5) == 3.5
    assert rule.delay(0, 2.0, 1.0) == 6.0
    assert rule.delay(0, 9.0, 1.0) == 10.0
    assert rule.delay(0, 0.0, 1.0) == 1.0
    sampled = sp.Decorrelated(1, cap=10, clip="sample")
    assert sampled.delay(0, 9.0, 0.25) == 7.5
    assert sampled.delay(0, 9.0, 0.5) == 10.0
    lifted = sp.Decorrelated(1, cap=10, min=2)
    assert lifted.delay(0, None, 0.0) == 2.0
    assert rule.delay(0, 1.7e308, 1.0) == 10.0
    assert rule.ceiling(5) == 10.0


def test_decorrelated_bounds_and_means_follow_the_formula() -> None:
    rule = sp.Decorrelated(1, cap=100)
    assert [rule.bounds(n) for n in range(5)] == [(1, 3), (1, 9), (1, 27), (1, 81), (1, 100)]
    assert rule.bounds(7, 2.0) == (1.0, 6.0)
    assert [rule.mean(n) for n in range(3)] == [2.0, 3.5, 5.75]
    assert rule.mean(4) is None
    assert rule.mean(9, 4.0) == 6.5
    assert rule.mean(9, 60.0) == 50.5
    assert sp.Decorrelated(1, cap=100, min=2).mean(1) is None
    assert sp.Decorrelated(1, cap=100, min=1).mean(1) == 3.5
    assert sp.Decorrelated(1, cap=100, min=2).mean(0) == pytest.approx(2.25)
    sampled = sp.Decorrelated(1, cap=10, clip="sample")
    # Uniform on [1, 27], what is above 10 counts as 10.
    assert sampled.mean(3, 9.0) == pytest.approx((9 * 5.5 + 17 * 10) / 26)
    with pytest.raises(ValueError, match=r"^Decorrelated: n must be "):
        rule.bounds(-1)
    with pytest.raises(ValueError, match=r"^Decorrelated: n must be "):
        rule.mean(-1)
    with pytest.raises(ValueError, match=r"^Decorrelated: prev must be "):
        rule.mean(0, -1.0)
    with pytest.raises(ValueError, match=r"^Decorrelated: clip must be "):
        sp.Decorrelated(clip="both")


@pytest.mark.parametrize("rule", [sp.Exponential(), sp.Decorrelated()])
@pytest.mark.parametrize(
    ("arguments", "names"),
    [((-1, None, 0.5), "n"), ((0, None, 1.5), "u"), ((0, None, -0.5), "u"), ((0, -1, 0.5), "prev")],
)
def test_delay_refuses_invalid_arguments(rule: Any, arguments: Any, names: str) -> None:
    with pytest.raises(ValueError, match=rf"^{type(rule).__name__}: {names} must be "):
        rule.delay(*arguments)
    n, prev, u = arguments
    many = (np.array([0, n]), prev if prev is None else np.array([1.0, prev]), np.array([0.5, u]))
    with pytest.raises(ValueError, match=rf"^{type(rule).__name__}: {names} must be "):
        rule.delay(*many)


def test_integers_and_small_arrays_are_accepted() -> None:
    rule = sp.Exponential(1, cap=8)
    assert rule.delay(2, None, 1) == 4.0
    assert rule.delay(2, 7, 0) == 0.0
    assert rule.delay(np.int64(2), None, np.float64(0.5)) == 2.0  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^Exponential: n must be whole numbers, got an array of float64$"):
        rule.ceiling(np.array([0.5]))
    assert rule.ceiling(np.array([[0, 1], [1, 9]])).tolist() == [[1.0, 2.0], [2.0, 8.0]]  # type: ignore[attr-defined]
