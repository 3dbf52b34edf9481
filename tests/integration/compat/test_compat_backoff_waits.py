"""``stormproof.compat.backoff``: wait generators and jitter."""

# ruff: noqa: F401, F811 -- fixtures are imported by name and named again as arguments

from __future__ import annotations

import functools
import math
import random
import sys
from itertools import islice

import pytest
from tests.integration.compat.backoff_harness import Script, run, slept

from stormproof.compat import backoff


def primed(generator):
    assert generator.send(None) is None
    return generator


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        (backoff.expo(), [1, 2, 4, 8, 16, 32]),
        (backoff.expo(base=3), [1, 3, 9, 27, 81, 243]),
        (backoff.expo(factor=5), [5, 10, 20, 40, 80, 160]),
        (backoff.expo(max_value=10), [1, 2, 4, 8, 10, 10]),
        (backoff.expo(2, 3, 13), [3, 6, 12, 13, 13, 13]),
        (backoff.expo(factor=0), [0, 0, 0, 0, 0, 0]),
        (backoff.fibo(), [1, 1, 2, 3, 5, 8]),
        (backoff.fibo(max_value=4), [1, 1, 2, 3, 4, 4]),
        (backoff.constant(), [1, 1, 1, 1, 1, 1]),
        (backoff.constant(0.5), [0.5] * 6),
        (backoff.constant([1, 2, 3]), [1, 2, 3]),
    ],
)
def test_wait_generators_yield_the_documented_waits(generator, expected):
    assert list(islice(primed(generator), 6)) == expected


def test_runtime_is_sent_the_outcome():
    generator = primed(backoff.runtime(value=lambda outcome: outcome * 2))
    assert [generator.send(n) for n in (1, 5, 3)] == [2, 10, 6]


def test_runtime_reads_the_wait_from_value_or_error(run, slept):
    decorator = backoff.on_predicate(
        backoff.runtime, predicate=lambda r: r > 0, value=lambda r: r + 0.5, jitter=None
    )
    assert run(decorator, Script(3, 1, 0)) == 0
    decorator = backoff.on_exception(backoff.runtime, KeyError, value=lambda e: e.args[0], jitter=None)
    assert run(decorator, Script(KeyError(7), "done")) == "done"
    assert slept == [3.5, 1.5, 7]


@pytest.mark.parametrize(
    "make",
    [
        backoff.expo,
        lambda: backoff.expo(base=2.0),
        lambda: backoff.expo(base=10, factor=0.3),
        lambda: backoff.expo(factor=10**400),
        lambda: backoff.expo(base=1e200, factor=1e200),
        backoff.fibo,
    ],
)
def test_waits_stay_finite_and_never_fall(make):
    waits = [float(wait) for wait in islice(primed(make()), 3000)]
    assert all(map(math.isfinite, waits))
    assert waits == sorted(waits)


def test_zero_factor_stays_zero_past_the_largest_float():
    assert set(islice(primed(backoff.expo(base=2.0, factor=0)), 3000)) == {0}


def test_expo_asks_for_no_power_past_the_largest_float():
    class Base(int):
        asked = 0

        def __pow__(self, n):
            Base.asked = n
            return 2**n

    *_, last = islice(primed(backoff.expo(base=Base(2))), 5000)
    assert last == sys.float_info.max
    assert Base.asked == 1024


def test_fibo_keeps_no_number_far_past_the_largest_float():
    generator = primed(backoff.fibo())
    *_, last = islice(generator, 5000)
    assert last == sys.float_info.max
    held = [value for value in generator.gi_frame.f_locals.values() if isinstance(value, int)]
    assert max(value.bit_length() for value in held) <= 1026


@pytest.mark.parametrize("wait_gen", [backoff.expo, backoff.fibo, functools.partial(backoff.expo, base=2.0)])
@pytest.mark.parametrize("jitter", [backoff.full_jitter, backoff.random_jitter])
def test_two_thousand_attempts_do_not_overflow(run, slept, wait_gen, jitter):
    script = Script(*[0] * 2000, "done")
    assert run(backoff.on_predicate(wait_gen, jitter=jitter, logger=None), script) == "done"


def test_users_own_generator_loses_its_first_yield(run, slept):
    def countdown(start):
        yield
        yield from ()
        while True:
            yield start
            start -= 1

    run(backoff.on_predicate(countdown, start=lambda: 9, jitter=None), Script(0, 0, 1))
    assert slept == [9, 8]


def test_each_call_starts_the_waits_again(run, slept):
    script = Script(0, 0, 1, 0, 0, 1)
    target = run.decorated(backoff.on_predicate(backoff.expo, jitter=None), script)
    target()
    target()
    assert slept == [1, 2, 1, 2]


def test_generator_keywords_may_be_callables(run, slept):
    cap = 3
    decorator = backoff.on_predicate(backoff.expo, max_value=lambda: cap, jitter=None)
    run(decorator, Script(0, 0, 0, 1))
    assert slept == [1, 2, 3]


def test_full_jitter_is_the_default_and_asks_random_uniform(run, slept, monkeypatch):
    monkeypatch.setattr("random.uniform", lambda low, high: (low, high))
    run(backoff.on_predicate(backoff.expo, logger=None), Script(0, 0, 1))
    assert slept == [(0, 1), (0, 2)]


def test_random_jitter_asks_random_random(run, slept, monkeypatch):
    monkeypatch.setattr("random.random", lambda: 0.25)
    run(backoff.on_predicate(backoff.constant, interval=2, jitter=backoff.random_jitter), Script(0, 1))
    assert slept == [2.25]


def test_jitter_draws_from_the_seeded_global_generator():
    random.seed(7)
    draws = [backoff.full_jitter(10), backoff.random_jitter(10)]
    random.seed(7)
    assert draws == [random.uniform(0, 10), 10 + random.random()]


def test_jitter_without_parameter_still_works(run, slept):
    decorator = backoff.on_predicate(backoff.constant, interval=3, jitter=lambda: 0.5)
    with pytest.warns(DeprecationWarning, match="Nullary jitter function signature is deprecated"):
        run(decorator, Script(0, 1))
    assert slept == [3.5]


def test_type_error_inside_a_jitter_surfaces(run, slept):
    def jitter(value):
        return value + "s"

    with pytest.raises(TypeError, match="unsupported operand"):
        run(backoff.on_predicate(backoff.constant, jitter=jitter), Script(0, 1))
