"""tenacity#24, #185, #544: when attempts ran out, callers got a ``RetryError`` that no handler knew.

Stormproof: the caller gets the last exception itself, the same object with its own traceback; what was tried
is a note on it.
"""

from __future__ import annotations

import traceback

import pytest
from tests.support.scripted import Boom, does, every_way, retry

import stormproof as sp


@every_way
@pytest.mark.parametrize("attempts", [1, 2, 4])
@pytest.mark.proves("invariant 6")
def test_last_error_is_raised_as_the_same_object(play, attempts):
    played = play(retry(attempts=attempts), *[Boom] * attempts).raised_the_last_error()
    assert played.error.args == (f"call {attempts}",)


@every_way
@pytest.mark.proves("invariant 6")
def test_last_error_keeps_its_own_traceback(play):
    def deep():
        raise Boom

    def shallow():
        deep()

    played = play(retry(attempts=2), does(shallow), does(shallow)).raised(Boom)
    names = [frame.name for frame in traceback.extract_tb(played.error.__traceback__)]
    assert names[-2:] == ["shallow", "deep"]
    assert names.count("deep") == 1, "the traceback of the last attempt, not of all"


@every_way
def test_attempts_are_reported_in_a_note(play):
    played = play(retry(attempts=3), Boom, Boom, Boom).raised(Boom)
    assert played.notes == [
        "stormproof: 3 attempts in 3.000 s since the first failure; stopped: attempts used up"
    ]


@every_way
def test_handlers_of_the_caller_match(play):
    class Timeout(Boom, TimeoutError):
        pass

    with pytest.raises(TimeoutError):
        raise play(retry(), Timeout, ...).error


@every_way
@pytest.mark.parametrize(
    "wrap", [sp.Permanent, lambda error: sp.RetryAfter(1, error)], ids=["Permanent", "RetryAfter"]
)
def test_permanent_and_retry_after_never_surface(play, wrap):
    def call():
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise wrap(error) from None

    played = play(retry(on=KeyError, attempts=2), *[does(call)] * 2).raised(KeyError)
    names = [frame.name for frame in traceback.extract_tb(played.error.__traceback__)]
    assert names[-1] == "call"


@every_way
def test_mark_around_an_error_never_raised_shows_the_place_of_the_mark(play):
    def call():
        raise sp.Permanent(KeyError("never raised itself"))

    played = play(retry(), does(call)).raised(KeyError)
    assert [frame.name for frame in traceback.extract_tb(played.error.__traceback__)][-1] == "call"


class Connection:
    """Raises one and the same error object for ever, as asyncio's StreamReader does after a reset."""

    def __init__(self):
        self.error = Boom("always the same")
        self.calls = 0

    @retry(attempts=2)
    def decorated(self):
        self.plain()

    def plain(self):
        self.calls += 1
        raise self.error

    def block(self):
        for attempt in retry(attempts=2).retrying():
            with attempt:
                self.plain()

    def shared_block(self):
        for attempt in BLOCK:
            with attempt:
                self.plain()


BLOCK = retry(attempts=2).retrying()
CALLED = retry(attempts=2)


@pytest.mark.parametrize(
    "use",
    [
        Connection.decorated,
        Connection.block,
        Connection.shared_block,
        lambda connection: CALLED.call(connection.plain),
        lambda connection: CALLED.call(lambda *_: connection.plain()),
    ],
    ids=["decorated", "block", "shared block", "call of a method", "call of a lambda"],
)
def test_reused_error_object_is_noted_afresh(use):
    """Noted afresh after each call, and never taken for an error that a layer below has given up on."""
    connection = Connection()
    for turn in (1, 2, 3):
        with sp.testing.instant(), pytest.raises(Boom) as caught:
            use(connection)
        assert caught.value is connection.error
        assert connection.calls == 2 * turn
        assert caught.value.__notes__ == [
            "stormproof: 2 attempts in 1.000 s since the first failure; stopped: attempts used up"
        ]
