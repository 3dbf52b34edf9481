"""urllib3#847: the first retry was sent at once, so a short hiccup met the whole first wave again.

Holdfast: there is a wait before every retry, the first included; only ``Constant(0)`` or a 0 in a schedule
asks for none.
"""

from __future__ import annotations

import pytest
from tests.scripted import Boom, every_way, retry

import holdfast as hf

FIRST = [
    (hf.Exponential(1, cap=8, jitter="none"), 1),
    (hf.Exponential(1, cap=8, jitter="equal"), 0.75),
    (hf.Exponential(1, cap=8), 0.5),
    (hf.Linear(1, cap=8, jitter="none"), 1),
    (hf.Fibonacci(1, cap=8, jitter="none"), 1),
    (hf.Decorrelated(1, cap=8), 2),
    (hf.Schedule([3, 1]), 3),
    (hf.Exponential(1, cap=8, min=0.7), 0.7),
]


@every_way
@pytest.mark.parametrize(("backoff", "wait"), FIRST, ids=lambda value: type(value).__name__)
def test_the_first_wait(play, backoff, wait):
    play(retry(backoff=backoff, rng=lambda: 0.5), Boom, "ok").returned("ok").slept(wait)


@every_way
def test_the_defaults(play):
    played = play(hf.retry(on=Boom, rng=lambda: 0.5), Boom, Boom, Boom, "ok").returned("ok")
    played.slept(0.05, 0.1, 0.2)


@every_way
def test_none_on_request(play):
    play(retry(backoff=hf.Schedule([0, 1])), Boom, Boom, "ok").slept(0, 1)
