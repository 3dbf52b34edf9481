"""The breaker or budget of a key measured real time, although the policy had a clock.

Stormproof: keyed breakers and keyed budgets use the policy's clock.
"""

from __future__ import annotations

import pytest
from tests.support.scripted import Boom

import stormproof as sp


def test_keyed_breaker_uses_the_policys_clock():
    clock = sp.testing.FakeClock()
    breakers = sp.keyed(sp.Breaker(consecutive=1, open_for=30), key=lambda host, fails: host)

    @sp.Policy(breakers, clock=clock)
    def fetch(host, fails=False):
        if fails:
            raise Boom
        return "ok"

    with pytest.raises(Boom):
        fetch("a", fails=True)
    assert fetch("b") == "ok"
    with pytest.raises(sp.CircuitOpen):
        fetch("a")
    clock.advance(31)
    assert fetch("a") == "ok"


def test_keyed_budget_uses_the_policys_clock():
    clock, calls = sp.testing.FakeClock(), []
    budgets = sp.keyed(sp.RateBudget(rate=1, burst=1), key=lambda host: host)

    @sp.retry(on=Boom, attempts=2, budget=budgets, clock=clock, backoff=sp.Constant(0))
    def fetch(host):
        calls.append(host)
        raise Boom

    def calls_made():
        calls.clear()
        with pytest.raises((Boom, sp.BudgetExhausted)):
            fetch("a")
        return len(calls)

    assert calls_made() == 2
    assert calls_made() == 1
    clock.advance(10)
    assert calls_made() == 2
