"""Elsewhere the library wrote its own error over the ``__cause__`` that the user had set.

Stormproof: the error that surfaces has the cause, the context and the notes its author gave it; ours is one
note more, and where we raise an error of our own, the user's is its cause, untouched.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import Boom, BudgetSpy, every_way, retry

import stormproof as sp


def chained():
    root = ValueError("root")
    error = Boom("surface")
    error.__cause__ = root
    error.add_note("by the user")
    return error, root


def untouched(error, root):
    return error.__cause__ is root and error.__suppress_context__ and error.__notes__[0] == "by the user"


@every_way
@pytest.mark.parametrize("attempts", [1, 3])
def test_exhausted_error_keeps_its_cause(play, attempts):
    error, root = chained()
    played = play(retry(attempts=attempts), error, ...)
    assert played.error is error and untouched(error, root)
    assert len(error.__notes__) == 2


@every_way
def test_fatal_error_keeps_its_cause(play):
    error, root = chained()
    played = play(retry(on=KeyError), error)
    assert played.error is error and untouched(error, root)
    assert len(error.__notes__) == 1


@every_way
@pytest.mark.parametrize(
    "options", [{"within": 0.5}, {"budget": BudgetSpy(allow=0)}], ids=["within", "budget"]
)
def test_error_behind_a_refusal_keeps_its_cause(play, options):
    error, root = chained()
    assert play(retry(**options), error).error is error and untouched(error, root)
    error, root = chained()
    played = play(retry(raises="refusal", **options), error)
    assert isinstance(played.error, sp.StormproofError)
    assert played.error.__cause__ is error and untouched(error, root)


@every_way
@pytest.mark.parametrize(
    "wrap", [sp.Permanent, lambda error: sp.RetryAfter(1, error)], ids=["Permanent", "RetryAfter"]
)
def test_error_under_a_mark_keeps_its_cause(play, wrap):
    error, root = chained()
    mark = wrap(error)
    mark.__cause__ = KeyError("of the mark")
    played = play(retry(attempts=2), mark, ...)
    assert played.error is error and untouched(error, root)


@every_way
def test_attempts_do_not_become_context_of_each_other(play):
    """Attempts do not hang on each other: no error was raised "during handling" of the one before."""
    played = play(retry(attempts=3), Boom, Boom, Boom).raised_the_last_error()
    assert played.error.__context__ is None and played.error.__cause__ is None


def test_error_keeps_the_callers_exception_as_context():
    """An error raised while the caller handles another one keeps that one, as Python has it."""

    def fails():
        raise Boom

    with sp.testing.instant(), pytest.raises(Boom) as caught:
        try:
            raise KeyError("the caller's")
        except KeyError:
            retry(attempts=2).call(fails)
    context = caught.value.__context__
    assert isinstance(context, KeyError) and context.__context__ is None
