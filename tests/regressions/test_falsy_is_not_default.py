"""Elsewhere ``[]`` and ``0`` silently turned into the default: options were read with ``x or default``.

Stormproof: 0 means 0. Where that makes no sense it is refused by name; only ``None`` is ever "not given".
"""

from __future__ import annotations

import itertools
import re

import pytest
from tests.support.loops import Loop
from tests.support.scripted import Boom, every_way, retry

import stormproof as sp

REFUSED = {
    "on=()": lambda: sp.Retry(on=()),
    "on=[]": lambda: sp.Retry(on=[]),
    "on=0": lambda: sp.Retry(on=0),
    "on=None": lambda: sp.Retry(on=None),
    "attempts=0": lambda: sp.Retry(attempts=0),
    "backoff=0": lambda: sp.Retry(backoff=0),
    "backoff=()": lambda: sp.Retry(backoff=()),
    "budget=0": lambda: sp.Retry(budget=0),
    "budget=False": lambda: sp.Retry(budget=False),
    "on_result=0": lambda: sp.Retry(on_result=0),
    "on_result=False": lambda: sp.Retry(on_result=False),
    "before_attempt=0": lambda: sp.Retry(before_attempt=0),
    "before_attempt=[]": lambda: sp.Retry(before_attempt=[]),
    "late=''": lambda: sp.Retry(late=""),
    "late=None": lambda: sp.Retry(late=None),
    "max_hint=None": lambda: sp.Retry(max_hint=None),
    "retry_exhausted=0": lambda: sp.Retry(retry_exhausted=0),
    "values=[]": lambda: sp.Schedule([]),
    "jitter=''": lambda: sp.Exponential(jitter=""),
    "jitter=None": lambda: sp.Exponential(jitter=None),
    "base=0": lambda: sp.Exponential(0),
    "cap=0": lambda: sp.Exponential(cap=0),
    "factor=0": lambda: sp.Exponential(factor=0),
    "window=0": lambda: sp.Budget(window=0),
    "name=''": lambda: sp.retry(on=Boom, name=""),
    "rng=False": lambda: sp.retry(on=Boom, rng=False),
    "limit=0": lambda: sp.keyed(sp.Budget(), limit=0),
}


@pytest.mark.parametrize("case", REFUSED)
def test_falsy_option_is_refused_by_name(case):
    field, value = case.split("=")
    with pytest.raises(
        (TypeError, ValueError), match=rf"\b{field}\b.*got {re.escape(value)}|{field} must name"
    ):
        REFUSED[case]()


@every_way
def test_within_0_leaves_no_time_for_a_wait(play):
    played = play(retry(within=0), Boom).stopped_for("within")
    assert played.sleeps == []


@every_way
def test_max_hint_0_heeds_no_hint(play):
    error = Boom("busy")
    played = play(retry(max_hint=0), sp.RetryAfter(0.001, error))
    assert played.error is error and error.retry_after == 0.001
    play(retry(max_hint=0), sp.RetryAfter(0, Boom()), "ok").returned("ok")


@every_way
def test_empty_budget_pays_nothing(play):
    play(retry(budget=sp.Budget(burst=0)), Boom).stopped_for("budget")
    play(retry(budget=sp.Budget(ratio=0, burst=1), attempts=9), Boom, Boom).stopped_for("budget")


@every_way
def test_wait_of_0_does_not_sleep(play):
    play(retry(backoff=sp.Constant(0)), Boom, Boom, "ok").returned("ok").slept(0, 0)


@every_way
def test_deadline_of_0_makes_no_attempt(play):
    played = play(retry(), inside=lambda: sp.deadline(0))  # a first call would be beyond the script
    played.raised(sp.DeadlineExceeded).made(0)


def test_seed_0_is_a_seed():
    schedule = sp.Exponential()
    first, second = ([*itertools.islice(schedule.delays(seed=0), 5)] for _ in range(2))
    assert first == second
    waits = []
    for _ in range(2):
        clock = sp.testing.FakeClock()
        with pytest.raises(Boom):
            retry(backoff=schedule, rng=0, clock=clock).call(_boom)
        waits.append(clock.sleeps)
    assert waits[0] == waits[1] == first[:3]


class Falsy(sp.testing.FakeClock):
    """A clock of the user's own, whose truth value says nothing about whether it was given."""

    def __bool__(self):
        return False


@pytest.mark.parametrize("loop", [None, "asyncio", "trio"])
def test_falsy_clock_is_a_clock(loop):
    clock = Falsy()
    policy = retry(attempts=3, clock=clock, budget=sp.Budget(clock=clock))
    with pytest.raises(Boom), sp.deadline(60, clock=clock):
        Loop(loop).run(policy.acall, _aboom) if loop else policy.call(_boom)
    assert clock.sleeps == [1, 2]


def test_empty_keyed_budget_is_a_budget():
    """It has no keys yet, and so a length of 0."""
    budgets = sp.keyed(sp.Budget(burst=0), key=lambda: "key")
    assert len(budgets) == 0
    with pytest.raises(Boom):
        retry(budget=budgets)(_boom)()


def _boom():
    raise Boom


async def _aboom():
    raise Boom
