"""The token bucket by itself, and the line of its waiters."""

from __future__ import annotations

import math

import pytest

from stormproof._strategies.limiter.rules.bucket import Bucket, Grant


def make_bucket(rate: float = 2.0, burst: int = 10, now: float = 0.0) -> Bucket:
    return Bucket(rate, burst, now)


# Grants.


def test_grant_delay_is_the_time_until_it_is_due() -> None:
    grant = Grant(True, 1, 10.0, 2.0, 1.0)
    assert (grant.delay(4.0), grant.delay(10.0), grant.delay(11.0)) == (6.0, 0.0, 0.0)
    assert (grant.returned, grant.given_back, grant.may_come_early) == (False, 0.0, False)
    assert Grant(False, 1, 10.0, 2.0, 1.0).delay(4.0) == math.inf


# Tokens.


def test_bucket_starts_full_and_refills_at_its_rate_up_to_the_burst() -> None:
    bucket = make_bucket()
    assert (bucket.tokens(0.0), bucket.tokens(100.0), bucket.last_event) == (10.0, 10.0, -math.inf)
    assert bucket.reserve(10, 0.0, 0.0).ok
    assert (bucket.tokens(0.0), bucket.tokens(1.0), bucket.tokens(4.5), bucket.tokens(9.0)) == (
        0.0,
        2.0,
        9.0,
        10.0,
    )
    assert bucket.usable(1.0) == bucket.tokens(1.0)


def test_time_set_back_refills_nothing() -> None:
    bucket = make_bucket()
    bucket.reserve(10, 50.0, 0.0)
    assert bucket.tokens(0.0) == 0.0
    # The time that it relives refills again.
    assert bucket.reserve(1, 0.0, None).at == 0.5
    assert bucket.last == 0.0


def test_endless_rate_grants_everything_at_once() -> None:
    bucket = make_bucket(rate=math.inf, burst=3)
    grant = bucket.reserve(100, 5.0, 0.0)
    assert (grant.ok, grant.at, grant.n) == (True, 5.0, 100)
    assert bucket.tokens(5.0) == 3.0
    bucket.charge(2, 5.0)
    assert (bucket.tokens(5.0), bucket.tokens(5.1)) == (1.0, 3.0)


# Reserving.


def test_tokens_in_the_bucket_are_granted_at_once_and_more_with_a_wait() -> None:
    bucket = make_bucket()
    first = bucket.reserve(8, 1.0, 0.0)
    assert (first.ok, first.n, first.at, first.rate, first.mark) == (True, 8, 1.0, 2.0, 8)
    assert (bucket.last, bucket.level, bucket.last_event, bucket.booked) == (1.0, 2.0, 1.0, 8)
    second = bucket.reserve(4, 1.0, None)
    assert (second.ok, second.at, second.mark) == (True, 2.0, 12)
    assert (bucket.level, bucket.last_event, bucket.booked) == (-2.0, 2.0, 12)
    exact = bucket.reserve(0, 1.0, None)
    assert (exact.ok, exact.at) == (True, 2.0)


def test_wait_of_exactly_the_longest_is_taken() -> None:
    bucket = make_bucket()
    bucket.reserve(10, 0.0, 0.0)
    assert not bucket.reserve(2, 0.0, 0.999).ok
    assert bucket.reserve(2, 0.0, 1.0).ok


def test_refusal_takes_nothing() -> None:
    bucket = make_bucket()
    bucket.reserve(10, 0.0, 0.0)
    refused = bucket.reserve(1, 0.0, 0.0)
    assert (refused.ok, refused.at, refused.mark) == (False, 0.5, 10)
    assert (bucket.level, bucket.booked, bucket.last_event) == (0.0, 10, 0.0)


def test_more_than_the_burst_is_never_granted() -> None:
    bucket = make_bucket()
    assert bucket.reserve(10, 0.0, None).ok
    bucket = make_bucket()
    assert not bucket.reserve(11, 0.0, None).ok


def test_rate_of_zero_gives_the_burst_and_no_more() -> None:
    bucket = make_bucket(rate=0.0, burst=2)
    assert bucket.reserve(2, 0.0, None).ok
    refused = bucket.reserve(1, 0.0, None)
    assert (refused.ok, refused.at) == (False, math.inf)


def test_wait_of_ages_is_refused() -> None:
    bucket = make_bucket(rate=1e-15, burst=1)
    bucket.reserve(1, 0.0, None)
    assert bucket.reserve(1, 0.0, None).ok
    assert not bucket.reserve(1, 0.0, None).ok


# Giving back.


