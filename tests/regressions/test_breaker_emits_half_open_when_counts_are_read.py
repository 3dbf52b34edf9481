"""Reading `counts`, or a reload, after the open time made the circuit half-open without an event."""

import pytest

import stormproof as sp


@pytest.mark.parametrize(
    "look", [lambda breaker: breaker.counts, lambda breaker: breaker.retune(sp.Breaker())]
)
def test_breaker_past_its_open_time_emits_half_open_once(look):
    clock = sp.testing.FakeClock()
    breaker = sp.Breaker(consecutive=1, open_for=5, clock=clock)
    breaker.admit().failure()
    changes = []
    unsubscribe = sp.subscribe(lambda event: changes.append((event.before, event.after)))
    try:
        clock.advance(6)
        look(breaker)
        assert breaker.state == "half_open"
    finally:
        unsubscribe()
    assert changes == [("open", "half_open")]
