"""The name of a `Breaker` or `Bulkhead` (from a policy file, say) went into events and errors as it was: line
feeds, escapes of a terminal and all.

Holdfast: control characters are escaped and the text is capped, whatever told it.
"""

from __future__ import annotations

import pytest
from tests.scripted import Boom

import holdfast as hf

NAME = "gate\nWARNING root: forged\x1b[31m" + "x" * 500


def fails():
    raise Boom


def test_a_breakers_and_a_bulkheads():
    told = []
    stop = hf.subscribe(told.append)
    gate = hf.Policy(hf.Breaker(consecutive=1, name=NAME))
    places = hf.Policy(hf.Bulkhead(1, name=NAME))
    try:
        with pytest.raises(Boom):
            gate.call(fails)
        with pytest.raises(hf.CircuitOpen) as closed:
            gate.call(fails)
        with pytest.raises(hf.BulkheadFull) as full:
            places.call(places.call, fails)
    finally:
        stop()
    assert [type(event).__name__ for event in told] == ["BreakerChanged", "Refused", "Refused"]
    for text in (*(event.operation for event in told), str(closed.value), str(full.value)):
        assert text.isprintable() and len(text) < 300
