"""A run of the lab's direct way switches cyclic collection off meanwhile: it must be as before afterwards."""

from __future__ import annotations

import gc

import pytest

from stormproof import lab


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_enabled_as_before_after_a_run(enabled: bool, stops: bool) -> None:
    scenario = lab.Scenario(arrival_rps=10, capacity_rps=20, duration=2)
    (gc.enable if enabled else gc.disable)()
    try:
        lab.simulate(None, scenario, engine="exact", progress=lambda state: not stops)
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
