"""The rules of the adaptive limit by themselves, number by number."""

from __future__ import annotations

import pytest

from stormproof._strategies.adaptive.rules.limits import Gradient2, Vegas


def test_vegas_takes_no_measure_of_a_call_that_took_no_time() -> None:
    rule = Vegas(10, 1, 100)
    rule.update(0.0, 10, False, 0.0)
    rule.update(1.0, 10, False, 0.0)
    assert rule.limit == 10
    rule.update(1.0, 10, False, 0.0)
    assert rule.limit == 16


def test_vegas_measures_the_shortest_again_now_and_then() -> None:
    draws = iter([0.0, 0.5, 0.0])
    rule = Vegas(10, 1, 100, probe=2, draw=lambda: next(draws))
    # Half of 2 * 10 calls; then three quarters of it. Too few at once to move the limit.
    for _ in range(9):
        rule.update(1.0, 1, False, 0.0)
    assert rule.rtt0 == 1.0
    rule.update(5.0, 1, False, 0.0)
    assert rule.rtt0 == 5.0
    for _ in range(14):
        rule.update(6.0, 1, False, 0.0)
    assert rule.rtt0 == 5.0
    rule.update(7.0, 1, False, 0.0)
    assert rule.rtt0 == 7.0
    assert rule.limit == 10


def test_gradient_moves_while_at_least_half_is_in_use() -> None:
    for inflight, limit in ((4, 10), (5, 10.8)):
        rule = Gradient2(10, 1, 100)
        rule.update(1.0, inflight, False, 0.0)
        assert rule.limit == pytest.approx(limit)


def test_gradient_of_short_calls_follows_the_formula() -> None:
    rule = Gradient2(10, 1, 100, smoothing=1.0, tolerance=1.0, queue=0)
    rule.update(0.1, 1, False, 0.0)
    rule.update(0.3, 10, False, 0.0)
    # The mean of both is 0.2, two thirds of the last.
    assert rule.limit == pytest.approx(10 * 2 / 3)


def test_gradient_of_a_call_that_took_no_time_is_flat() -> None:
    rule = Gradient2(10, 1, 100)
    rule.update(0.0, 10, False, 0.0)
    assert rule.limit == pytest.approx(10.8)


@pytest.mark.parametrize(("rtt", "shrinks"), [(1.0, False), (0.75, True), (0.25, True)])
def test_long_average_shrinks_while_it_is_more_than_twice_the_present(rtt: float, shrinks: bool) -> None:
    rule = Gradient2(10, 1, 100)
    rule.count = 10
    rule._factor = 0.0
    rule.long = 2.0
    assert rule._learn(rtt) == 2.0
    assert rule.long == pytest.approx(1.9 if shrinks else 2.0)
