"""A hedge that found all worker threads busy failed the call, although its first attempt was under way.

Stormproof: without a free thread nothing is hedged, and the first attempt may finish.
"""

from __future__ import annotations

import threading
import time

import pytest
from tests.support.scripted import Boom

import stormproof as sp
from stormproof._drivers import threads


@pytest.fixture
def room_for_one(monkeypatch):
    """One more thread may be started, and no other is free."""
    pool = threads._pool
    idle = pool.idle[:]
    pool.idle.clear()
    monkeypatch.setattr(threads, "LIMIT", pool._size + 1)
    yield
    pool.idle.extend(idle)


@pytest.mark.usefixtures("room_for_one")
def test_first_attempt_finishes():
    budget = sp.Budget()
    before, calls = budget.balance, []

    @sp.Policy(sp.Hedge(after=0.01, idempotent=True, budget=budget))
    def fetch():
        calls.append(None)
        time.sleep(0.05)
        return "ok"

    assert fetch() == "ok"
    assert len(calls) == 1
    assert budget.balance >= before, "it paid for an attempt that was not made"


@pytest.mark.usefixtures("room_for_one")
def test_error_of_the_first_attempt_is_raised():
    @sp.Policy(sp.Hedge(after=0.01, idempotent=True, on=KeyError))
    def fetch():
        time.sleep(0.05)
        raise Boom

    with pytest.raises(Boom):
        fetch()


@pytest.mark.usefixtures("room_for_one")
def test_thread_that_could_not_be_started_takes_no_room(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    @sp.Policy(sp.Hedge(after=60, idempotent=True))
    def fetch():
        return "ok"

    with monkeypatch.context() as starved, pytest.raises(RuntimeError, match="can't start new thread"):
        starved.setattr(threading.Thread, "start", refuse)
        fetch()
    assert fetch() == "ok"
