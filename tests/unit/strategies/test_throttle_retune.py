"""A throttle that is retuned, reset, or only observes; limits that learn from those they replace."""

from __future__ import annotations

import math
from typing import Any

import pytest

import stormproof as sp
from stormproof._strategies.adaptive.rules.limits import Aimd, Gradient2, Vegas


@pytest.fixture
def clock() -> sp.testing.FakeClock:
    return sp.testing.FakeClock()


def lose(throttle: sp.Throttle, times: int = 10) -> None:
    for _ in range(times):
        throttle.settle(ConnectionError())


@pytest.mark.parametrize(("window", "kept"), [(200.0, True), (10.0, False)])
def test_retuned_throttle_keeps_what_the_new_window_reaches(
    clock: sp.testing.FakeClock, window: float, kept: bool
) -> None:
    throttle = sp.Throttle(window=100, clock=clock)
    lose(throttle)
    throttle.accept()
    clock.advance(50)
    before = throttle.rejection
    assert before > 0.6
    assert throttle.retune(sp.Throttle(k=2, window=window)) is True
    assert throttle.window == window
    assert throttle.rejection == (before if kept else 0)
    # Without a loss in the window no draw is asked for.
    if not kept:
        assert throttle.admit(lambda: pytest.fail("drawn")) is False
    clock.advance(100)
    assert (throttle.rejection > 0) is kept
    clock.advance(200)
    assert throttle.rejection == 0


def test_retuned_throttle_goes_on_counting(clock: sp.testing.FakeClock) -> None:
    throttle = sp.Throttle(window=100, clock=clock)
    throttle.retune(sp.Throttle(window=50))
    lose(throttle, 1)
    throttle.retune(sp.Throttle(window=60))
    with pytest.raises(sp.Throttled):
        throttle.admit(lambda: 0.0)
    for _ in range(1000):
        throttle.accept()
    clock.advance(1)
    assert throttle.admit(lambda: 0.0) is False
    clock.advance(63)
    lose(throttle, 3)
    # Of what lies longer ago than the window nothing counts.
    assert throttle.rejection == pytest.approx(3 / 4)


def test_retuned_throttle_judges_by_the_new_rule(clock: sp.testing.FakeClock) -> None:
    throttle = sp.Throttle(clock=clock)
    throttle.retune(sp.Throttle(on=KeyError))
    lose(throttle)
    assert throttle.rejection == 0
    throttle.settle(KeyError())
    assert throttle.on is KeyError and throttle.rejection == 0
    for _ in range(30):
        throttle.settle(KeyError())
    assert throttle.rejection > 0


def test_throttle_that_is_reset_has_counted_nothing(clock: sp.testing.FakeClock) -> None:
    throttle = sp.Throttle(window=100, clock=clock)
    clock.advance(1000)
    for _ in range(50):
        throttle.accept()
    lose(throttle)
    throttle.accept()
    throttle.reset()
    assert throttle.rejection == 0
    lose(throttle, 3)
    assert throttle.rejection == pytest.approx(3 / 4)
    clock.advance(101)
    assert throttle.rejection == 0


@pytest.mark.parametrize("observe", [True, False])
def test_refusal_is_emitted_by_what_became_of_it(clock: sp.testing.FakeClock, observe: bool) -> None:
    events: list[Any] = []
    throttle = sp.Throttle(observe=observe, clock=clock)
    lose(throttle)
    stop = sp.subscribe(events.append)
    try:
        if observe:
            assert throttle.admit(lambda: 0.0) is True
        else:
            with pytest.raises(sp.Throttled):
                throttle.admit(lambda: 0.0)
        assert throttle.admit(lambda: 0.999) is False
    finally:
        stop()
    assert [(type(event).__name__, event.by) for event in events] == [
        ("WouldRefuse" if observe else "Refused", "throttle")
    ]


def test_observe_that_is_not_a_bool_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^Throttle: observe must"):
        sp.Throttle(observe="yes")  # type: ignore[arg-type]


# Limits that take the place of others.


@pytest.mark.parametrize("kind", [Aimd, Vegas, Gradient2])
def test_limit_starts_with_that_of_the_rule_it_replaces(kind: Any) -> None:
    for former, limit in ((7.0, 7.0), (99.0, 20.0), (1.0, 5.0)):
        rule = kind(10, 5, 20)
        rule.learn_from(Aimd(former, 1, 100))
        assert rule.limit == limit


def test_vegas_goes_on_with_the_measurements_of_another() -> None:
    former = Vegas(10, 1, 100, draw=lambda: 0.9)
    former.update(0.2, 9, False, 0.0)
    rule = Vegas(10, 1, 100, draw=lambda: 0.1)
    rule.learn_from(former)
    assert (rule.calls, rule.rtt0, rule.spread) == (1, 0.2, 0.95)
    other = Vegas(10, 1, 100)
    other.learn_from(Aimd(10, 1, 100))
    assert (other.calls, other.rtt0) == (0, math.inf)


def test_gradient_goes_on_with_the_average_of_another() -> None:
    former = Gradient2(10, 1, 100)
    for _ in range(3):
        former.update(0.2, 9, False, 0.0)
    rule = Gradient2(10, 1, 100)
    rule.learn_from(former)
    assert (rule.count, rule.long) == (former.count, former.long) == (3, pytest.approx(0.2))
    fresh = Gradient2(10, 1, 100)
    fresh.learn_from(Vegas(10, 1, 100))
    assert (fresh.count, fresh.long) == (0, 0.0)
