"""The name of a `Breaker` or `Bulkhead` (from a policy file, say) went into events and errors as it was: line
feeds, escapes of a terminal and all.

Stormproof: control characters are escaped and the text is capped, wherever it came from.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import Boom

import stormproof as sp

NAME = "gate\nWARNING root: forged\x1b[31m" + "x" * 500


def fails():
    raise Boom


def test_names_of_breakers_and_bulkheads_are_escaped():
    events = []
    stop = sp.subscribe(events.append)
    gate = sp.Policy(sp.Breaker(consecutive=1, name=NAME))
    places = sp.Policy(sp.Bulkhead(1, name=NAME))
    try:
        with pytest.raises(Boom):
            gate.call(fails)
        with pytest.raises(sp.CircuitOpen) as closed:
            gate.call(fails)
        with pytest.raises(sp.BulkheadFull) as full:
            places.call(places.call, fails)
    finally:
        stop()
    assert [type(event).__name__ for event in events] == ["BreakerChanged", "Refused", "Refused"]
    for text in (*(event.operation for event in events), str(closed.value), str(full.value)):
        assert text.isprintable() and len(text) < 300
