"""Elsewhere a classifier that follows ``__cause__`` never came back from a cycle of causes.

Stormproof: chains are followed to a fixed depth, so cycles of any length and kind end, and the error
that was raised surfaces.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import every_way, retry

import stormproof as sp

pytestmark = pytest.mark.usefixtures("watchdog")


def cycle(length, link):
    errors = [OSError(f"error {place}") for place in range(length)]
    for place, error in enumerate(errors):
        setattr(error, link, errors[(place + 1) % length])
    return errors[0]


def cyclic_mark():
    asked = sp.RetryAfter(1)
    asked.__cause__ = asked
    return asked


def response_cycle():
    error = ConnectionError()
    error.response = error
    return error


CYCLES = {
    "itself": lambda: cycle(1, "__cause__"),
    "two causes": lambda: cycle(2, "__cause__"),
    "long": lambda: cycle(5000, "__cause__"),
    "context": lambda: cycle(3, "__context__"),
    "group": lambda: ExceptionGroup("g", [cycle(2, "__cause__")]),
    "retry after": cyclic_mark,
    "response": response_cycle,
}
RULES = {"transient": sp.transient, "type": Exception, "callable": lambda error: True}


@every_way
@pytest.mark.parametrize("shape", CYCLES)
@pytest.mark.parametrize("on", RULES)
def test_cycle_of_causes_is_judged(play, shape, on):
    error = CYCLES[shape]()
    played = play(retry(on=RULES[on], attempts=3), error, ...)
    assert played.error is error
    if on != "transient":
        played.made(3)


@pytest.mark.parametrize("shape", CYCLES)
def test_outer_layer_still_sees_the_mark(shape):
    error = CYCLES[shape]()
    calls = 0

    @retry(on=Exception)
    @retry(on=Exception, attempts=2)
    def call():
        nonlocal calls
        calls += 1
        raise error

    with sp.testing.instant(), pytest.raises(type(error)):
        call()
    assert calls == 2
