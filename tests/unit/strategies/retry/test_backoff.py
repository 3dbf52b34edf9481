"""Waits: every formula at its edges, every refusal with its words."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
from datetime import timedelta
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from stormproof._strategies.retry.backoff import (
    LARGEST,
    Backoff,
    Constant,
    Decorrelated,
    Exponential,
    Fibonacci,
    Linear,
    Row,
    Schedule,
    Symmetric,
)

HUGE = 10**400


def double(u: float, ceiling: float) -> float:
    """A jitter of the caller's own, picklable by name."""
    return 2.0 * u * ceiling


EVERY_KIND = [
    Exponential(),
    Exponential(0.5, factor=1.5, cap=60, jitter=Symmetric(0.5), min=0.1),
    Exponential(jitter=double),
    Decorrelated(),
    Decorrelated(0.2, cap=9.0, clip="sample", min=0.3),
    Constant(1.0),
    Constant(0),
    Linear(0.1, cap=5.0, jitter="equal"),
    Fibonacci(),
    Schedule([0.1, 0.5, 2]),
]
JITTERED = [b for b in EVERY_KIND if not isinstance(b, Decorrelated)]


# --- ceilings ---------------------------------------------------------------------------------


def test_exponential_ceiling_is_the_plain_float_expression():
    b = Exponential(base=0.1, factor=2.0, cap=5.0)
    assert [b.ceiling(n) for n in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    third = Exponential(base=0.3, factor=1.7, cap=1000.0)
    assert [third.ceiling(n) for n in range(12)] == [0.3 * 1.7**n for n in range(12)]


def test_exponential_with_factor_one_stays_at_the_base_for_ever():
    b = Exponential(0.25, factor=1, cap=4.0, jitter="none")
    assert [b.delay(n, None, 0.5) for n in (0, 1, 5000, HUGE)] == [0.25] * 4
    assert Exponential(0.25, factor=1 + 1e-16).ceiling(10**6) == 0.25  # that sum is 1.0


@pytest.mark.parametrize("n", [1023, 1024, 1100, 10**6, 10**18, HUGE])
def test_exponential_stops_at_the_cap_where_the_power_fits_no_float(n: int):
    assert Exponential().ceiling(n) == 5.0


def test_exponential_with_a_tiny_base_does_not_jump_to_the_cap_when_the_power_overflows():
    b = Exponential(base=5e-324, factor=2.0, cap=1.7e308)
    assert b.ceiling(1023) == math.ldexp(1.0, 1023 - 1074)
    assert b.ceiling(1024) == pytest.approx(math.ldexp(1.0, 1024 - 1074), rel=1e-12)
    assert b.ceiling(2000) == pytest.approx(math.ldexp(1.0, 2000 - 1074), rel=1e-12)
    assert b.ceiling(2097) == pytest.approx(math.ldexp(1.0, 2097 - 1074), rel=1e-12)
    assert b.ceiling(2098) == 1.7e308
    assert Exponential(base=5e-324, factor=1e300, cap=2.0).ceiling(2) == 2.0
    slow = Exponential(base=0.5, factor=math.nextafter(1.0, 2.0), cap=1e9)
    assert slow.ceiling(10**15) == pytest.approx(0.5 * math.exp(10**15 * 2.0**-52), rel=1e-12)
    assert slow.ceiling(10**400) == 1e9


def test_exponential_never_exceeds_a_cap_just_above_a_power():
    # 5e-324 * 2**2097 is 2**1023; caps one step either side of it.
    edge = math.ldexp(1.0, 1023)
    for cap in (math.nextafter(edge, 0.0), edge, math.nextafter(edge, math.inf)):
        assert Exponential(base=5e-324, factor=2.0, cap=cap).ceiling(2097) <= cap


def test_linear_ceiling_grows_to_its_cap():
    b = Linear(0.25, cap=1.1)
    assert [b.ceiling(n) for n in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.1, 1.1]
    assert Linear(0.1).ceiling(2) == 0.1 * 3
    assert Linear().ceiling(HUGE) == 5.0


def test_linear_with_a_tiny_base_is_exact_where_n_fits_no_float():
    b = Linear(5e-324, cap=1e300)
    assert b.ceiling(10**320 - 1) == float(Fraction(5e-324) * 10**320)
    assert b.ceiling(10**700) == 1e300


def test_constant_ceiling_is_its_wait():
    assert [Constant(1.5).ceiling(n) for n in (0, 1, HUGE)] == [1.5, 1.5, 1.5]
    assert Constant(0).delay(3, None, 0.5) == 0.0


def test_schedule_repeats_its_last_value():
    b = Schedule([0.1, 0.5, 2])
    assert [b.ceiling(n) for n in (0, 1, 2, 3, 4, HUGE)] == [0.1, 0.5, 2.0, 2.0, 2.0, 2.0]
    assert [b.delay(n, None, 0.5) for n in range(3)] == [0.1, 0.5, 2.0]  # "none" is its default jitter
    assert Schedule([3]).ceiling(5) == 3.0
    assert Schedule([2, 0]).ceiling(9) == 0.0


def test_fibonacci_ceiling_grows_to_its_cap():
    b = Fibonacci(base=0.1, cap=5.0)
    numbers = [1, 1, 2, 3, 5, 8, 13, 21, 34]
    assert [b.ceiling(n) for n in range(9)] == [0.1 * f for f in numbers]
    assert [b.ceiling(n) for n in (9, 10, HUGE)] == [5.0, 5.0, 5.0]
    assert [Fibonacci(2, cap=2).ceiling(n) for n in range(3)] == [2.0, 2.0, 2.0]
    assert [Fibonacci(2, cap=4).ceiling(n) for n in range(4)] == [2.0, 2.0, 4.0, 4.0]
    assert [Fibonacci(2, cap=3).ceiling(n) for n in range(4)] == [2.0, 2.0, 3.0, 3.0]


def test_fibonacci_covers_the_whole_float_range():
    b = Fibonacci(5e-324, cap=LARGEST, jitter="none")
    fib, following = 1, 1
    for _ in range(2000):
        fib, following = following, fib + following
    assert b.ceiling(2000) == float(Fraction(5e-324) * fib)
    assert b.ceiling(3100) == LARGEST


def test_decorrelated_ceiling_is_its_cap():
    assert [Decorrelated(cap=7).ceiling(n) for n in (0, 1, HUGE)] == [7.0, 7.0, 7.0]


# --- jitter -----------------------------------------------------------------------------------


def test_each_jitter_at_its_ends_and_middle():
    def waits(jitter: object) -> list[float]:
        b = Exponential(base=1.0, factor=2.0, cap=100.0, jitter=jitter)
        return [b.delay(3, None, u) for u in (0.0, 0.25, 0.5, 1.0)]

    assert waits("none") == [8.0, 8.0, 8.0, 8.0]
    assert waits("full") == [0.0, 2.0, 4.0, 8.0]
    assert waits("equal") == [4.0, 5.0, 6.0, 8.0]
    assert waits(Symmetric(0.5)) == [4.0, 6.0, 8.0, 12.0]
    assert waits(Symmetric(0)) == [8.0, 8.0, 8.0, 8.0]
    assert waits(Symmetric(1)) == [0.0, 4.0, 8.0, 16.0]
    assert waits(lambda u, ceiling: u + ceiling) == [8.0, 8.25, 8.5, 9.0]


def test_default_jitters_are_the_documented_ones():
    full = [Exponential(), Linear(), Fibonacci()]
    assert [b.jitter for b in full] == ["full", "full", "full"]
    assert [b.delay(0, None, 0.5) for b in full] == [0.05, 0.05, 0.05]
    assert [b.jitter for b in (Constant(1), Schedule([1]))] == ["none", "none"]
    assert Symmetric().r == 0.5


def test_default_numbers_are_the_documented_ones():
    assert Exponential().fields() == {"base": 0.1, "factor": 2.0, "cap": 5.0, "jitter": "full", "min": 0.0}
    assert Decorrelated().fields() == {"base": 0.1, "cap": 5.0, "clip": "range", "min": 0.0}
    for kind in (Linear, Fibonacci):
        assert kind().fields() == {"base": 0.1, "cap": 5.0, "jitter": "full", "min": 0.0}
    assert Constant(2).fields() == {"wait": 2.0, "jitter": "none", "min": 0.0}
    assert Schedule([1]).fields() == {"values": (1.0,), "jitter": "none", "min": 0.0}


def test_full_jitter_stays_below_its_ceiling_for_the_largest_draw():
    u = math.nextafter(1.0, 0.0)
    for n in range(60):
        b = Exponential(0.1, factor=1.3, cap=1e9)
        assert b.delay(n, None, u) < b.ceiling(n)


def test_symmetric_passes_the_cap_by_its_share_and_no_further():
    b = Exponential(base=1, cap=4, jitter=Symmetric(0.5))
    assert b.delay(9, None, 1.0) == 6.0
    edge = Constant(1.7e308, jitter=Symmetric(1.0))
    assert edge.delay(0, None, 1.0) == LARGEST
    assert edge.delay(0, None, 0.5) == 1.7e308
    assert edge.bounds(0) == (0.0, LARGEST)
    assert math.isfinite(edge.mean(0))


@pytest.mark.parametrize("answer", [math.nan, math.inf, -math.inf, -0.001, None, "1", True, 1j, [], HUGE])
def test_invalid_result_of_a_jitter_is_named(answer: object):
    b = Exponential(jitter=lambda u, ceiling: answer)
    words = f"finite number of seconds >= 0, got {answer!r} for u=0.5, ceiling=0.2"
    with pytest.raises(ValueError) as caught:
        b.delay(1, None, 0.5)
    assert str(caught.value) == f"Exponential: jitter must return a {words}"
    assert caught.value.__suppress_context__
    with pytest.raises(ValueError, match="jitter must return"):
        b.delay(np.array([0, 1]), None, 0.5)


@pytest.mark.parametrize("answer", [0, 2, 0.25, Fraction(1, 4), timedelta(seconds=3), np.float64(0.5)])
def test_jitter_may_answer_with_any_duration(answer: object):
    wait = Constant(9, jitter=lambda u, ceiling: answer).delay(0, None, 0.5)
    assert type(wait) is float
    assert wait == getattr(answer, "total_seconds", lambda: float(answer))()


def test_jitter_s_own_error_passes_through():
    def broken(u: float, ceiling: float) -> float:
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        Constant(1, jitter=broken).delay(0, None, 0.5)


def test_jitter_sees_two_floats_even_when_arrays_came_in():
    seen = []

    def branching(u: float, ceiling: float) -> float:
        seen.append((type(u), type(ceiling)))
        return ceiling if u < 0.5 else 0.0

    waits = Schedule([1, 2], jitter=branching).delay(np.array([0, 1]), None, np.array([[0.1], [0.9]]))
    assert waits.tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert set(seen) == {(float, float)}


# --- min --------------------------------------------------------------------------------------


def test_min_lifts_shorter_waits_and_leaves_longer_ones():
    b = Exponential(base=1.0, cap=8.0, min=2.0)
    assert [b.delay(2, None, u) for u in (0.0, 0.25, 0.5, 0.75)] == [2.0, 2.0, 2.0, 3.0]
    assert b.ceiling(0) == 1.0


@pytest.mark.parametrize(
    "b",
    [
        Exponential(0.5, min=2),
        Decorrelated(0.5, min=2),
        Decorrelated(0.5, clip="sample", min=2),
        Constant(0.5, min=2),
        Linear(0.5, min=2),
        Fibonacci(0.5, min=2),
        Schedule([0.5], min=2),
        Exponential(0.5, jitter=double, min=2),
        Exponential(0.5, jitter=Symmetric(1), min=2),
    ],
    ids=repr,
)
def test_every_kind_takes_min(b: Backoff):
    assert b.delay(0, None, 0.0) == 2.0
    assert b.delay(0, None, np.array([0.0, 0.1])).tolist() == [2.0, 2.0]
    assert b.bounds(0)[0] == 2.0


def test_min_may_equal_the_cap_but_not_pass_it():
    assert Exponential(cap=5, min=5).delay(0, None, 0.5) == 5.0
    for kind in (Exponential, Decorrelated, Linear, Fibonacci):
        with pytest.raises(ValueError) as caught:
            kind(cap=5, min=5.5)
        assert str(caught.value) == f"{kind.__name__}: min must be <= cap (5.0 seconds), got 5.5"


# --- decorrelated -----------------------------------------------------------------------------


def test_decorrelated_draws_between_the_base_and_thrice_the_last_wait():
    b = Decorrelated(base=1.0, cap=100.0)
    assert [b.delay(0, 5.0, u) for u in (0.0, 0.5, 1.0)] == [1.0, 8.0, 15.0]
    assert [b.delay(7, None, u) for u in (0.0, 0.5, 1.0)] == [1.0, 2.0, 3.0]


def test_clip_range_spreads_over_the_cap_and_clip_sample_piles_up_at_it():
    ranged, sampled = Decorrelated(1, cap=10), Decorrelated(1, cap=10, clip="sample")
    draws = (0.0, 0.25, 0.5, 0.75, 1.0)
    assert [ranged.delay(3, 7.0, u) for u in draws] == [1.0, 3.25, 5.5, 7.75, 10.0]
    assert [sampled.delay(3, 7.0, u) for u in draws] == [1.0, 6.0, 10.0, 10.0, 10.0]
    assert [ranged.delay(3, 3.0, u) for u in draws] == [sampled.delay(3, 3.0, u) for u in draws]


def test_decorrelated_stays_between_base_and_cap_for_any_prev():
    for clip in ("range", "sample"):
        b = Decorrelated(1, cap=10, clip=clip)
        for prev in (0.0, 0.1, 1 / 3, 5e-324, 10.0, 1e300, LARGEST):
            assert [1.0 <= b.delay(0, prev, u) <= 10.0 for u in (0.0, 0.5, 1.0)] == [True] * 3
        assert b.delay(0, 0.0, 0.9) == 1.0
    assert Decorrelated(1.0, cap=1.0).delay(0, None, 0.5) == 1.0


def test_decorrelated_with_extreme_numbers_stays_finite():
    b = Decorrelated(1.7e308, cap=LARGEST, clip="sample")
    assert b.delay(0, None, 0.0) == 1.7e308
    assert b.delay(0, LARGEST, 1.0) == LARGEST
    assert b.delay(0, LARGEST, np.array([0.0, 1.0])).tolist() == [1.7e308, LARGEST]


def test_decorrelated_chain_feeds_each_wait_into_the_next():
    draws = iter([0.5, 0.5, 0.5])
    assert list(islice(Decorrelated(1, cap=100).delays(lambda: next(draws)), 3)) == [2.0, 3.5, 5.75]


# --- previews ---------------------------------------------------------------------------------


def test_bounds_and_mean_of_each_jitter():
    def both(jitter: object) -> tuple[tuple[float, float], float | None]:
        b = Exponential(1, cap=100, jitter=jitter)
        return b.bounds(3), b.mean(3)

    assert both("none") == ((8.0, 8.0), 8.0)
    assert both("full") == ((0.0, 8.0), 4.0)
    assert both("equal") == ((4.0, 8.0), 6.0)  # three quarters of the ceiling, not all of it
    assert both(Symmetric(0.25)) == ((6.0, 10.0), 8.0)
    assert both(double) == ((0.0, math.inf), None)
    assert Exponential(jitter=double, min=0.5).bounds(0) == (0.5, math.inf)


def test_mean_includes_waits_lifted_by_min():
    # Full jitter on [0, 4] lifted to 1: a quarter of the draws are 1, the rest average 2.5.
    assert Constant(4, jitter="full", min=1).mean(0) == 0.25 * 1 + 0.75 * 2.5
    assert Constant(4, jitter="full", min=4).mean(0) == 4.0
    assert Constant(4, jitter="full", min=6).mean(0) == 6.0
    assert Constant(4, jitter="equal", min=2).mean(0) == 3.0
    assert Constant(4, jitter="equal", min=1).mean(0) == 3.0
    assert Constant(4, jitter="equal", min=3).mean(0) == 0.5 * 3 + 0.5 * 3.5
    assert Constant(4, min=1).mean(0) == 4.0
    assert Constant(4, min=6).bounds(0) == (6.0, 6.0)


def test_decorrelated_mean_after_a_known_wait():
    b = Decorrelated(1, cap=10)
    assert b.mean(5, prev=2.0) == (1 + 6) / 2
    assert b.mean(5, prev=9.0) == (1 + 10) / 2
    assert b.mean(5, prev=0.0) == 1.0
    # Sampled on [1, 21] and clipped at 10: 9/20 of the draws average 5.5, the rest are 10.
    assert Decorrelated(1, cap=10, clip="sample").mean(5, prev=7.0) == pytest.approx(
        9 / 20 * 5.5 + 11 / 20 * 10
    )
    assert Decorrelated(1, cap=1, clip="sample").mean(5, prev=1.0) == 1.0
    # On [1, 6] lifted to 2: a fifth of the draws are 2, the rest average 4.
    assert Decorrelated(1, cap=10, min=2).mean(5, prev=2.0) == pytest.approx(0.2 * 2 + 0.8 * 4)
    assert Decorrelated(1, cap=10, min=10).mean(5, prev=9.0) == 10.0
    # On [1, 21], lifted to 2 and clipped at 10: 1/20 are 2, 8/20 average 6, 11/20 are 10.
    lifted = Decorrelated(1, cap=10, clip="sample", min=2).mean(5, prev=7.0)
    assert lifted == pytest.approx(1 / 20 * 2 + 8 / 20 * 6 + 11 / 20 * 10)


def test_decorrelated_mean_over_all_ways_is_exact_or_absent():
    b = Decorrelated(1, cap=100)
    # E(n) = (1 + 3 E(n-1)) / 2 from E(-1) = 1, until 3**(n+1) can meet the cap.
    assert [b.mean(n) for n in range(5)] == [2.0, 3.5, 5.75, 9.125, None]
    assert Decorrelated(1, cap=9.5).mean(1) == 3.5
    assert Decorrelated(1, cap=9).mean(1) is None
    assert Decorrelated(1, cap=2).mean(0) == 1.5
    assert Decorrelated(1, cap=100, min=1).mean(1) == 3.5
    assert Decorrelated(1, cap=100, min=1.5).mean(1) is None
    # On [1, 3] lifted to 1.5: a quarter of the draws are 1.5, the rest average 2.25.
    assert Decorrelated(1, cap=100, min=1.5).mean(0) == 0.25 * 1.5 + 0.75 * 2.25


def test_decorrelated_bounds_follow_the_longest_chain():
    b = Decorrelated(1, cap=20)
    assert [b.bounds(n) for n in range(4)] == [(1.0, 3.0), (1.0, 9.0), (1.0, 20.0), (1.0, 20.0)]
    assert b.bounds(HUGE) == (1.0, 20.0)
    assert b.bounds(0, prev=4.0) == (1.0, 12.0)
    assert b.bounds(0, prev=9.0) == (1.0, 20.0)
    lifted = Decorrelated(1, cap=20, min=5)
    assert [lifted.bounds(n) for n in range(3)] == [(5.0, 5.0), (5.0, 15.0), (5.0, 20.0)]
    assert b.worst_case(4) == 3.0 + 9.0 + 20.0 + 20.0
    assert Decorrelated(5e-324, cap=LARGEST).bounds(10**6) == (5e-324, LARGEST)


def test_preview_and_worst_case_agree_with_the_formula():
    rows = Exponential(1, cap=4).preview(4)
    assert rows == [
        Row(0, 0.0, 0.5, 1.0, 1.0),
        Row(1, 0.0, 1.0, 2.0, 3.0),
        Row(2, 0.0, 2.0, 4.0, 7.0),
        Row(3, 0.0, 2.0, 4.0, 11.0),
    ]
    n, low, mean, high, worst = rows[1]
    assert (n, low, mean, high, worst) == (1, 0.0, 1.0, 2.0, 3.0)
    assert (rows[1].n, rows[1].low, rows[1].mean, rows[1].high, rows[1].worst) == (1, 0.0, 1.0, 2.0, 3.0)
    assert repr(rows[0]) == "Row(n=0, low=0.0, mean=0.5, high=1.0, worst=1.0)"
    assert Exponential(1, cap=4).worst_case(4) == 11.0
    assert Exponential(1, cap=4, jitter=Symmetric(0.5)).worst_case(4) == 16.5
    assert Exponential(1, cap=4, jitter=double).worst_case(1) == math.inf
    assert Exponential(1, cap=4, jitter=double).preview(1) == [Row(0, 0.0, None, math.inf, math.inf)]


def test_zero_retries_take_no_time():
    assert Exponential().preview(0) == []
    assert Exponential().worst_case(0) == 0.0


@pytest.mark.parametrize(
    ("bad", "kind"), [(-1, ValueError), (True, TypeError), (1.5, TypeError), (None, TypeError)]
)
def test_previews_refuse_an_invalid_count(bad: object, kind: type[Exception]):
    for method in (Linear().preview, Linear().worst_case):
        with pytest.raises(kind, match=f"^Linear: retries must be .*, got {bad!r}$"):
            method(bad)


# --- kinds of argument ------------------------------------------------------------------------


@pytest.mark.parametrize("b", EVERY_KIND, ids=repr)
def test_other_kinds_of_number_give_the_same_float(b: Backoff):
    expected = b.delay(3, 0.5, 0.25)
    assert type(expected) is float
    for n in (3, np.int64(3), np.array(3)):
        for prev in (0.5, np.float64(0.5), Fraction(1, 2)):
            for u in (0.25, np.float64(0.25), Fraction(1, 4)):
                wait = b.delay(n, prev, u)
                assert type(wait) is float
                assert wait == expected
    assert b.delay(3, 0.5, 0) == b.delay(3, 0.5, 0.0)
    assert b.delay(3, 0.5, 1) == b.delay(3, 0.5, 1.0)
    assert b.delay(3, 2, 0.25) == b.delay(3, 2.0, 0.25)
    assert b.ceiling(np.int64(3)) == b.ceiling(3)


@pytest.mark.parametrize("b", EVERY_KIND, ids=repr)
def test_array_in_any_place_gives_an_array_of_the_same_floats(b: Backoff):
    ns, prevs, us = np.array([0, 3, 7]), np.array([0.2, 0.5, 4.0]), np.array([0.0, 0.25, 0.9])

    def same(waits: object, expected: list[float]) -> None:
        assert isinstance(waits, np.ndarray)
        assert waits.dtype == float
        assert waits.tolist() == expected

    same(b.delay(ns, 0.5, 0.25), [b.delay(n, 0.5, 0.25) for n in ns.tolist()])
    same(b.delay(3, prevs, 0.25), [b.delay(3, prev, 0.25) for prev in prevs.tolist()])
    same(b.delay(3, 0.5, us), [b.delay(3, 0.5, u) for u in us.tolist()])
    same(b.delay(3, None, us), [b.delay(3, None, u) for u in us.tolist()])
    triples = list(zip(ns.tolist(), prevs.tolist(), us.tolist(), strict=True))
    same(b.delay(ns, prevs, us), [b.delay(*triple) for triple in triples])
    same(b.ceiling(ns), [b.ceiling(n) for n in ns.tolist()])


@pytest.mark.parametrize("b", EVERY_KIND, ids=repr)
def test_arrays_broadcast_and_may_be_empty(b: Backoff):
    grid = b.delay(np.array([[0], [5]]), None, np.array([0.0, 0.5, 0.9]))
    assert grid.tolist() == [[b.delay(n, None, u) for u in (0.0, 0.5, 0.9)] for n in (0, 5)]
    grid[0, 0] = 1.0  # the caller's own, not a view of ours
    assert b.delay(np.array([], dtype=int), None, np.array([])).shape == (0,)
    assert b.ceiling(np.array([[1, 2]])).shape == (1, 2)


def test_our_own_jitters_take_a_whole_array_at_once(monkeypatch: pytest.MonkeyPatch):
    sizes = []

    def spy(self: Symmetric, u: np.ndarray, ceiling: np.ndarray) -> np.ndarray:
        sizes.append(u.size)
        return u * ceiling

    monkeypatch.setattr(Symmetric, "__call__", spy)
    waits = Constant(4, jitter=Symmetric()).delay(0, None, np.array([0.25, 0.5]))
    assert waits.tolist() == [1.0, 2.0]
    assert sizes == [2]


def test_retry_numbers_may_be_of_any_whole_type():
    for dtype in (np.int8, np.uint8, np.int64, np.uint64):
        assert Linear(1).ceiling(np.array([0, 2], dtype=dtype)).tolist() == [1.0, 3.0]


BAD_SCALARS = [
    ((-1, None, 0.5), ValueError, "n must be >= 0, got -1"),
    ((True, None, 0.5), TypeError, "n must be a whole number, got True"),
    ((1.0, None, 0.5), TypeError, "n must be a whole number, got 1.0"),
    (([1], None, 0.5), TypeError, r"n must be a whole number, got \[1\]"),
    ((0, None, -0.1), ValueError, "u must be >= 0, got -0.1"),
    ((0, None, 1.1), ValueError, "u must be <= 1, got 1.1"),
    ((0, None, math.nan), ValueError, "u must be a number, not NaN, got nan"),
    ((0, None, True), TypeError, "u must be a number, got True"),
    ((0, None, None), TypeError, "u must be a number, got None"),
]


@pytest.mark.parametrize("b", EVERY_KIND, ids=repr)
@pytest.mark.parametrize(("arguments", "kind", "words"), BAD_SCALARS)
def test_delay_refuses_bad_scalars(
    b: Backoff, arguments: tuple[object, ...], kind: type[Exception], words: str
):
    with pytest.raises(kind, match=f"^{type(b).__name__}: {words}$"):
        b.delay(*arguments)


@pytest.mark.parametrize(
    ("prev", "words"), [(-1.0, ">= 0"), (math.nan, "a number, not NaN"), (math.inf, "finite")]
)
def test_decorrelated_refuses_a_bad_prev(prev: float, words: str):
    for ask in (lambda: Decorrelated().delay(0, prev, 0.5), lambda: Decorrelated().mean(0, prev)):
        with pytest.raises(ValueError, match=f"^Decorrelated: prev must be {words}, got {prev!r}$"):
            ask()
    with pytest.raises(ValueError, match=r"^Decorrelated: prev must be >= 0 and <= 1.79769e"):
        Decorrelated().delay(0, np.array([0.5, prev]), 0.5)


@pytest.mark.parametrize("b", EVERY_KIND, ids=repr)
def test_delay_refuses_bad_arrays(b: Backoff):
    name = type(b).__name__
    for bad in (-0.5, 1.5, math.nan):
        with pytest.raises(ValueError, match=f"^{name}: u must be >= 0 and <= 1, got {bad!r}$"):
            b.delay(0, None, np.array([0.5, bad]))
    with pytest.raises(TypeError, match=f"^{name}: n must be whole numbers, got an array of float64$"):
        b.delay(np.array([0.0, 1.0]), None, 0.5)
    with pytest.raises(ValueError, match=f"^{name}: n must be >= 0, got -2$"):
        b.delay(np.array([0, -2]), None, 0.5)


@pytest.mark.parametrize("b", EVERY_KIND, ids=repr)
def test_ceiling_bounds_and_mean_refuse_a_negative_n(b: Backoff):
    asks = [b.ceiling] if getattr(b, "jitter", None) is double else [b.ceiling, b.bounds, b.mean]
    for ask in asks:
        with pytest.raises(ValueError, match=f"^{type(b).__name__}: n must be >= 0, got -1$"):
            ask(-1)


# --- refusals ---------------------------------------------------------------------------------

DURATIONS = [
    (Exponential, "base"),
    (Exponential, "cap"),
    (Exponential, "min"),
    (Decorrelated, "base"),
    (Decorrelated, "cap"),
    (Decorrelated, "min"),
    (Linear, "base"),
    (Linear, "cap"),
    (Linear, "min"),
    (Fibonacci, "base"),
    (Fibonacci, "cap"),
    (Fibonacci, "min"),
    (Constant, "wait"),
    (Constant, "min"),
    (Schedule, "min"),
]
FIRST = {Constant: {"wait": 1.0}, Schedule: {"values": [1.0]}}


@pytest.mark.parametrize(("kind", "field"), DURATIONS)
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (math.nan, ValueError),
        (math.inf, ValueError),
        (-math.inf, ValueError),
        (-1, ValueError),
        (-5e-324, ValueError),
        (timedelta(seconds=-1), ValueError),
        (HUGE, ValueError),
        (True, TypeError),
        (False, TypeError),
        (None, TypeError),
        ("1", TypeError),
    ],
    ids=lambda value: type(value).__name__ if value == HUGE else repr(value),
)
def test_every_duration_refuses_an_invalid_time(
    kind: type[Backoff], field: str, value: object, error: type[Exception]
):
    with pytest.raises(error) as caught:
        kind(**{**FIRST.get(kind, {}), field: value})
    assert str(caught.value).startswith(f"{kind.__name__}: {field} must be ")


