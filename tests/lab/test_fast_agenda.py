"""The fast engine's agenda: by time, then in the order of insertion."""

from __future__ import annotations

import heapq
import math
from random import Random

import numpy as np
import pytest

from stormproof.lab.engines.numba import agenda, layout
from stormproof.lab.engines.numba.engine import _fill_state

KINDS = (layout.SUCCESS, layout.TIMEOUT, layout.AGAIN)


@pytest.mark.parametrize("grain", [0.25, 0.0001])
def test_agenda_orders_events_by_time_then_by_insertion(grain: float) -> None:
    rng, room, buckets = Random(4), 512, 64
    rules, state = layout.records(layout.RunRules, 1)[0], layout.records(layout.State, 1)[0]
    rules["wide"] = buckets / 50.0
    _fill_state(state, layout.records(layout.StretchRecord, 1), rules)
    slots, heap = layout.records(layout.Slot, room), layout.records(layout.Due, room)
    heads = np.zeros(buckets, np.int32)
    purses, slices = layout.records(layout.PurseRecord, 1), np.zeros((1, 0))
    wanted: list[tuple[float, int]] = []
    now, seq, taken, ties = 0.0, 0, 0, 0
    while now < 49.0:
        while len(wanted) < rng.randrange(1, 200):
            seq += 1
            at = agenda.new_slot(state, slots)
            kind = rng.choice(KINDS)
            # Successes and timeouts come mostly, not always, in the order of their times.
            wait = rng.randrange(round(4 / grain)) * grain if rng.random() < 0.3 else 2 * grain
            slots[at]["time"], slots[at]["seq"], slots[at]["kind"] = now + wait, seq, kind
            agenda.put(rules, state, slots, heap, heads, at)
            heapq.heappush(wanted, (now + wait, seq))
        if state["heap"] == 0:
            agenda.open_bucket(rules, state, slots, heap, heads, purses, slices, 60.0)
        at = agenda.take(state, slots, heap)
        expected = heapq.heappop(wanted)
        assert (slots[at]["time"], slots[at]["seq"]) == expected
        ties += expected[0] == now
        now, taken = expected[0], taken + 1
        assert state["now"] == now
        agenda.free_slot(state, slots, at)
    assert taken > 400 and ties > 50
    assert state["used"] < 250 and math.isfinite(now)
