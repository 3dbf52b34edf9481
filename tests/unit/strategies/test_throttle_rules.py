"""The throttle's ledger and its probability by themselves, and what the strategy makes of each end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.http_errors import http_error

import stormproof as sp
from stormproof._strategies.throttle import Ledger, rejection


@pytest.mark.parametrize(
    ("requests", "accepts", "k", "share"),
    [
        (0, 0, 2, 0.0),
        (9, 0, 2, 0.9),
        (10, 5, 2, 0.0),
        (10, 4, 2, 2 / 11),
        (10, 4, 1, 6 / 11),
        (10, 9, 2, 0.0),
    ],
)
def test_rejection_probability_follows_the_formula(
    requests: float, accepts: float, k: float, share: float
) -> None:
    assert rejection(requests, accepts, k) == pytest.approx(share)


def accepted(ledger: Ledger, times: int) -> None:
    for _ in range(times):
        ledger.accept()


def test_accepted_calls_count_when_settled() -> None:
    ledger = Ledger(20.0, 100.0)
    assert (ledger.sums(), ledger.hot) == ((0.0, 0.0), False)
    accepted(ledger, 4)
    assert ledger.sums() == (0.0, 0.0)
    ledger.settle(100.0)
    assert (ledger.sums(), ledger.hot) == ((4.0, 4.0), False)


def test_ledger_with_a_loss_is_hot_until_it_leaves_the_window() -> None:
    ledger = Ledger(20.0, 100.0)
    ledger.lose()
    ledger.lose()
    assert (ledger.sums(), ledger.hot) == ((2.0, 0.0), True)
    ledger.settle(119.5)
    assert ledger.hot
    ledger.settle(120.0)
    assert (ledger.sums(), ledger.hot) == ((0.0, 0.0), False)


def test_accepted_calls_are_spread_over_their_time() -> None:
    ledger = Ledger(20.0, 100.0)
    accepted(ledger, 10)
    ledger.settle(110.0)
    assert ledger.sums()[1] == pytest.approx(10.0)
    ledger.settle(125.0)
    assert ledger.sums()[1] == pytest.approx(5.0)
    ledger.settle(130.0)
    assert ledger.sums()[1] == pytest.approx(0.0)


def test_calls_spread_over_more_than_the_window_count_in_part() -> None:
    ledger = Ledger(20.0, 100.0)
    accepted(ledger, 40)
    ledger.settle(180.0)
    assert ledger.sums() == (pytest.approx(10.0), pytest.approx(10.0))
    ledger.settle(190.0)
    assert ledger.sums()[1] == pytest.approx(5.0)


def test_clock_set_back_repeatedly_continues_from_the_new_time() -> None:
    ledger = Ledger(20.0, 100.0)
    ledger.lose()
    ledger.settle(40.0)
    assert ledger.hot
    ledger.settle(59.0)
    assert ledger.hot
    ledger.settle(9.0)
    assert ledger.hot
    ledger.settle(10.0)
    assert not ledger.hot


def test_new_clock_continues_the_time_of_the_first() -> None:
    ledger = Ledger(20.0, 100.0)
    ledger.lose()
    ledger.move(1e6)
    ledger.settle(1e6 + 19.0)
    assert ledger.hot
    ledger.settle(1e6 + 20.0)
    assert not ledger.hot


# The strategy.


class Draws:
    """Draws given values, and counts."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.times = 0

    def __call__(self) -> float:
        self.times += 1
        return self.value


def make_throttle(**options: Any) -> sp.Throttle:
    return sp.Throttle(clock=sp.testing.FakeClock(), **options)


def test_defaults_are_the_documented_ones() -> None:
    throttle = sp.Throttle()
    assert (throttle.k, throttle.window, throttle.min_calls, throttle.max_rejection, throttle.name) == (
        2.0,
        120.0,
        0,
        1.0,
        None,
    )


def test_outcome_decides_requests_and_accepts() -> None:
    throttle = make_throttle(on=ConnectionError)
    for error in (
        ConnectionError(),
        sp.RetryAfter(1, ConnectionError()),
        KeyError(),
        sp.Permanent(KeyError()),
        sp.AttemptTimeout("late"),
        sp.RateLimited("no room"),
    ):
        throttle.settle(error)
    described = throttle.describe()
    # Two lost; three answered, of which one was a timed out attempt that `on` does not name.
    assert (described["requests"], described["accepts"]) == (5.0, 3.0)