@pytest.mark.parametrize("kind", [Exponential, Decorrelated, Linear, Fibonacci])
def test_base_and_cap_are_validated(kind: type[Backoff]):
    for field in ("base", "cap"):
        with pytest.raises(ValueError) as caught:
            kind(**{field: 0})
        assert str(caught.value) == f"{kind.__name__}: {field} must be > 0 seconds, got 0"
    with pytest.raises(ValueError) as caught:
        kind(base=6, cap=5)
    assert str(caught.value) == f"{kind.__name__}: base must be <= cap (5.0 seconds), got 6"
    assert kind(base=5, cap=5).ceiling(0) == 5.0
    assert kind(base=5e-324, cap=LARGEST).base == 5e-324


@pytest.mark.parametrize(
    ("factor", "error", "words"),
    [
        (0.999, ValueError, "must be >= 1, got 0.999"),
        (0, ValueError, "must be >= 1, got 0"),
        (-2, ValueError, "must be >= 1, got -2"),
        (math.nan, ValueError, "must be a number, not NaN, got nan"),
        (math.inf, ValueError, "must be finite, got inf"),
        (True, TypeError, "must be a number, got True"),
        ("2", TypeError, "must be a number, got '2'"),
        (None, TypeError, "must be a number, got None"),
    ],
)
def test_invalid_factor_is_refused(factor: object, error: type[Exception], words: str):
    with pytest.raises(error) as caught:
        Exponential(factor=factor)
    assert str(caught.value) == f"Exponential: factor {words}"


