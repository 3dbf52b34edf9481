"""Properties of every valid backoff, for every retry number and every draw."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal, localcontext
from itertools import islice

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from stormproof._strategies.retry.backoff import (
    LARGEST,
    Backoff,
    Constant,
    Decorrelated,
    Exponential,
    Fibonacci,
    Linear,
    Schedule,
    Symmetric,
)

durations = st.floats(min_value=0.0, max_value=LARGEST)
positive = st.floats(min_value=5e-324, max_value=LARGEST)
everyday = st.floats(min_value=0.001, max_value=1000.0)
factors = st.one_of(
    st.floats(min_value=1.0, max_value=4.0),
    st.floats(min_value=1.0, max_value=LARGEST),
    st.sampled_from([1.0, 1 + 1e-16, math.nextafter(1.0, 2.0), 1e300]),
)
retry_numbers = st.one_of(
    st.integers(0, 30), st.integers(0, 10**6), st.sampled_from([1023, 1024, 2098, 10**18, 10**400])
)
draws = st.one_of(
    st.floats(min_value=0.0, max_value=1.0, exclude_max=True),
    st.sampled_from([0.0, 2.0**-53, 0.5, math.nextafter(1.0, 0.0)]),
)
jitters = st.one_of(
    st.sampled_from(["none", "full", "equal"]), st.builds(Symmetric, st.floats(min_value=0.0, max_value=1.0))
)


@st.composite
def spans(draw: st.DrawFn) -> dict[str, float]:
    low, floor, high = draw(positive), draw(durations), draw(positive)
    if draw(st.booleans()):
        low, floor, high = draw(everyday), draw(everyday), draw(everyday)
    low, high = min(low, high), max(low, high)
    return {"base": low, "cap": high, "min": draw(st.sampled_from([0.0, min(floor, high)]))}


jittered = st.one_of(
    st.builds(lambda s, f, j: Exponential(**s, factor=f, jitter=j), spans(), factors, jitters),
    st.builds(lambda s, j: Linear(**s, jitter=j), spans(), jitters),
    st.builds(lambda s, j: Fibonacci(**s, jitter=j), spans(), jitters),
    st.builds(lambda w, j, m: Constant(w, jitter=j, min=m), durations, jitters, durations),
    st.builds(
        lambda v, j, m: Schedule(v, jitter=j, min=m), st.lists(durations, min_size=1), jitters, durations
    ),
)
decorrelated = st.builds(
    lambda s, c: Decorrelated(**s, clip=c), spans(), st.sampled_from(["range", "sample"])
)
backoffs = st.one_of(jittered, decorrelated)


@given(backoffs, retry_numbers, st.one_of(st.none(), durations), draws)
@pytest.mark.proves("invariant 2")
def test_every_wait_is_finite_and_within_its_bounds(b: Backoff, n: int, prev: float | None, u: float):
    wait = b.delay(n, prev, u)
    low, high = b.bounds(n, prev)
    assert type(wait) is float
    assert math.isfinite(wait)
    assert 0.0 <= b.min <= low <= wait <= high < math.inf  # type: ignore[attr-defined]


@given(jittered, retry_numbers)
def test_ceilings_are_finite_and_never_fall(b: Backoff, n: int):
    here, following = b.ceiling(n), b.ceiling(n + 1)
    assert 0.0 <= here <= LARGEST
    if not isinstance(b, Schedule):
        assert here <= following * (1 + 1e-12)


@given(decorrelated, retry_numbers, st.one_of(st.none(), durations), draws)
def test_decorrelated_wait_is_in_base_and_cap(b: Decorrelated, n: int, prev: float | None, u: float):
    assert b.base <= b.delay(n, prev, u) <= b.cap


@given(decorrelated, st.lists(draws, min_size=1, max_size=30))
def test_decorrelated_chain_is_within_its_bounds(b: Decorrelated, us: list[float]):
    prev = None
    for n, u in enumerate(us):
        prev = b.delay(n, prev, u)
        low, high = b.bounds(n)
        assert low <= prev <= high


@given(spans(), factors, st.one_of(st.integers(0, 3000), st.integers(0, 10**6)))
@example({"base": 5e-324, "cap": 1.7e308}, 2.0, 1500)  # the power alone fits no float
@example({"base": 5e-324, "cap": 1.7e308}, 1e300, 2)
def test_exponential_ceiling_agrees_with_exact_arithmetic(span: dict[str, float], factor: float, n: int):
    b = Exponential(**span, factor=factor)
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**17, -(10**17)
        exact = min(Decimal(b.cap), Decimal(b.base) * Decimal(factor) ** n)
        error = abs(Decimal(b.ceiling(n)) - exact)
        # One step for a result too small to have full precision.
        assert error <= exact * Decimal("1e-11") + Decimal(math.ulp(0.0))


@given(everyday, st.floats(1.0, 4.0), everyday, st.integers(0, 60))
def test_exponential_ceiling_is_the_plain_expression(base: float, factor: float, cap: float, n: int):
    assume(base <= cap)
    assert Exponential(base, factor=factor, cap=cap).ceiling(n) == min(cap, base * factor**n)


@given(everyday, everyday, st.integers(0, 10**6))
def test_linear_ceiling_is_the_plain_expression(base: float, cap: float, n: int):
    assume(base <= cap)
    assert Linear(base, cap=cap).ceiling(n) == min(cap, base * (n + 1))


@given(everyday, everyday, st.integers(0, 70))
def test_fibonacci_ceiling_is_the_plain_expression(base: float, cap: float, n: int):
    assume(base <= cap)
    fib, following = 1, 1
    for _ in range(n):
        fib, following = following, fib + following
    assert Fibonacci(base, cap=cap).ceiling(n) == min(cap, base * fib)


@given(everyday, st.floats(1.0, 4.0), st.integers(0, 20), draws)
def test_full_jitter_is_below_its_ceiling(base: float, factor: float, n: int, u: float):
    b = Exponential(base, factor=factor, cap=1e9)
    assert b.delay(n, None, u) == u * b.ceiling(n) < b.ceiling(n)


@given(
    backoffs,
    st.lists(st.tuples(st.integers(0, 10**6), durations, draws), min_size=2, max_size=8),
    st.booleans(),
)
def test_arrays_give_the_very_floats_that_scalars_give(
    b: Backoff, rows: list[tuple[int, float, float]], known: bool
):
    ns, prevs, us = (np.array(column) for column in zip(*rows, strict=True))
    waits = b.delay(ns, prevs if known else None, us)
    assert waits.tolist() == [b.delay(n, prev if known else None, u) for n, prev, u in rows]  # type: ignore[attr-defined]


@given(backoffs, st.integers(0, 40))
def test_mean_lies_within_the_bounds(b: Backoff, n: int):
    mean = b.mean(n)
    low, high = b.bounds(n)
    if mean is not None:
        assert low * (1 - 1e-9) <= mean <= high * (1 + 1e-9) or math.isclose(mean, high, abs_tol=5e-324)


@given(backoffs, st.integers(0, 25))
def test_preview_sums_the_waits(b: Backoff, retries: int):
    rows = b.preview(retries)
    total = 0.0
    for n, row in enumerate(rows):
        total += b.bounds(n)[1]
        assert (row.n, row.low, row.high) == (n, *b.bounds(n))
        assert row.mean == b.mean(n)
        assert row.worst == total
    assert b.worst_case(retries) == total
    assert len(rows) == retries


@given(backoffs)
def test_options_survive_pickle_and_repr(b: Backoff):
    assert pickle.loads(pickle.dumps(b)) == b
    assert eval(repr(b)) == b


@given(backoffs, st.integers(0, 2**64))
def test_seed_repeats_the_waits(b: Backoff, seed: int):
    assert list(islice(b.delays(seed), 10)) == list(islice(b.delays(seed), 10))