def test_calls_accepted_before_a_failure_count_before_it() -> None:
    clock = sp.testing.FakeClock()
    throttle = sp.Throttle(on=ConnectionError, window=20, clock=clock)
    policy = sp.Policy(throttle)
    for _ in range(10):
        policy.call(lambda: None)
    clock.advance(10)
    throttle.settle(ConnectionError())
    clock.advance(15)
    assert throttle.describe()["accepts"] == pytest.approx(5.0)


def test_draw_below_the_share_is_refused_and_counts_as_lost() -> None:
    throttle = make_throttle(on=ConnectionError, name="door")
    for _ in range(9):
        throttle.settle(ConnectionError())
    assert throttle.rejection == pytest.approx(0.9)
    throttle._admit(Draws(0.9))
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        with pytest.raises(sp.Throttled, match=r"^door refuses 90\.0% of the calls: too many of them fail$"):
            throttle._admit(Draws(0.89))
    finally:
        stop()
    assert [(event.operation, event.by) for event in events] == [("door", "throttle")]
    assert throttle.describe()["requests"] == 10.0


def test_throttle_draws_no_number_while_it_refuses_no_call() -> None:
    throttle = make_throttle()
    draws = Draws(0.0)
    throttle._admit(draws)
    assert draws.times == 0


def test_unnamed_throttle_emits_as_throttle() -> None:
    throttle = make_throttle(on=ConnectionError)
    throttle.settle(ConnectionError())
    events: list[Any] = []
    stop = sp.subscribe(events.append)
    try:
        with pytest.raises(sp.Throttled, match=r"^throttle refuses 50\.0% "):
            throttle._admit(Draws(0.0))
    finally:
        stop()
    assert events[0].operation == "throttle"


def test_rejection_is_bounded_by_min_calls_and_cap() -> None:
    throttle = make_throttle(on=ConnectionError, min_calls=3, max_rejection=0.6)
    for calls, share in ((1, 0.0), (2, 0.0), (3, 0.6)):
        throttle.settle(ConnectionError())
        assert (calls, throttle.rejection) == (calls, share)


def test_copy_has_counted_nothing() -> None:
    throttle = make_throttle(on=ConnectionError, k=3, window=7, min_calls=1, max_rejection=0.5, name="door")
    throttle.settle(ConnectionError())
    copy = throttle.fresh()
    assert copy.fields() == throttle.fields()
    assert copy.clock is throttle.clock
    assert (copy.rejection, copy.describe()["requests"]) == (0.0, 0.0)
    assert copy != throttle
    assert throttle == throttle


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 0.99}, "Throttle: k must be "),
        ({"window": 0}, "Throttle: window must be "),
        ({"min_calls": -1}, "Throttle: min_calls must be "),
        ({"max_rejection": 0}, "Throttle: max_rejection must be "),
        ({"max_rejection": 1.01}, "Throttle: max_rejection must be "),
        ({"name": ""}, "Throttle: name must be "),
        ({"clock": 1}, "Throttle: clock must have "),
        ({"on": ()}, "Throttle: on must name "),
    ],
)
def test_invalid_option_is_refused_by_name(options: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        sp.Throttle(**options)
    assert str(caught.value).startswith(says)


def test_options_at_their_limits_are_accepted() -> None:
    throttle = sp.Throttle(k=1, window=0.5, min_calls=0, max_rejection=0.01)
    assert (throttle.k, throttle.window, throttle.min_calls, throttle.max_rejection) == (1.0, 0.5, 0, 0.01)


def test_named_refusals_and_errors_with_do_not_retry_count_as_failures() -> None:
    throttle = make_throttle(on=Exception)
    throttle.settle(sp.RateLimited("no room"))
    assert throttle.describe()["requests"] == 1.0
    throttle = make_throttle(on=OSError)
    throttle.settle(http_error(503, x_should_retry="false"))
    described = throttle.describe()
    assert (described["requests"], described["accepts"]) == (1.0, 0.0)