@pytest.mark.parametrize("r", [-0.1, 1.1, math.nan, math.inf, True, None, "0.5"])
def test_symmetric_outside_0_to_1_is_refused(r: object):
    with pytest.raises((TypeError, ValueError), match=r"^Symmetric: r must be .*, got "):
        Symmetric(r)
    assert [Symmetric(0).r, Symmetric(1).r] == [0.0, 1.0]


@pytest.mark.parametrize("kind", [Exponential, Linear, Fibonacci, Constant, Schedule])
@pytest.mark.parametrize(
    ("jitter", "error"),
    [("ful", ValueError), ("", ValueError), ("Full", ValueError), (None, TypeError), (0.5, TypeError)],
)
def test_unknown_jitter_is_refused_with_the_allowed_ones(
    kind: type[Backoff], jitter: object, error: type[Exception]
):
    with pytest.raises(error) as caught:
        kind(**FIRST.get(kind, {}), jitter=jitter)
    assert str(caught.value) == (
        f"{kind.__name__}: jitter must be 'none', 'full', 'equal', a Symmetric(r) "
        f"or a callable (u, ceiling) -> wait, got {jitter!r}"
    )


def test_class_is_refused_as_a_jitter():
    with pytest.raises(TypeError, match=r"jitter must be .* got <class"):
        Exponential(jitter=Symmetric)


