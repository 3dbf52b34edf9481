"""In virtual time, where no limit passes by itself, a call in a thread came back as None before its end.

Holdfast: Timeout(thread=True) waits for the answer, or for the error.
"""

from __future__ import annotations

import time

import pytest
from tests.scripted import Boom

import holdfast as hf


def slow_answer():
    time.sleep(0.05)
    return "answer"


def slow_failure():
    time.sleep(0.05)
    raise Boom


def test_instant():
    with hf.testing.instant():
        policy = hf.Policy(hf.Timeout(0.01, thread=True))
        assert policy.call(slow_answer) == "answer"
        with pytest.raises(Boom):
            policy.call(slow_failure)


def test_fake_clock():
    policy = hf.Policy(hf.Timeout(0.01, thread=True), clock=hf.testing.FakeClock())
    assert policy.call(slow_answer) == "answer"
    with pytest.raises(Boom):
        policy.call(slow_failure)
