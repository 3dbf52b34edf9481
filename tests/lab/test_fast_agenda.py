"""The fast engine's agenda: by time, then in the order of insertion."""

from __future__ import annotations

import heapq
import math
from random import Random

import pytest

from stormproof.lab.engines.numba import agenda, engine, layout
from stormproof.lab.engines.policy_shape import Shape
from stormproof.lab.model.scenario import Scenario

KINDS = (layout.SUCCESS, layout.TIMEOUT, layout.AGAIN)


@pytest.mark.parametrize("grain", [0.25, 0.0001])
def test_agenda_orders_events_by_time_then_by_insertion(grain: float) -> None:
    rng = Random(4)
    w = engine._world(Shape(), Scenario(duration=50), 0)
    state, slots = w.state[0], w.slots
    wanted: list[tuple[float, int]] = []
    now, seq, taken, ties = 0.0, 0, 0, 0
    while now < 49.0:
        while len(wanted) < rng.randrange(1, 200):
            seq += 1
            at = agenda.new_slot(w)
            kind = rng.choice(KINDS)
            # Successes and timeouts come mostly, not always, in the order of their times.
            wait = rng.randrange(round(4 / grain)) * grain if rng.random() < 0.3 else 2 * grain
            slots[at]["time"], slots[at]["seq"], slots[at]["kind"] = now + wait, seq, kind
            agenda.put(w, at)
            heapq.heappush(wanted, (now + wait, seq))
        if state["heap"] == 0:
            agenda.open_bucket(w, 60.0)
        at = agenda.take(w)
        expected = heapq.heappop(wanted)
        assert (slots[at]["time"], slots[at]["seq"]) == expected
        ties += expected[0] == now
        now, taken = expected[0], taken + 1
        assert state["now"] == now
        agenda.free_slot(w, at)
    assert taken > 400 and ties > 50
    assert state["used"] < 250 and math.isfinite(now)
