"""instructor#1711: each attempt got the full timeout again, so the last one ran far past the deadline.

Stormproof: an attempt can read what is left of the deadline, and it shrinks from attempt to attempt; the
function gets it without a change of its signature.
"""

from __future__ import annotations

import pytest
from tests.support.loops import each_loop
from tests.support.scripted import Boom, each_way, retry, takes

import stormproof as sp


@each_way
def test_remaining_shrinks_from_attempt_to_attempt(play):
    seen = []
    policy = sp.Policy(
        sp.Deadline(10),
        sp.Retry(
            Boom, backoff=sp.Constant(1), budget=None, before_attempt=lambda a: seen.append(a.remaining)
        ),
    )
    play(policy, takes(2, Boom), takes(2, Boom), "ok").returned("ok")
    assert seen == pytest.approx([10, 7, 4])


@each_loop
def test_remaining_is_visible_inside_the_function(loop):
    clock = sp.testing.FakeClock()
    seen = []

    @sp.retry(on=Boom, attempts=9, backoff=sp.Constant(1), budget=None, clock=clock)
    async def call():
        attempt = sp.attempt()
        seen.append((attempt.number, attempt.remaining, sp.remaining()))
        clock.advance(2)
        raise Boom

    async def scenario():
        with sp.deadline(10, clock=clock), pytest.raises(sp.DeadlineExceeded):
            await call()

    loop.run(scenario)
    assert seen == [(1, 10, 10), (2, 7, 7), (3, 4, 4), (4, 1, 1)]


def test_remaining_without_a_deadline_is_none():
    assert retry().call(lambda: sp.attempt().remaining) is None


def test_remaining_is_never_negative_past_the_deadline():
    clock = sp.testing.FakeClock()
    with sp.deadline(1, clock=clock):
        clock.advance(5)
        assert sp.remaining() == 0
