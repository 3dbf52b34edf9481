"""urllib3#847: the first retry was sent at once, so a short hiccup met the whole first wave again.

Stormproof: there is a wait before every retry, the first included; only ``Constant(0)`` or a 0 in a schedule
asks for none.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import Boom, every_way, retry

import stormproof as sp

FIRST = [
    (sp.Exponential(1, cap=8, jitter="none"), 1),
    (sp.Exponential(1, cap=8, jitter="equal"), 0.75),
    (sp.Exponential(1, cap=8), 0.5),
    (sp.Linear(1, cap=8, jitter="none"), 1),
    (sp.Fibonacci(1, cap=8, jitter="none"), 1),
    (sp.Decorrelated(1, cap=8), 2),
    (sp.Schedule([3, 1]), 3),
    (sp.Exponential(1, cap=8, min=0.7), 0.7),
]


@every_way
@pytest.mark.parametrize(("backoff", "wait"), FIRST, ids=lambda value: type(value).__name__)
def test_first_retry_waits(play, backoff, wait):
    play(retry(backoff=backoff, rng=lambda: 0.5), Boom, "ok").returned("ok").slept(wait)


@every_way
def test_default_backoff_waits_before_the_first_retry(play):
    played = play(sp.retry(on=Boom, rng=lambda: 0.5), Boom, Boom, Boom, "ok").returned("ok")
    played.slept(0.05, 0.1, 0.2)


@every_way
def test_schedule_may_ask_for_no_first_wait(play):
    play(retry(backoff=sp.Schedule([0, 1])), Boom, Boom, "ok").slept(0, 1)
