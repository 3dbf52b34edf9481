"""Elsewhere a ``Retry-After`` of 25 h became 3,599 s, because ``timedelta.seconds`` is only what is left
beside the days.

Stormproof: a duration is its total seconds everywhere, and negative ones are refused.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.scripted import Boom, every_way, retry

import stormproof as sp
from stormproof._classify.server_hints import retry_after

LONG = timedelta(hours=25)
LONG_S = 25 * 3600.0


def test_options_accept_a_timedelta_longer_than_a_day():
    assert sp.Retry(within=LONG).within == LONG_S
    assert sp.Retry(max_hint=LONG).max_hint == LONG_S
    assert sp.Constant(LONG).delay(0, None, 0.5) == LONG_S
    assert sp.Exponential(LONG, cap=2 * LONG, jitter="none").ceiling(1) == 2 * LONG_S
    assert sp.Schedule([LONG]).ceiling(0) == LONG_S
    assert sp.Budget(window=LONG).window == LONG_S
    assert sp.Deadline(LONG).seconds == LONG_S
    assert sp.RetryAfter(LONG).seconds == LONG_S
    clock = sp.testing.FakeClock()
    assert sp.deadline(LONG, clock=clock).limit == LONG_S
    with sp.deadline(LONG, clock=clock):
        clock.advance(86_400)
        assert sp.remaining() == 3600


@pytest.mark.parametrize(
    "make", [lambda d: sp.Retry(within=d), sp.Deadline, sp.RetryAfter, sp.Constant, sp.deadline]
)
def test_negative_timedelta_is_refused(make):
    with pytest.raises(ValueError, match=r">= 0 seconds, got .*-1"):
        make(timedelta(seconds=-1))


def test_header_longer_than_a_day_is_read_in_full():
    now = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the date of the RFC's own example
    assert retry_after({"Retry-After": "90000"}, now) == LONG_S
    assert retry_after({"Retry-After": "Mon, 07 Nov 1994 09:49:37 GMT"}, now) == LONG_S


@every_way
def test_hint_longer_than_a_day_is_slept_in_full(play):
    played = play(retry(max_hint=2 * LONG, rng=lambda: 0.0), sp.RetryAfter(LONG, Boom()), "ok").returned("ok")
    assert played.sleeps == [LONG_S]


@every_way
def test_hint_longer_than_max_hint_is_kept_on_the_error(play):
    error = Boom()
    played = play(retry(), sp.RetryAfter(LONG, error))
    assert played.error is error and error.retry_after == LONG_S