def test_unknown_clip_is_refused():
    with pytest.raises(ValueError) as caught:
        Decorrelated(clip="full")
    assert str(caught.value) == "Decorrelated: clip must be one of 'range', 'sample', got 'full'"


@pytest.mark.parametrize("values", ["12", b"12", {1: 2}, {1, 2}, 3, None, iter([1])])
def test_schedule_takes_a_list(values: object):
    with pytest.raises(TypeError, match=r"^Schedule: values must be a list of seconds, got "):
        Schedule(values)


def test_schedule_refuses_an_empty_list_and_names_the_bad_entry():
    for empty in ([], ()):
        with pytest.raises(ValueError) as caught:
            Schedule(empty)
        assert str(caught.value) == f"Schedule: values must hold at least one wait, got {empty!r}"
    with pytest.raises(ValueError) as caught:
        Schedule([1, -2])
    assert str(caught.value) == "Schedule: values[1] must be >= 0 seconds, got -2"
    with pytest.raises(TypeError, match=r"^Schedule: values\[0\] must be a number of seconds, got True$"):
        Schedule([True])
    assert Schedule(np.array([1.5, 2.5])).values == (1.5, 2.5)
    assert Schedule(range(1, 3)).values == (1.0, 2.0)


def test_only_the_first_argument_goes_without_a_name():
    for kind, first in ((Exponential, 1), (Decorrelated, 1), (Linear, 1), (Fibonacci, 1), (Constant, 1)):
        kind(first)
        with pytest.raises(TypeError, match="given by name"):
            kind(first, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="given by name"):
        Schedule([1], "full")  # type: ignore[misc]


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("b", [*EVERY_KIND, Symmetric(0.25)], ids=repr)
def test_options_compare_copy_and_freeze(b: Backoff):
    for twin in (pickle.loads(pickle.dumps(b)), copy.copy(b), copy.deepcopy(b), b.replace()):
        assert twin == b
        assert hash(twin) == hash(b)
    if getattr(b, "jitter", None) is not double:  # a function's name means something only where it lives
        assert eval(repr(b)) == b
    for name in (*b.field_names(), "anything"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(b, name, 1.0)


def test_rebuilt_rule_waits_as_the_first_one_did():
    for b in EVERY_KIND:
        assert pickle.loads(pickle.dumps(b)).delay(4, 0.3, 0.7) == b.delay(4, 0.3, 0.7)


def test_backoffs_are_equal_by_fields_and_kind():
    assert Exponential(0.1) == Exponential(timedelta(milliseconds=100))
    assert Exponential(0.1) != Exponential(0.2)
    assert Linear() != Fibonacci()
    assert Schedule([1, 2]) == Schedule((1.0, 2.0))


def test_durations_may_be_timedeltas():
    ms = timedelta(milliseconds=1)
    assert Exponential(base=100 * ms, cap=2000 * ms, min=50 * ms) == Exponential(cap=2, min=0.05)
    assert Decorrelated(100 * ms, cap=2000 * ms).cap == 2.0
    assert Constant(1500 * ms).wait == 1.5
    assert Schedule([100 * ms, 2]).values == (0.1, 2.0)
    assert Linear(250 * ms).base == Fibonacci(250 * ms).base == 0.25


def test_replace_validates_again():
    assert Exponential().replace(cap=9).ceiling(50) == 9.0
    assert Fibonacci(1, cap=2).replace(cap=3).ceiling(9) == 3.0
    with pytest.raises(ValueError, match="base must be <= cap"):
        Exponential().replace(base=6)


def test_describe_is_plain_data():
    assert Exponential(jitter=Symmetric(0.2)).describe() == {
        "kind": "Exponential",
        "base": 0.1,
        "factor": 2.0,
        "cap": 5.0,
        "jitter": {"kind": "Symmetric", "r": 0.2},
        "min": 0.0,
    }


# --- sequences, subclasses, imports -----------------------------------------------------------


def test_delays_feed_each_wait_into_the_next_delay():
    for b in EVERY_KIND:
        draws, chain, prev = [0.9, 0.1, 0.5, 0.7], [], None
        for n, u in enumerate(draws):
            prev = b.delay(n, prev, u)
            chain.append(prev)
        feed = iter(draws)
        assert list(islice(b.delays(lambda feed=feed: next(feed)), 4)) == chain


def test_delays_start_afresh_each_time_and_repeat_for_a_seed():
    b = Exponential()
    first, second = list(islice(b.delays(7), 20)), list(islice(b.delays(7), 20))
    assert first == second
    assert first != list(islice(b.delays(8), 20))
    assert list(islice(b.delays(), 20)) != list(islice(b.delays(), 20))
    assert list(islice(b.delays(0), 20)) == list(islice(b.delays(seed=0), 20))


def test_delays_refuse_a_bad_seed_at_once():
    with pytest.raises(TypeError, match=r"rng must be .*, got 'seven'"):
        Exponential().delays("seven")


class Squares(Backoff):
    """A rule of a user's own: full jitter under (n + 1)**2."""

    def __init__(self, unit: float = 1.0) -> None:
        self.unit = unit

    def ceiling(self, n: int) -> float:
        return self.unit * (n + 1) ** 2

    def delay(self, n: int, prev: float | None, u: float) -> float:
        return u * self.ceiling(n)


def test_users_backoff_inherits_preview_and_delays():
    own = Squares()
    assert own.preview(2) == [Row(0, 0.0, None, 1.0, 1.0), Row(1, 0.0, None, 4.0, 5.0)]
    assert own.worst_case(3) == 14.0
    assert list(islice(own.delays(lambda: 0.5), 3)) == [0.5, 2.0, 4.5]
    assert pickle.loads(pickle.dumps(own)) == own
    with pytest.raises(TypeError, match="abstract"):
        Backoff()  # type: ignore[abstract]


def test_scalars_import_neither_numpy_nor_random():
    program = """
import sys
from stormproof._strategies.retry.backoff import Constant, Decorrelated, Exponential
from stormproof._strategies.retry.backoff import Fibonacci, Linear, Schedule, Symmetric
spread = Constant(1, jitter=Symmetric(0.5))
for b in (Exponential(), Decorrelated(), spread, Linear(), Fibonacci(), Schedule([1])):
    b.delay(3, None, 0.5), b.delay(3, 1, 1), b.ceiling(2)
    b.preview(5), b.worst_case(5), repr(b), b.describe()
print(sorted({"numpy", "random", "time", "datetime", "typing", "dataclasses"} & set(sys.modules)))
Exponential().delay(0, None, __import__("numpy").array([0.5]))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # `time` is built into the interpreter and loaded before any of our code.
    assert run.stdout.strip() in ("[]", "['time']")
