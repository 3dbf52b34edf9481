"""stamina#151, backoff#17: log lines and hooks carried the call's arguments, passwords and all.

Stormproof: events, log lines, notes and its own errors carry names, numbers and exception types; never
arguments, never results, never the text of an exception.
"""

from __future__ import annotations

import functools
import json
import logging
import traceback

import pytest
from tests.support.scripted import every_way, retry

import stormproof as sp

SECRET = "hunter2-secret"


class Leaky(ConnectionError):
    """Its text and its repr hold the secret, as those of many clients' errors do."""


def text_of(caplog, events, error=None):
    """All that Stormproof says about a call, as one text."""
    lines = [record.getMessage() + repr(vars(record)) for record in caplog.records]
    lines += [json.dumps(event.as_dict()) + repr(event) for event in events]
    seen = error
    while seen is not None:
        lines += getattr(seen, "__notes__", [])
        if isinstance(seen, sp.StormproofError):
            lines += [str(seen), repr(seen)]
        seen = seen.__cause__
    return "\n".join(lines)


@every_way
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"within": 0.5},
        {"budget": sp.Budget(burst=0)},
        {"on": KeyError},
        {"on_result": lambda value: True},
    ],
    ids=["attempts", "within", "budget", "fatal", "result"],
)
def test_failures_and_results_are_not_logged(play, caplog, options):
    caplog.set_level(logging.DEBUG)
    outcomes = [{"token": SECRET}] * 4 if "on_result" in options else [Leaky(SECRET)] * 4
    played = play(retry(on=Leaky, **options) if "on" not in options else retry(**options), *outcomes, ...)
    assert played.events
    assert SECRET not in text_of(caplog, played.events, played.error)


def test_arguments_are_not_logged(caplog):
    caplog.set_level(logging.DEBUG)
    events = []
    stop = sp.subscribe(events.append)

    class Client:
        def __init__(self, password):
            self.password = password

        def __repr__(self):
            return f"Client({self.password})"

        @retry(on=Leaky)
        def get(self, path, *, token):
            raise Leaky(token)

        def __call__(self, path):
            raise Leaky(path)

    client = Client(SECRET)
    calls = [
        lambda: client.get(SECRET, token=SECRET),
        lambda: retry(on=Leaky).call(client, SECRET),
        lambda: retry(on=Leaky).call(functools.partial(client.__call__, SECRET)),
        lambda: retry(on=Leaky)(client)(SECRET),
        lambda: retry(on=Leaky, budget=sp.keyed(sp.Budget(burst=0), key=lambda path: path))(client)(SECRET),
    ]
    for call in calls:
        with sp.testing.instant(), pytest.raises((Leaky, sp.BudgetExhausted)) as caught:
            call()
        assert SECRET not in text_of(caplog, events, caught.value)
    stop()
    assert len([event for event in events if type(event).__name__ == "GaveUp"]) == len(calls)
    assert caplog.records


def test_deadline_errors_contain_no_arguments():
    with sp.testing.instant() as clock, sp.deadline(1), pytest.raises(sp.DeadlineExceeded) as caught:
        retry(on=Leaky).call(_late, clock, SECRET)
    own = traceback.format_exception_only(caught.value)
    assert SECRET not in "".join(own)


def _late(clock, secret):
    clock.advance(2)
    raise Leaky(secret)


def test_control_characters_cannot_forge_a_line(caplog):
    def call():
        raise Leaky

    call.__qualname__ = "fetch\nWARNING root: forged\x1b[31m" + "x" * 500
    with sp.testing.instant(), pytest.raises(Leaky) as caught:
        retry(on=Leaky)(call)()
    (record,) = caplog.records
    assert "\n" not in record.getMessage() and "\x1b" not in record.getMessage()
    assert len(record.getMessage()) < 400
    assert not any("\n" in note for note in caught.value.__notes__)
