"""Elsewhere a huge ``Retry-After`` went straight into ``sleep``, which raised OverflowError in place of
the server's error.

Stormproof: longer than ``max_hint`` ends the call with the server's error; with no such limit the sleep
itself is still one that the platform takes.
"""

from __future__ import annotations

import math
import signal
import threading

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import SYNC, Boom, every_way, retry

import stormproof as sp
from stormproof._classify.server_hints import retry_after

HUGE = [1e12, 1e18, 1e300, 10**300]


@every_way
@pytest.mark.parametrize("seconds", HUGE)
def test_hint_beyond_the_limit_surfaces_the_error_of_the_server(play, seconds):
    error = Boom()
    played = play(retry(), sp.RetryAfter(seconds, error)).made(1)
    assert played.error is error and error.retry_after == float(seconds)
    assert played.sleeps == []


@pytest.mark.parametrize("text", ["9" * 5000, "1000000000000", "1" + "0" * 400])
def test_header_of_many_digits_is_longer_than_any_limit(text):
    assert retry_after({"Retry-After": text}) > 1e9


@pytest.mark.parametrize("u", [0.0, 0.5])
def test_endless_hint_is_never_shortened(u):
    """inf * 0.0 is NaN, and a wait of NaN loses against any other."""
    endless = sp.Verdict(True, after=math.inf)
    policy = retry(on=lambda error: endless, max_hint=math.inf, attempts=2, rng=lambda: u)
    assert SYNC(policy, Boom, Boom).sleeps == [math.inf]


class Woken(Exception):
    """Raised out of a sleep that would otherwise last for years."""


@pytest.fixture
def alarm():
    """Return a function that lets `Woken` strike a moment later."""

    def ring(*_):
        raise Woken

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.05)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def asks_for(seconds):
    def call():
        raise sp.RetryAfter(seconds, Boom())

    return call


@pytest.mark.parametrize("seconds", HUGE)
def test_huge_hint_is_slept_in_a_thread(seconds, alarm):
    with pytest.raises(Woken):
        alarm()
        retry(max_hint=math.inf).call(asks_for(seconds))


@pytest.mark.parametrize("seconds", HUGE)
def test_huge_hint_is_slept_inside_a_scope(seconds):
    with sp.deadline(None) as scope:
        timer = threading.Timer(0.05, scope.cancel)
        timer.start()
        with pytest.raises(sp.Cancelled):
            retry(max_hint=math.inf).call(asks_for(seconds))
    timer.join()


@each_loop
@pytest.mark.parametrize("seconds", HUGE)
def test_huge_hint_is_slept_on_an_event_loop(loop, seconds):
    @retry(max_hint=math.inf)
    async def call():
        raise sp.RetryAfter(seconds, Boom())

    async def scenario():
        assert await loop.cut(1, call)

    loop.run(scenario)