def test_cancelled_grant_at_the_end_of_the_line_comes_back() -> None:
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    grant = bucket.reserve(4, 0.0, None)
    assert (bucket.level, bucket.last_event) == (-4.0, 2.0)
    bucket.cancel(grant, 1.0)
    assert (bucket.level, bucket.last, bucket.booked) == (2.0, 1.0, 10)
    assert (grant.returned, grant.given_back) == (True, 4.0)
    bucket.cancel(grant, 1.0)
    assert (bucket.level, bucket.booked) == (2.0, 10)


def test_cancelled_grant_keeps_tokens_that_later_grants_count_on() -> None:
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    first, second = bucket.reserve(4, 0.0, None), bucket.reserve(3, 0.0, None)
    bucket.cancel(first, 0.0)
    # Three of its four tokens are what the second one waits for.
    assert (first.given_back, bucket.level, bucket.booked) == (1.0, -6.0, 16.0)
    assert bucket.last_event == second.at
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    first, second = bucket.reserve(2, 0.0, None), bucket.reserve(3, 0.0, None)
    bucket.cancel(first, 0.0)
    assert (first.given_back, first.returned, bucket.level, bucket.booked) == (0.0, True, -5.0, 15)


def test_last_event_goes_back_with_the_last_grant() -> None:
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    bucket.reserve(2, 0.0, None)
    last = bucket.reserve(2, 0.0, None)
    assert bucket.last_event == 2.0
    bucket.cancel(last, 0.5)
    assert bucket.last_event == 1.0
    # Not to a time before now.
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    last = bucket.reserve(2, 0.0, None)
    bucket.cancel(last, 0.5)
    assert bucket.last_event == 1.0
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    last = bucket.reserve(2, 0.0, None)
    bucket.cancel(last, 0.0)
    assert bucket.last_event == 0.0


@pytest.mark.parametrize("now", [1.0, 1.5])
def test_cancelled_grant_past_its_time_counts_as_used(now: float) -> None:
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    grant = bucket.reserve(2, 0.0, None)
    assert grant.at == 1.0
    bucket.cancel(grant, now)
    assert grant.returned is (now == 1.0)
    assert bucket.booked == (10 if now == 1.0 else 12)


def test_cancelling_an_empty_or_refused_grant_returns_no_token() -> None:
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    for grant in (bucket.reserve(0, 0.0, None), bucket.reserve(99, 0.0, None)):
        bucket.cancel(grant, 0.0)
        assert (grant.returned, bucket.level, bucket.booked) == (False, 0.0, 10)
    endless = make_bucket(rate=math.inf)
    grant = endless.reserve(5, 0.0, None)
    endless.cancel(grant, 0.0)
    assert grant.returned is False
    bucket.cancel(Grant(True, 5, 0.0, math.inf, 5.0), 0.0)
    assert bucket.booked == 10


def test_refund_stops_at_the_burst() -> None:
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    grant = bucket.reserve(10, 0.0, None)
    bucket.cancel(grant, 4.9)
    assert bucket.level == pytest.approx(9.8)
    bucket = make_bucket()
    grant = bucket.reserve(10, 0.0, None)
    grant.at = 50.0
    bucket.last_event = 50.0
    bucket.cancel(grant, 3.0)
    assert bucket.level == 10.0


# Charging, changing, moving.


def test_charge_may_exceed_the_level() -> None:
    bucket = make_bucket()
    bucket.charge(12, 0.0)
    assert (bucket.level, bucket.tokens(1.0)) == (-2.0, 0.0)
    bucket.charge(-100, 2.0)
    assert (bucket.level, bucket.last) == (10.0, 2.0)


def test_new_rate_applies_after_the_refill_so_far() -> None:
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    bucket.change(5.0, 20, 2.0)
    assert (bucket.rate, bucket.burst, bucket.level, bucket.last) == (5.0, 20, 4.0, 2.0)
    assert bucket.tokens(3.0) == 9.0


def test_bucket_moves_with_its_clock() -> None:
    bucket = make_bucket()
    bucket.reserve(10, 1.0, None)
    bucket.move(100.0)
    assert (bucket.last, bucket.last_event, bucket.tokens(102.0)) == (101.0, 101.0, 2.0)


# The line.


def waiting(*sizes: int) -> tuple[Bucket, list[Grant]]:
    """An empty bucket with one waiter for each of ``sizes``."""
    bucket = make_bucket()
    bucket.reserve(10, 0.0, None)
    return bucket, [bucket.reserve(size, 0.0, None, True) for size in sizes]


