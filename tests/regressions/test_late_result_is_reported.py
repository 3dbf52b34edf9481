"""A result that comes past its Deadline or Timeout on a plain function is reported; it was silent."""

import logging

import pytest

import stormproof as sp
from stormproof.events import Late


@pytest.mark.parametrize(("strategy", "scope"), [(sp.Deadline(2), "deadline"), (sp.Timeout(2), "timeout")])
def test_late_result_is_an_event_and_a_warning(strategy, scope, caplog):
    events = []
    unsubscribe = sp.subscribe(events.append)
    try:
        with sp.testing.instant() as clock, caplog.at_level(logging.WARNING, logger="stormproof"):
            assert sp.Policy(strategy, name="report").call(lambda: clock.advance(5) or "done") == "done"
    finally:
        unsubscribe()
    assert [event for event in events if isinstance(event, Late)] == [Late("report", 2.0, 5.0, scope)]
    assert caplog.messages == [
        f"report returned after 5.000 s, past its {scope} of 2 s: a plain function cannot be interrupted"
    ]


def test_result_in_time_is_not_reported():
    events = []
    unsubscribe = sp.subscribe(events.append)
    try:
        with sp.testing.instant() as clock:
            sp.Policy(sp.Deadline(2), name="report").call(lambda: clock.advance(1))
    finally:
        unsubscribe()
    assert not [event for event in events if isinstance(event, Late)]
