"""In virtual time, where no limit passes by itself, a call in a thread came back as None before its end.

Stormproof: Timeout(thread=True) waits for the answer, or for the error.
"""

from __future__ import annotations

import time

import pytest
from tests.support.scripted import Boom

import stormproof as sp


def slow_answer():
    time.sleep(0.05)
    return "answer"


def slow_failure():
    time.sleep(0.05)
    raise Boom


def test_thread_timeout_under_instant_waits_for_the_call():
    with sp.testing.instant():
        policy = sp.Policy(sp.Timeout(0.01, thread=True))
        assert policy.call(slow_answer) == "answer"
        with pytest.raises(Boom):
            policy.call(slow_failure)


def test_thread_timeout_on_a_fake_clock_waits_for_the_call():
    policy = sp.Policy(sp.Timeout(0.01, thread=True), clock=sp.testing.FakeClock())
    assert policy.call(slow_answer) == "answer"
    with pytest.raises(Boom):
        policy.call(slow_failure)