def test_last_in_line_gives_back_all() -> None:
    bucket, (first, last) = waiting(2, 3)
    bucket.leave(last, 0.0)
    assert (last.given_back, bucket.booked, bucket.level) == (3.0, 12, -2.0)
    bucket.leave(first, 0.0)
    assert (first.given_back, bucket.booked, bucket.level) == (2.0, 10, 0.0)


def test_waiter_that_leaves_early_gives_all_to_those_behind() -> None:
    bucket, (first, second, third) = waiting(4, 1, 2)
    assert bucket.leave(first, 0.0) == [second]
    assert (first.given_back, bucket.booked, bucket.level) == (4.0, 13, -3.0)
    assert (bucket.pause(second, 0.0), bucket.pause(third, 0.0)) == (0.5, third.at)
    bucket.leave(third, 0.0)
    bucket.leave(second, 0.0)
    assert (bucket.booked, bucket.level, bucket.queued, len(bucket.waiting)) == (10, 0.0, 0, 0)


def test_waiter_that_becomes_first_earlier_than_promised_is_woken() -> None:
    bucket, (first, second, third) = waiting(2, 2, 2)
    bucket.leave(second, 0.0)
    assert third.at == 3.0, "what it was promised"
    assert bucket.arrive(first, 1.0) == [third]
    assert bucket.pause(third, 1.0) == 1.0


def test_waiter_whose_own_timer_is_right_is_not_woken() -> None:
    bucket, (first, second) = waiting(2, 2)
    assert bucket.arrive(first, 1.0) == []
    assert bucket.pause(second, 1.0) == 1.0
    assert bucket.arrive(second, 2.0) == []
    assert bucket.arrive(second, 2.0) == []


def test_due_waiters_pass_a_sleeping_one() -> None:
    bucket, (first, second, third) = waiting(1, 1, 1)
    # The first one's loop is blocked: the second one's own timer lets both pass.
    assert bucket.advance(1.0) == [first, second]
    assert (bucket.pause(first, 1.0), bucket.pause(second, 1.0), bucket.pause(third, 1.0)) == (0.0, 0.0, 0.5)


def test_returned_tokens_go_to_waiters() -> None:
    bucket, (first, second) = waiting(2, 2)
    bucket.charge(-1, 0.0)
    assert bucket.moved_up(0.0) == [first]
    assert bucket.pause(first, 0.0) == 0.5
    bucket.charge(3, 0.0)
    # What is charged afterwards delays later callers, not those that wait.
    assert bucket.pause(first, 0.0) == 0.5
    assert bucket.advance(0.5) == [first, second]
    assert bucket.pause(second, 0.5) == 1.0


def test_line_is_empty_in_a_forked_child() -> None:
    bucket, _ = waiting(1, 1)
    bucket.clear_line()
    assert (bucket.queued, bucket.advance(0.0)) == (0, [])


def test_waiters_may_leave_in_any_order() -> None:
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        bucket, grants = waiting(1, 2, 3)
        for place in order:
            bucket.leave(grants[place], 0.0)
        assert (bucket.booked, bucket.level) == (10, 0.0), order


def test_leave_of_a_refused_grant_changes_nothing() -> None:
    bucket, _ = waiting(2)
    bucket.leave(bucket.reserve(99, 0.0, None), 0.0)
    assert (bucket.booked, bucket.level) == (12, -2.0)


def test_leave_at_an_infinite_rate_changes_nothing() -> None:
    endless = make_bucket(rate=math.inf)
    endless.leave(endless.reserve(3, 0.0, None), 0.0)
    assert (endless.booked, endless.tokens(0.0)) == (0, 10.0)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_cancelled_grant_of_a_slow_bucket_comes_back(rate: float) -> None:
    bucket = make_bucket(rate=rate, burst=2)
    grant = bucket.reserve(2, 0.0, None)
    bucket.cancel(grant, 0.0)
    assert (bucket.level, grant.given_back) == (2.0, 2.0)


def test_last_event_of_a_slow_bucket_goes_back() -> None:
    bucket = make_bucket(rate=0.5, burst=1)
    bucket.reserve(1, 0.0, None)
    bucket.reserve(1, 0.0, None)
    bucket.cancel(bucket.reserve(1, 0.0, None), 0.0)
    assert bucket.last_event == 2.0


def test_grants_a_token_apart_stay_distinct_at_high_rates() -> None:
    bucket = make_bucket(rate=1000.0, burst=2)
    bucket.reserve(2, 0.0, None)
    first, second = bucket.reserve(2, 0.0, None), bucket.reserve(1, 0.0, None)
    bucket.cancel(first, 0.0)
    assert first.given_back == pytest.approx(1.0)
    assert bucket.last_event == second.at
