"""urllib3#1338, open since 2018: a server that says ``Retry-After: 3600`` makes the caller sleep an hour.

Stormproof: a hint longer than ``max_hint`` ends the call at once with the server's error, which carries
``retry_after``; a shorter one is kept to, and never cut short.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import Boom, every_way, retry

import stormproof as sp


@every_way
@pytest.mark.parametrize(("max_hint", "hint"), [(60, 61), (60, 3600), (0, 0.5), (5, 5.001)])
def test_hint_beyond_max_hint_raises_at_once(play, max_hint, hint):
    error = Boom()
    played = play(retry(max_hint=max_hint), sp.RetryAfter(hint, error))
    assert played.error is error and error.retry_after == hint
    assert played.sleeps == []
    assert played.events[-1].reason == "hint"
    assert f"the server asked for {hint:g} s" in played.notes[-1]


@every_way
def test_default_max_hint_is_a_minute(play):
    play(sp.retry(on=Boom, within=None), sp.RetryAfter(60, Boom()), "ok").returned("ok")
    assert play(sp.retry(on=Boom, within=None), sp.RetryAfter(60.1, Boom())).error.retry_after == 60.1


@every_way
@pytest.mark.parametrize(("u", "wait"), [(0.0, 30), (0.5, 31.5), (0.999, 32.997)])
def test_hint_is_a_floor(play, u, wait):
    """hint + up to 10 % of it, so that callers with the same hint do not come back together."""
    play(retry(rng=lambda: u), sp.RetryAfter(30, Boom()), "ok").returned("ok").slept(wait)


@every_way
def test_our_own_wait_may_be_longer(play):
    policy = retry(backoff=sp.Constant(10), rng=lambda: 0.5)
    play(policy, sp.RetryAfter(3, Boom()), "ok").slept(10)


@every_way
def test_hint_past_the_deadline_raises_at_once(play):
    played = play(retry(), sp.RetryAfter(30, Boom()), inside=lambda: sp.deadline(10))
    assert played.raised(sp.DeadlineExceeded).error.retry_after == 30
    assert played.sleeps == []


@every_way
def test_hint_is_not_the_next_waits_base(play):
    policy = retry(backoff=sp.Decorrelated(1, cap=1000), rng=lambda: 1.0)
    # 3 * 1, then 3 * 3: the 40 s (+10 %) between them are the server's, not ours.
    play(policy, Boom, sp.RetryAfter(40, Boom()), Boom, "ok").returned("ok").slept(3, 44, 27)
